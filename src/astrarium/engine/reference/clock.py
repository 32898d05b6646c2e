"""Time: buckets of events per instant, run in the order in which they were scheduled."""

from __future__ import annotations

import heapq
from collections.abc import Callable

from astrarium.errors import UnsupportedError

__all__ = ["Clock", "Event", "NpuEvents"]

Event = Callable[[], None]
END = 2**63  # ps


class Clock:
    """Integer picoseconds; first scheduled, first run within an instant; an event may schedule into its own instant."""

    def __init__(self) -> None:
        self.now = 0
        self.events = 0
        self._instants: list[int] = []
        self._buckets: dict[int, list[Event]] = {}

    def at(self, time: int, event: Event) -> None:
        """Run `event` at `time` (not before now), after everything already scheduled for that instant.

        Raises UnsupportedError where the clock would run over.
        """
        bucket = self._buckets.get(time)
        if bucket is None:
            if time >= END:
                raise UnsupportedError("workload", "time exceeds 2^63 ps (106 days)")
            self._buckets[time] = [event]
            heapq.heappush(self._instants, time)
        else:
            bucket.append(event)

    def run(self) -> None:
        """Run until nothing is scheduled."""
        while self._instants:
            self.now = time = heapq.heappop(self._instants)
            bucket = self._buckets[time]
            for event in bucket:  # the list may grow while it runs
                event()
            self.events += len(bucket)
            del self._buckets[time]


class NpuEvents:
    """One NPU's own events under ASTRA-sim's order: all of an instant are one batch, placed where the first stood."""

    __slots__ = ("_batches", "_clock")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._batches: dict[int, list[Event]] = {}

    def after(self, delay: int, event: Event) -> None:
        """Run `event` in this NPU's batch `delay` ps from now; a zero delay joins the running batch."""
        time = self._clock.now + delay
        batch = self._batches.get(time)
        if batch is None:
            self._batches[time] = [event]
            self._clock.at(time, self._run)
        else:
            batch.append(event)

    def _run(self) -> None:
        time = self._clock.now
        for event in self._batches[time]:  # the list may grow while it runs
            event()
        del self._batches[time]
