"""GPU streams as queues: what was launched when, and what had ended when."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Mapping

from astrarium.profile.link.records import DeviceTrace

__all__ = ["Queues"]

LOOK_BACK = 64      # operations that are looked through where launches and ends are in another order


class Queues:
    """Operations of every stream by launch and by end; `launch` [operations] is when each was launched (ns).

    Where its call is not known, that is its own start, or 0 before the first of its stream whose call is known: those
    were launched before the trace began.
    """

    def __init__(self, trace: DeviceTrace, launcher: Mapping[int, int]) -> None:
        gpu, calls = trace.gpu, trace.calls
        known = [1 << 62] * len(trace.stream_names)
        for g in launcher:
            known[gpu.stream[g]] = min(known[gpu.stream[g]], gpu.start[g])
        self._end = gpu.end
        self.launch = array("q", (calls.start[launcher[g]] if g in launcher else
                                  0 if gpu.start[g] < known[gpu.stream[g]] < 1 << 62 else gpu.start[g]
                                  for g in range(len(gpu.name))))
        order = sorted(range(len(gpu.name)), key=lambda g: (self.launch[g], gpu.start[g], g))
        self.queued: list[list[int]] = [[] for _ in trace.stream_names]
        for g in order:
            self.queued[gpu.stream[g]].append(g)
        self.launches = [[self.launch[g] for g in stream] for stream in self.queued]
        self._ended = [sorted(stream, key=lambda g: (self._end[g], g)) for stream in self.queued]
        self._ends = [[self._end[g] for g in stream] for stream in self._ended]
        self._all_launches = [self.launch[g] for g in order]
        self._latest = array("q")
        for g in order:
            self._latest.append(max(self._end[g], self._latest[-1] if self._latest else 0))

    def last(self, stream: int, launched_before: int, ended_by: int) -> int | None:
        """The last operation of a stream that was launched before a time and ended by another."""
        found = -1
        ended, queued = self._ended[stream], self.queued[stream]
        place = bisect_right(self._ends[stream], ended_by) - 1
        for look in range(place, max(place - LOOK_BACK, -1), -1):
            if self.launch[ended[look]] < launched_before:
                found = ended[look]
                break
        place = bisect_left(self.launches[stream], launched_before) - 1
        for look in range(place, max(place - LOOK_BACK, -1), -1):
            if self._end[queued[look]] <= ended_by:
                found = queued[look] if found < 0 or self._end[queued[look]] > self._end[found] else found
                break
        return found if found >= 0 else None

    def first(self, stream: int, launched_from: int) -> int | None:
        """The first operation launched on a stream from a time on."""
        place = bisect_left(self.launches[stream], launched_from)
        return self.queued[stream][place] if place < len(self.queued[stream]) else None

    def in_flight(self, stream: int, launched_before: int, at: int) -> tuple[int, int | None]:
        """How many operations launched on a stream before a time had not ended at another, and the last that had."""
        launched = bisect_left(self.launches[stream], launched_before)
        ended = bisect_right(self._ends[stream], at)
        return launched - ended, self._ended[stream][ended - 1] if ended else None

    def idle(self, launched_before: int, at: int) -> bool:
        """Whether everything launched before a time, on any stream, had ended at another."""
        place = bisect_left(self._all_launches, launched_before)
        return place == 0 or self._latest[place - 1] <= at
