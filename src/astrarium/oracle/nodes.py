"""The nodes of one rank: which are ready, which lanes have room, and in which order nodes are issued."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from functools import partial

from astrarium.engine.plan import Lane
from astrarium.oracle.clock import ISSUE, Clock, Event
from astrarium.oracle.tables import Table

__all__ = ["Nodes"]

UNLIMITED = 1 << 62
COMM = int(Lane.COMM)

Pick = Callable[[int, list[int]], int]   # (lane, ids of its ready nodes) -> which
Issue = Callable[[int, Event], None]  # starts a node; the event ends it


class Nodes:
    """The nodes of one rank.

    After all completions of an instant the rank issues what it can, once: first lane -1 (which always has room; the
    last entry of the per-lane lists), then each lane in order while it has room. Within a lane nodes go by id; in the
    COMM lane by `order` (priority, latest or earliest ready), then by id. `start` and `end` [nodes] take their times.
    """

    def __init__(self, clock: Clock, rank: int, table: Table, lanes: tuple[int, ...],
                 order: Callable[[int, int], int], issue: Issue, start: list[int] | None,
                 end: list[int] | None, pick: Pick | None = None) -> None:
        self._clock, self._rank, self._table, self._order = clock, rank, table, order
        self._issue_node, self._start, self._end, self._pick = issue, start, end, pick
        self.parents = list(table.parents)
        self._room = [*lanes, UNLIMITED]
        self._heaps: list[list[tuple[int, int]]] = [[] for _ in self._room]
        self._looking = False
        self.flying: set[int] = set()
        self.left = len(table)
        self.finish = 0
        self.busy = 0
        self.ended: Callable[[int], None] | None = None     # told of every completion, before its children
        for node, parents in enumerate(self.parents):
            if not parents:
                self._make_ready(node)

    @property
    def ready(self) -> list[list[int]]:
        """Ready nodes per lane, for the sentences of a stall."""
        return [[node for _, node in heap] for heap in self._heaps]

    def add(self, node: int) -> None:
        """A node that was appended to the table is ready."""
        self.left += 1
        self._make_ready(node)

    def _make_ready(self, node: int) -> None:
        lane = self._table.lane[node]
        heapq.heappush(self._heaps[lane], (self._order(node, self._clock.now) if lane == COMM else 0, node))
        self._want_look()

    def _want_look(self) -> None:
        if not self._looking:
            self._looking = True
            self._clock.at(self._clock.now, ISSUE, (self._rank, 0, 0, 0), self._look)

    def _look(self) -> None:
        self._looking = False
        for lane in (-1, *range(len(self._room) - 1)):
            heap = self._heaps[lane]
            while heap and self._room[lane] > 0:
                node = heapq.heappop(heap)[1]
                if self._pick is not None and heap and lane >= 0:
                    node = self._picked(self._pick, lane, node)
                self._issue(node, lane)

    def _picked(self, pick: Pick, lane: int, first: int) -> int:
        """The node that a scheduling plug-in takes of those that are ready, of which `first` was popped."""
        nodes = sorted([first, *(node for _, node in self._heaps[lane])])
        node = nodes[pick(lane, [self._table.node_id[n] for n in nodes])]
        if node != first:
            heap = self._heaps[lane]
            heap[:] = [entry for entry in heap if entry[1] != node]
            heapq.heapify(heap)
            heapq.heappush(heap, (self._order(first, self._clock.now) if lane == COMM else 0, first))
        return node

    def _issue(self, node: int, lane: int) -> None:
        self._room[lane] -= 1
        self.busy += self._table.busy[node]
        if self._start is not None:
            self._start[node] = self._clock.now
        self.flying.add(node)
        self._issue_node(node, partial(self.complete, node))

    def complete(self, node: int) -> None:
        """The node has ended: its lane has room, its children may be ready."""
        self._room[self._table.lane[node]] += 1
        if self._end is not None:
            self._end[node] = self._clock.now
        self.finish = self._clock.now
        self.flying.discard(node)
        self.left -= 1
        if self.ended is not None:
            self.ended(node)
        for child in self._table.children[node]:
            self.parents[child] -= 1
            if not self.parents[child]:
                self._make_ready(child)
        self._want_look()
