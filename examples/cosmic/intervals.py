"""Values over seeds: their mean with a 95 % interval, and whether a claim holds, does not hold, or is undecided."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from astrarium.search.intervals import student


@dataclass(frozen=True)
class Interval:
    """A mean over `seeds` and the interval around it; without end for a single seed."""

    value: float
    low: float
    high: float
    seeds: int


def over_seeds(values: Sequence[float]) -> Interval | None:
    """The mean of a value per seed; None if there is none."""
    if not values:
        return None
    mean = statistics.mean(values)
    half = math.inf
    if len(values) > 1:
        half = student(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    return Interval(mean, mean - half, mean + half, len(values))


def ratio_over_seeds(ratios: Sequence[float]) -> Interval | None:
    """The geometric mean of a ratio per seed."""
    found = over_seeds([math.log(ratio) for ratio in ratios])
    return None if found is None else Interval(math.exp(found.value), math.exp(found.low),
                                               math.exp(found.high) if found.high < 700 else math.inf, found.seeds)


def times(value: float) -> str:
    """A ratio for a person."""
    return f"{value:.3g}x" if value < 100 else f"{value:,.0f}x"


def points(share: float) -> str:
    """A difference of shares for a person."""
    return f"{100 * share:+.0f} points"


@dataclass(frozen=True)
class Claim:
    """One claim of a finding: that a value is above `least` and below `most`. `said` (the name if empty) comes before
    the value."""

    name: str
    found: Interval
    least: float
    most: float = math.inf
    shown: Callable[[float], str] = times
    said: str = ""

    @property
    def verdict(self) -> str:
        """`undecided` where the interval has values on both sides of the claim."""
        if self.found.low > self.least and self.found.high < self.most:
            return "holds"
        return "does not hold" if self.found.high <= self.least or self.found.low >= self.most else "undecided"

    @property
    def side(self) -> bool:
        """Whether the mean meets the claim."""
        return self.least < self.found.value < self.most

    @property
    def text(self) -> str:
        """The value and its interval."""
        around, said = self.found, self.said or self.name
        if around.seeds == 1 and not math.isfinite(around.high):
            return f"{said} {self.shown(around.value)} (one seed)"
        if around.low == around.high:
            return f"{said} {self.shown(around.value)}"
        return f"{said} {self.shown(around.value)} ({self.shown(around.low)} to {self.shown(around.high)})"


def summed_up(verdicts: Sequence[str]) -> str:
    """The verdict on several claims: that of all, or how many of each."""
    kinds = [kind for kind in ("holds", "does not hold", "undecided") if kind in verdicts]
    if not kinds:
        return "not run"
    if len(kinds) == 1:
        return kinds[0]
    return ", ".join(f"{kind} in {verdicts.count(kind)}" for kind in kinds) + f" of {len(verdicts)}"
