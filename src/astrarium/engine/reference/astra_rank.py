"""One rank under ASTRA-sim's rules: which nodes are ready, which lanes have room, and when the rank has finished."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from functools import partial

from astrarium.engine.plan import Kind
from astrarium.engine.reference.clock import Clock, Event
from astrarium.engine.reference.program import Table

__all__ = ["AstraRank"]

UNLIMITED = 1 << 62
SKIP = int(Kind.SKIP)

Issue = Callable[[int, Event], None]  # starts a node that takes time; the event ends it


class AstraRank:
    """The nodes of one rank.

    At each completion the ready nodes are looked at once, in ascending id, from a snapshot. What a SKIP node frees on
    the way waits for the rank's next event, or is looked at again when nothing of the rank is in flight. Lane -1 (the
    last entry of the per-lane lists) always has room. `start` and `end` [nodes] are kept when given.
    """

    def __init__(self, clock: Clock, table: Table, lanes: tuple[int, ...], issue: Issue,
                 start: list[int] | None, end: list[int] | None) -> None:
        self._clock, self._table, self._issue_node, self._start, self._end = clock, table, issue, start, end
        self.parents = list(table.parents)
        self._room = [*lanes, UNLIMITED]
        self.ready: list[list[int]] = [[] for _ in self._room]
        self._fresh: list[int] = []
        self.flying: set[int] = set()
        self.left = len(table)
        self.finish = -1
        self.busy = 0
        for node, parents in enumerate(self.parents):
            if not parents:
                self.ready[table.lane[node]].append(node)  # ascending, so already a heap

    def look(self) -> None:
        """Issue what can be issued; note the finish when nothing is left."""
        while self._issue_snapshot() and not self.flying:
            pass
        if not self.left and self.finish < 0:
            self.finish = self._clock.now

    def complete(self, node: int) -> None:
        """The node has ended: its lane is free, its children may be ready, and the rank looks again."""
        if self._end is not None:
            self._end[node] = self._clock.now
        self.flying.discard(node)
        self._room[self._table.lane[node]] += 1
        self.left -= 1
        lane = self._table.lane
        for child in self._free_children(node):
            heapq.heappush(self.ready[lane[child]], child)
        self.look()

    def _free_children(self, node: int) -> list[int]:
        freed = []
        for child in self._table.children[node]:
            self.parents[child] -= 1
            if not self.parents[child]:
                freed.append(child)
        return freed

    def _issue_snapshot(self) -> bool:
        """One pass over the ready nodes; True when it issued any."""
        issued, room = False, self._room
        while True:
            best: list[int] | None = None
            for lane, heap in enumerate(self.ready):
                if heap and room[lane] > 0 and (best is None or heap[0] < best[0]):
                    best = heap
            if best is None:
                break
            issued = True
            self._issue(heapq.heappop(best))
        for node in self._fresh:
            heapq.heappush(self.ready[self._table.lane[node]], node)
        self._fresh.clear()
        return issued

    def _issue(self, node: int) -> None:
        now = self._clock.now
        self.busy += self._table.busy[node]
        if self._start is not None:
            self._start[node] = now
        if self._table.kind[node] == SKIP:
            if self._end is not None:
                self._end[node] = now
            self.left -= 1
            self._fresh += self._free_children(node)
            return
        self._room[self._table.lane[node]] -= 1
        self.flying.add(node)
        self._issue_node(node, partial(self.complete, node))
