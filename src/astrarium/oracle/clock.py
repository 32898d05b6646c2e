"""Time: the order of what happens in an instant, durations in ps, and work at a speed that changes.

An instant is a sequence of batches; each is the lowest class of events that has any, in the order of their keys. So no
result depends on the order in which events were scheduled, nor on how ranks are numbered.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Callable, Hashable, Mapping, Sequence
from operator import itemgetter
from typing import Generic, TypeVar, cast

import numpy as np

from astrarium.engine.plan import FULL_SPEED, Changes, Changing
from astrarium.errors import UnsupportedError

__all__ = ["ARRIVE", "DEPART", "DONE", "ISSUE", "NEVER", "Clock", "Event", "Key", "Order", "Rates", "collective_order",
           "message_order", "rates_of", "ticks"]

DONE, ISSUE, DEPART, ARRIVE = range(4)      # classes of events

Event = Callable[[], None]
Key = tuple[int, int, int, int]     # rank, node index, chunk, number; of what arrives: its order, then rank and node
Order = tuple[int, int]

NEVER = 2**63 - 1       # ps
LONGEST_NS = 9.2e15     # about 2^63 ps

Which = TypeVar("Which", bound=Hashable)
Other = TypeVar("Other", bound=Hashable)

_key = itemgetter(0)


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


class Clock:
    """Integer picoseconds. In an instant: run the lowest class that has events, all in key order; look again."""

    def __init__(self) -> None:
        self.now = 0
        self.events = 0
        self._instants: list[int] = []
        self._buckets: dict[int, tuple[list[tuple[Key, Event]], ...]] = {}

    def at(self, time: int, kind: int, key: Key, event: Event) -> None:
        """Run `event` of class `kind` at `time` (not before now)."""
        bucket = self._buckets.get(time)
        if bucket is None:
            if time > NEVER:
                raise UnsupportedError("workload", "time exceeds 2^63 ps (106 days)")
            bucket = self._buckets[time] = ([], [], [], [])
            heapq.heappush(self._instants, time)
        bucket[kind].append((key, event))

    def run(self) -> None:
        """Run until nothing is scheduled."""
        while self._instants:
            self.instant()

    def next_time(self) -> int:
        """The next instant that has events; NEVER if there is none."""
        return self._instants[0] if self._instants else NEVER

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


class Rates(Generic[Which]):
    """The changes of speed of some things (links, NPUs), all known beforehand; false if there are none.

    A speed is a number of parts per million of full speed, constant from one change to the next. Work is given as the
    ps that it takes at full speed. Whole numbers throughout; an end is rounded up to a ps.
    """

    def __init__(self, steps: Mapping[Which, tuple[list[int], list[int]]]) -> None:
        """`steps`: per thing the ascending times of its changes, and its speed from each on."""
        self._steps = dict(steps)

    def __bool__(self) -> bool:
        return bool(self._steps)

    def finish(self, which: Which, start: int, work: int) -> int:
        """When work that begins at `start` ends; NEVER where it stands still for ever before. Raises UnsupportedError
        beyond 2^63 ps."""
        times, speeds = self._steps.get(which, ([], []))
        step, now, left = bisect_right(times, start), start, work * FULL_SPEED
        while left > 0:
            speed = speeds[step - 1] if step else FULL_SPEED
            until = times[step] if step < len(times) else NEVER
            if left <= speed * (until - now):
                return now - -left // speed
            if until == NEVER:
                if speed:
                    raise UnsupportedError("workload", "time exceeds 2^63 ps (106 days)")
                return NEVER
            left -= speed * (until - now)
            now, step = until, step + 1
        return now

    def speed(self, which: Which, at: int) -> int:
        """Parts per million at a time."""
        times, speeds = self._steps.get(which, ([], []))
        step = bisect_right(times, at)
        return speeds[step - 1] if step else FULL_SPEED

    def stops(self, which: Which) -> int | None:
        """Since when it stands still for ever; None where it does not."""
        times, speeds = self._steps.get(which, ([], []))
        if not speeds or speeds[-1]:
            return None
        first = len(speeds) - 1
        while first and not speeds[first - 1]:
            first -= 1
        return times[first]

    def renamed(self, names: Sequence[Other]) -> Rates[Other]:
        """These changes under other names, `names[number]`."""
        return Rates({names[cast(int, which)]: steps for which, steps in self._steps.items()})

    def changes(self) -> list[tuple[int, Which]]:
        """What changes when, in order of time."""
        return sorted(((time, which) for which, (times, _) in self._steps.items() for time in times),
                      key=lambda change: change[0])


def rates_of(changes: Changes | None, what: Changing) -> Rates[int]:
    """The changes of all NPUs, or of all links, by number. Of changes of one thing at one time the last row counts."""
    steps: dict[int, tuple[list[int], list[int]]] = {}
    if changes is None:
        return Rates(steps)
    for row in np.argsort(changes.time, kind="stable").tolist():
        if changes.what[row] == what:
            times, speeds = steps.setdefault(int(changes.number[row]), ([], []))
            times.append(int(changes.time[row]))
            speeds.append(int(changes.factor[row]))
    return Rates(steps)
