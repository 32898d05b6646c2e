"""Which instances are up, when they go down and start, and for how long each was down."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from msgspec import Struct, field

from astrarium.serving.fleet import Fleet
from astrarium.serving.server import CLOCK

__all__ = ["DOWN", "READY", "Health", "Push"]

Push = Callable[[int, int, int], int]       # (time in ps, kind, instance) -> the order of an event
DOWN, FAIL, START, READY = range(3, 7)      # kinds of events: it goes down, as stated or at random; starts; is up


class Health(Struct):
    """The state of each instance: whether it is `up`, the event with which it will start or be up (`coming`, 0: none),
    how often it `failed`, since when it is down (`since`, ps; -1: never was up) and for how long it `was` before (ps).

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
        self.coming, self.failed, self.was = ([0] * count for _ in range(3))
        self.since = [0 if up else -1 for up in self.up]
        seed = self.fleet.outages.seed
        self.draws = [np.random.Generator(np.random.PCG64([seed, number])) for number in range(count)]

    def prepare(self, push: Push) -> None:
        """Write down what is stated, and the first failures at random."""
        for time, number, starts in self.fleet.outages.changes:
            push(time, START if starts else DOWN, number)
        for number in range(len(self.fleet.instances)):
            self._draw(number, 0, push)

    def change(self, kind: int, order: int, number: int, now: int, push: Push) -> bool | None:
        """An event of an instance. True: it is up now; False: it was up and is down; None: nothing of the kind."""
        startup = self.fleet.instances[number].startup
        if kind == START:
            if not self.up[number] and self.coming[number] in (0, order):
                self.coming[number] = push(now + startup, READY, number)
            return None
        if kind == READY:
            if self.coming[number] != order:
                return None
            self.was[number] = self.down(number, now)
            self.up[number], self.coming[number] = True, 0
            return True
        was, there = self.up[number], self.up[number] or self.coming[number] > 0
        self.up[number], self.coming[number] = False, 0
        if was:
            self.failed[number] += 1
            self.since[number] = now
        if kind != DOWN:
            start = now + self.fleet.outages.repair
            if there:
                self.coming[number] = push(start, START, number)
            self._draw(number, start + startup, push)
        return False if was else None

    def down(self, number: int, end: int) -> int:
        """For how many ps an instance has been down by `end`, since it was first up."""
        return self.was[number] + (0 if self.up[number] or self.since[number] < 0 else end - self.since[number])

    def _draw(self, number: int, now: int, push: Push) -> None:
        """The next failure at random of an instance that is up from `now` on."""
        mtbf = self.fleet.outages.mtbf
        if mtbf:
            lasts = round(self.draws[number].exponential(mtbf / self.fleet.instances[number].npus))
            if now + lasts <= CLOCK:
                push(now + lasts, FAIL, number)
