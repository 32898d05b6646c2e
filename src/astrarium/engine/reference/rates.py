"""Work at a speed that changes: when what begins now will end, as the plan says all changes beforehand.

The speed of a thing is a number of parts per million of its full speed, constant from one of its changes to the next.
Work is given as the ps that it takes at full speed; in a ps it goes on by the speed, of a million that each ps of work
has. Whole numbers throughout; an end is rounded up to a ps.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Mapping, Sequence
from typing import Generic, TypeVar, cast

import numpy as np

from astrarium.engine.plan import FULL_SPEED, Changes, Changing
from astrarium.errors import UnsupportedError

__all__ = ["NEVER", "Rates", "rates_of"]

NEVER = 2**63 - 1

Which = TypeVar("Which", bound=Hashable)
Other = TypeVar("Other", bound=Hashable)


class Rates(Generic[Which]):
    """The changes of speed of some things; false where there are none. Times in ps."""

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
        """The same of other names, by number."""
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
