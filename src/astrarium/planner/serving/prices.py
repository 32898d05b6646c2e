"""What engines cost and draw: money of an hour, money and energy of tokens."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from astrarium.errors import InputError
from astrarium.planner.machine import Machine
from astrarium.planner.objective import OBJECTIVES, Objective
from astrarium.planner.serving.service import Service

__all__ = ["Price", "price_of"]

HOUR, JOULES, MEGA = 3.6e12, 3.6e6, 1e6    # ns, of a kWh, tokens


class Price(Struct, frozen=True):
    """US dollars (`cost`) and kWh (`energy`) of a ns of `npus` NPUs; None: what they need is not known."""

    npus: int
    cost: Objective | None = None
    energy: Objective | None = None

    def hour(self, busy: float = 1.0) -> float | None:
        """US dollars of an hour of an NPU that computes a share `busy` of the time."""
        return None if self.cost is None else self.cost.value(HOUR, HOUR * busy) / self.npus

    def figures(self, tokens: float, busy: float) -> Mapping[str, float]:
        """US dollars of 10^6 output tokens and J of one, for `tokens` per second and NPU."""
        second = 1e9 / self.npus / tokens if tokens else float("inf")
        found = {}
        if self.cost is not None:
            found["cost_per_mega_tokens"] = self.cost.value(second, second * busy) * MEGA
        if self.energy is not None:
            found["joules_per_token"] = self.energy.value(second, second * busy) * JOULES
        return found


def price_of(machine: Machine, service: Service, *, needed: bool) -> Price:
    """The price of a machine. Raises InputError for a price that is `needed` and not known."""
    made: dict[str, Objective] = {}
    for name in ("cost", "energy"):
        try:
            made[name] = OBJECTIVES[name](machine, service)
        except InputError:
            if needed and name == "cost":
                raise
    return Price(machine.npus, made.get("cost"), made.get("energy"))
