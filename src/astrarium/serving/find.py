"""The highest rate of requests at which a stream holds its limits."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from msgspec import Struct

from astrarium.serving.outcome import Served
from astrarium.serving.slo import Limit, Slo

__all__ = ["REACH", "TOLERANCE", "FoundRate", "Tried", "find_rate", "rate_of", "step_of"]

TOLERANCE = 0.02
REACH = 64.0
NEAR, FAR = 1.5, 32     # times its limit that a value is near; steps of the grid that a search goes far from others
NOTHING = 1e-9


class Tried(Struct, frozen=True):
    """A rate (requests/s) and what came of it: the largest value as a share of its limit (infinite: saturated), and
    which limit that is."""

    rate: float
    worst: float
    limit: Limit
    served: Served

    @property
    def holds(self) -> bool:
        """Whether all limits hold."""
        return self.worst <= 1

    @property
    def why(self) -> str:
        """What does not hold, in words."""
        return "saturated" if math.isinf(self.worst) else f"{self.limit.name} is {self.worst:.3g} x its limit"


class FoundRate(Struct, frozen=True):
    """`best`: the highest rate that holds (None: none does); `beyond`: the lowest one tried that does not (None: all
    hold); `tried`: all, in order."""

    best: Tried | None
    beyond: Tried | None
    tried: tuple[Tried, ...]


def find_rate(serve_at: Callable[[float], Served], slo: Slo, start: float, *, tolerance: float = TOLERANCE,
              reach: float = REACH) -> FoundRate:
    """Search the highest rate at which all limits of `slo` hold, on the grid of rates `(1 + tolerance) ** k`: so the
    answer is the same wherever the search starts.

    Args:
        serve_at: Serves the stream at a rate in requests/s. Give it one seed, so that all rates have the same requests
            and arrivals that only come closer together (common random numbers).
        slo: The limits.
        start: A first guess.
        tolerance: Share by which neighbouring rates of the grid differ.
        reach: Times that a rate may be above or below the first guess; others are not tried.

    Returns:
        The rate, assuming that one which holds still does if requests come more slowly.
    """
    tried: dict[int, Tried] = {}
    first, most = step_of(start, tolerance), math.ceil(math.log(reach, 1 + tolerance))
    low, high, step = first - most - 1, first + most + 1, first
    while high - low > 1:
        rate = rate_of(step, tolerance)
        served = serve_at(rate)
        tried[step] = Tried(rate, *slo.worst(served), served)
        low, high = (step, high) if tried[step].holds else (low, step)
        step = min(max(_next(low, high, tried, step), low + 1), high - 1)
    return FoundRate(tried.get(low), tried.get(high), tuple(tried.values()))


def step_of(rate: float, tolerance: float = TOLERANCE) -> int:
    """The number of the lowest rate of the grid that is not below `rate`."""
    return math.ceil(math.log(rate, 1 + tolerance) - NOTHING)


def rate_of(step: int, tolerance: float = TOLERANCE) -> float:
    """The rate of a number on the grid, requests/s."""
    return float((1 + tolerance) ** step)


def _next(low: int, high: int, tried: Mapping[int, Tried], last: int) -> int:
    """The next step. As long as nothing is tried at one end: further each time from the last, less far where its
    largest value is near the limit. Then where that would be at the limit if its logarithm were linear in the step's
    number, and one step on from there to the end that was not tried last, so that the bracket closes from both."""
    here = tried[last]
    if low not in tried or high not in tried:
        far = 2 ** len(tried) if 1 / NEAR < here.worst < NEAR else FAR * len(tried)
        return last + far if here.holds else last - far
    below, above = tried[low].worst, tried[high].worst
    if math.isinf(above) or not below > 0:
        return (low + high) // 2
    share = math.log(below) / (math.log(below) - math.log(above)) if above > below else 0.5
    return low + round(share * (high - low)) + (1 if last == low else -1)
