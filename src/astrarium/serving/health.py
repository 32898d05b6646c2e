"""Which instances are up, when the next one fails at random, and for how long each was down."""

from __future__ import annotations

import numpy as np
from msgspec import Struct, field

from astrarium.serving.fleet import Fleet

__all__ = ["Health"]


class Health(Struct):
    """The state of each instance: whether it is `up`, the event with which it will begin to start or be up (`coming`,
    0: none), how often it `failed`, since when it is down (`since`, ps) and for how long it `was` before that (ps).

    Every instance has random numbers of its own, so a failure of one does not move those of others.
    """

    fleet: Fleet
    up: list[bool] = field(default_factory=list)
    coming: list[int] = field(default_factory=list)
    failed: list[int] = field(default_factory=list)
    since: list[int] = field(default_factory=list)
    was: list[int] = field(default_factory=list)
    draws: list[np.random.Generator] = field(default_factory=list)

    def __post_init__(self) -> None:
        first: dict[int, bool] = {}
        for _, number, starts in sorted(self.fleet.outages.changes):
            first.setdefault(number, starts)
        count = len(self.fleet.instances)
        self.up = [not first.get(number, False) for number in range(count)]     # who starts later was not there
        self.coming, self.failed, self.since, self.was = ([0] * count for _ in range(4))
        seed = self.fleet.outages.seed
        self.draws = [np.random.Generator(np.random.PCG64([seed, number])) for number in range(count)]

    def lasts(self, number: int) -> int | None:
        """For how many ps an instance runs until it fails at random; None: for ever."""
        mtbf = self.fleet.outages.mtbf
        return round(self.draws[number].exponential(mtbf / self.fleet.instances[number].npus)) if mtbf else None

    def fail(self, number: int, now: int) -> bool:
        """An instance goes down; whether it was up."""
        was, self.up[number], self.coming[number] = self.up[number], False, 0
        if was:
            self.failed[number] += 1
            self.since[number] = now
        return was

    def rise(self, number: int, now: int) -> None:
        """An instance is up."""
        self.up[number], self.coming[number] = True, 0
        self.was[number] += now - self.since[number]

    def down(self, number: int, end: int) -> int:
        """For how many ps an instance has been down, or was not there yet, by `end`."""
        return self.was[number] + (0 if self.up[number] else end - self.since[number])
