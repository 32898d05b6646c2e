"""Nodes and dependencies while they are being collected: columns that grow, and their order in time."""

from __future__ import annotations

from array import array

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from astrarium.arrays import I64

__all__ = ["GAP", "GPU", "LABEL", "MESSAGE", "Draft", "Order", "ordered"]


# parts beyond those of threads.py
GPU, LABEL, MESSAGE, GAP = 4, 5, 6, 7


class Draft(Struct):
    """Nodes in order of making; arrays [nodes], times in ns. Edges are (before, after) pairs of node numbers.

    `part` and `of` as in `Stretches`; GPU: a GPU operation; LABEL: a host node without a time, `of` its number in the
    host trace; MESSAGE: a further message of the node `of`, `lane` its number; GAP: idle time of a stream
    before the GPU operation `of`, `lane` -2 less the stream's number. `lane`: else the number of the thread or stream.
    `waits`: [edges] 1 where a host node waits until the GPU has nothing to do.
    """

    start: array[int] = field(default_factory=lambda: array("q"))
    end: array[int] = field(default_factory=lambda: array("q"))
    part: array[int] = field(default_factory=lambda: array("b"))
    of: array[int] = field(default_factory=lambda: array("q"))
    lane: array[int] = field(default_factory=lambda: array("q"))
    before: array[int] = field(default_factory=lambda: array("q"))
    after: array[int] = field(default_factory=lambda: array("q"))
    waits: array[int] = field(default_factory=lambda: array("b"))

    def node(self, start: int, end: int, part: int, of: int, lane: int) -> int:
        self.start.append(start)
        self.end.append(end)
        self.part.append(part)
        self.of.append(of)
        self.lane.append(lane)
        return len(self.start) - 1

    def edge(self, before: int, after: int, waits: int = 0) -> None:
        self.before.append(before)
        self.after.append(after)
        self.waits.append(waits)

    def __len__(self) -> int:
        return len(self.start)


class Order(Struct, frozen=True, eq=False):
    """`place[node]` counts nodes in an order in which no edge goes back; `node[place]` is its inverse. Edges, without
    duplicates and by `after`, then `before`, count in places: parents of place p are `before[ptr[p]:ptr[p + 1]]`.
    `dropped`: edges that would have closed a cycle."""

    place: I64
    node: I64
    ptr: I64
    before: I64
    waits: npt.NDArray[np.int8]
    dropped: int


def ordered(draft: Draft) -> Order:
    """Nodes by start, then end, then order of making; where an edge goes back in that order, it is dropped unless the
    two can be exchanged within their tie."""
    start, end = _numbers(draft.start), _numbers(draft.end)
    before, after = _numbers(draft.before), _numbers(draft.after)
    waits = np.frombuffer(draft.waits, np.int8) if len(draft.waits) else np.zeros(0, np.int8)
    count = start.size
    node = np.lexsort((np.arange(count), end, start))
    place = np.empty(count, np.int64)
    place[node] = np.arange(count)
    if (place[before] >= place[after]).any():
        node, place = _settled(node, before, after)
    good = place[before] < place[after]
    key = place[after[good]] * np.int64(max(count, 1)) + place[before[good]]
    unique, first = np.unique(key, return_index=True)
    ptr = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(unique // max(count, 1), minlength=count), out=ptr[1:])
    return Order(place, node, ptr, unique % max(count, 1), waits[good][first], int((~good).sum()))


def _numbers(values: array[int]) -> I64:
    return np.frombuffer(values, np.int64) if len(values) else np.zeros(0, np.int64)


def _settled(node: I64, before: I64, after: I64) -> tuple[I64, I64]:
    """An order by time that also respects edges, as far as they close no cycle: every node after what it waits for."""
    by_after = np.argsort(after, kind="stable")
    parents, ptr = before[by_after].tolist(), np.searchsorted(after[by_after], np.arange(node.size + 1)).tolist()
    out: list[int] = []
    done, open_ = bytearray(node.size), bytearray(node.size)
    for first in node.tolist():
        stack = [first]
        while stack:
            top = stack[-1]
            open_[top] = 1
            missing = [] if done[top] else [p for p in parents[ptr[top]:ptr[top + 1]] if not done[p] and not open_[p]]
            stack += missing[::-1]
            if missing:
                continue
            if not done[top]:
                out.append(top)
            done[top], open_[top] = 1, 0
            stack.pop()
    settled = np.array(out, np.int64)
    place = np.empty(settled.size, np.int64)
    place[settled] = np.arange(settled.size)
    return settled, place
