"""The values that an exact search has found, and whether a design with given lower bounds can still matter."""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Archive"]


class Archive:
    """The best value of one objective, or the front of two (less is better): values of which none is at least as low as
    another in both. A design is *beaten* if some value is at most its lower bounds in every objective: then it is
    neither better nor a new value of the front."""

    def __init__(self, objectives: int):
        self.objectives = objectives
        self.first: list[float] = []        # ascending
        self.second: list[float] = []       # of two objectives: descending

    @property
    def best(self) -> float:
        """The lowest first value; infinity if there is none."""
        return self.first[0] if self.first else math.inf

    def add(self, values: Sequence[float]) -> None:
        """Add the values of a design; those of an infeasible one are infinite and do not count."""
        if not all(map(math.isfinite, values)) or self.beaten(values):
            return
        if self.objectives == 1:
            self.first = [values[0]]
            return
        at = bisect.bisect_left(self.first, values[0])
        end = at
        while end < len(self.first) and self.second[end] >= values[1]:
            end += 1
        self.first[at:end], self.second[at:end] = [values[0]], [values[1]]

    def beaten(self, lows: Sequence[float]) -> bool:
        """Whether a design with these lower bounds is beaten."""
        if self.objectives == 1:
            return lows[0] >= self.best
        at = bisect.bisect_right(self.first, lows[0])
        return bool(at) and self.second[at - 1] <= lows[1]

    def open(self, lows: Sequence[npt.NDArray[np.float64]]) -> npt.NDArray[np.bool_]:
        """[designs] which are not beaten; `lows`: arrays of lower bounds, one per objective. NaN is not beaten."""
        if self.objectives == 1:
            return ~(lows[0] >= self.best)
        known: npt.NDArray[Any] = np.array([math.inf, *self.second])
        return ~(known[np.searchsorted(self.first, lows[0], side="right")] <= lows[1])
