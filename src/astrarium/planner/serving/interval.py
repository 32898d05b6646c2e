"""What the interval of an engine's TPOT means for its rate."""

from __future__ import annotations

from astrarium.cost.interval import Interval
from astrarium.planner.serving.ceiling import Ceiling
from astrarium.planner.serving.pools import PoolsCeiling

__all__ = ["span_of"]

NOTHING = 1e-6      # requests/s


def span_of(rate: float, ceiling: Ceiling | PoolsCeiling, within: Interval) -> tuple[float, float] | None:
    """The rates at which the limits hold if steps are as much longer or shorter as the interval says, by the first
    guess of such steps; None without an interval."""
    guess = ceiling.guess()
    if within.low is None or within.high is None or guess < NOTHING:
        return None
    return rate * ceiling.guess(within.high) / guess, rate * ceiling.guess(within.low) / guess
