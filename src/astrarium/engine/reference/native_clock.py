"""The native clock: an instant is a sequence of batches, each the lowest non-empty class of events in key order."""

from __future__ import annotations

import heapq
from operator import itemgetter

from astrarium.engine.reference.clock import Event
from astrarium.errors import UnsupportedError

__all__ = ["ARRIVE", "DEPART", "DONE", "ISSUE", "BatchClock", "Key", "Order", "collective_order", "message_order",
           "ticks"]

DONE, ISSUE, DEPART, ARRIVE = range(4)

Key = tuple[int, int, int, int]  # rank, node index, chunk, number; of what arrives: its order, then rank and node
Order = tuple[int, int]

_key = itemgetter(0)

NOTHING = 2**63 - 1
LONGEST_NS = 9.2e15     # about 2^63 ps


def ticks(ns: float) -> int:
    """A duration in ps: the double in ns times 1000, rounded half to even once. UnsupportedError beyond 2^63 ps."""
    if not 0 <= ns < LONGEST_NS:
        raise UnsupportedError("workload", "a delay of more than 2^63 ps (106 days)")
    return round(ns * 1000.0)


def collective_order(collective: int, chunk: int, phase: int, receive: int) -> Order:
    """The order of a step of a collective among the messages that arrive in one instant."""
    return collective << 32 | chunk, phase << 32 | receive


def message_order(size: int) -> Order:
    """The order of another message, behind those: by bytes."""
    return 2**64 - 1, size


class BatchClock:
    """Integer picoseconds. Within an instant: the lowest class that has events, all in key order; look again."""

    def __init__(self) -> None:
        self.now = 0
        self.events = 0
        self._instants: list[int] = []
        self._buckets: dict[int, tuple[list[tuple[Key, Event]], ...]] = {}

    def at(self, time: int, kind: int, key: Key, event: Event) -> None:
        """Run `event` of class `kind` at `time` (not before now)."""
        bucket = self._buckets.get(time)
        if bucket is None:
            if time > NOTHING:
                raise UnsupportedError("workload", "time exceeds 2^63 ps (106 days)")
            bucket = self._buckets[time] = ([], [], [], [])
            heapq.heappush(self._instants, time)
        bucket[kind].append((key, event))

    def run(self) -> None:
        """Run until nothing is scheduled."""
        while self._instants:
            self.instant()

    def next_time(self) -> int:
        """The next instant that has events; 2^63 - 1 when there is none."""
        return self._instants[0] if self._instants else NOTHING

    def instant(self) -> None:
        """Run the next instant to its end."""
        self.now = time = self._instants[0]
        bucket = self._buckets[time]
        while True:
            waiting = bucket[DONE] or bucket[ISSUE] or bucket[DEPART] or bucket[ARRIVE]
            if not waiting:
                break
            batch = sorted(waiting, key=_key)
            waiting.clear()
            self.events += len(batch)
            for _, event in batch:
                event()
        heapq.heappop(self._instants)
        del self._buckets[time]
