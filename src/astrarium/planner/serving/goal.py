"""What engines are ranked by: requests of a number of GPUs, or GPUs for a rate of requests."""

from __future__ import annotations

import math
from collections.abc import Mapping

from msgspec import Struct, field

from astrarium.errors import InputError

__all__ = ["Goal", "goal_of"]

NOTHING = 1e-9
MOST = 1e9      # GPUs, or requests per second
LEAST = 1e-3    # requests per second: the clock has no room for a stream of slower ones


class Goal(Struct, frozen=True):
    """`gpus`: the most requests/s and GPU that whole engines on so many NPUs serve; `rate`: the fewest GPUs that serve
    so many requests/s. One of the two is None. `prices`: what an hour of an NPU of each device costs, draws or emits,
    in `unit`; then this counts in place of GPUs."""

    gpus: int | None = None
    rate: float | None = None
    prices: Mapping[str, float] = field(default_factory=dict)
    unit: str = ""

    @property
    def text(self) -> str:
        """What is asked, in words."""
        asked = f"on {self.gpus:,} GPUs" if self.gpus is not None else f"for {self.rate:,.4g} requests/s"
        prices = ", ".join(f"{device} {price:,.3g} {self.unit}" for device, price in self.prices.items())
        return asked + (f", weighted by an hour of a GPU ({prices})" if prices else "")

    def engines(self, npus: int, rate: float) -> int:
        """Engines of so many NPUs and that rate each."""
        if self.rate is None:
            assert self.gpus is not None
            return self.gpus // npus
        return math.ceil(self.rate / rate) if rate > 0 else 0

    def load(self, npus: int, rate: float) -> float:
        """Requests/s of each engine: its rate, or its share of the rate that is asked for."""
        return rate if self.rate is None else self.rate / self.engines(npus, rate)

    def order(self, device: str, npus: int, rate: float) -> tuple[float, float]:
        """Smaller is better: (the value, what decides between equal ones)."""
        price = self.prices.get(device, 1.0)
        if rate <= 0:
            return math.inf, math.inf
        if self.gpus is not None:
            return -self.engines(npus, rate) * rate / self.gpus / price, npus
        return self.engines(npus, rate) * npus * price, -rate / npus

    def needed(self, device: str, npus: int, value: float) -> float:
        """The rate with which an engine of so many NPUs reaches a value; infinite where none does."""
        price = self.prices.get(device, 1.0)
        if self.gpus is not None:
            return -value * self.gpus * price / self.engines(npus, 1.0)
        assert self.rate is not None
        many = math.floor(value / npus / price + NOTHING) if math.isfinite(value) else 0
        return self.rate / many if many else math.inf


def goal_of(gpus: int | None, rate: float | None) -> Goal:
    """The goal. Raises InputError where not exactly one is given."""
    if (gpus is None) == (rate is None):
        raise InputError("gpus", "is missing" if gpus is None else "and rate are both there", expected="--gpus N (the "
                         "most requests of them) or --rate R (the fewest GPUs for it)")
    for name, value, least in (("gpus", gpus, 1), ("rate", rate, LEAST)):
        if value is not None and not least <= value < MOST:
            raise InputError(name, f"{value:g}", expected=f"{least:g} or more, and less than {MOST:g}")
    return Goal(gpus, rate)
