"""Designs that run at a time, of which each one that is finished is replaced at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from astrarium.search.axes import Point
from astrarium.search.store import Store
from astrarium.search.trial import Trial, Verdict

__all__ = ["Flight", "Runner"]


class Runner(Protocol):
    """Runs points by themselves (`Workers`)."""

    def begin(self, number: int, point: Point) -> None:
        """Let a point run."""

    def finished(self) -> tuple[int, Verdict]:
        """Wait for a point that was begun; returns its number and its verdict."""


class Flight:
    """Runs points, each with the number of its ask. Equal designs run once: a design that is known, or that runs
    already, waits for the verdict. `key`: a function from a point to the hash of its design; `asked`: the points
    without a verdict."""

    def __init__(self, workers: Runner, store: Store, key: Callable[[Point], bytes]):
        self._workers, self._store, self._key = workers, store, key
        self.asked: dict[int, Point] = {}
        self._begun = -1      # the last ask that runs
        self._waiting: dict[bytes, list[int]] = {}      # design that runs -> its asks
        self._finished: deque[tuple[int, Verdict | None]] = deque()      # without a verdict: that of an earlier trial

    def finished(self) -> Trial:
        """Let the points that were asked for run, and wait for the next one; its trial is the next one of the store."""
        for ask, point in self.asked.items():
            if ask > self._begun:
                self._begin(ask, self._key(point))
                self._begun = ask
        if not self._finished:
            ask, verdict = self._workers.finished()
            first, *more = self._waiting.pop(self._key(self.asked[ask]))
            self._finished.extend([(first, verdict), *((each, None) for each in more)])
        ask, found = self._finished.popleft()
        key = self._key(self.asked[ask])
        if found is not None:
            return Trial(self._store.count, ask, self.asked[ask], key, None, found)
        same, known = self._store.known([key])[key]
        return Trial(self._store.count, ask, self.asked[ask], key, same, known)

    def _begin(self, ask: int, key: bytes) -> None:
        if key in self._waiting:
            self._waiting[key].append(ask)
        elif key in self._store.given:
            self._finished.append((ask, self._store.given[key]))
        elif self._store.known([key]):
            self._finished.append((ask, None))
        else:
            self._waiting[key] = [ask]
            self._workers.begin(ask, self.asked[ask])
