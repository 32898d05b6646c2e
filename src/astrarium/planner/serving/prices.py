"""What engines cost, draw and emit: of an hour, and of tokens."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from astrarium.errors import InputError
from astrarium.planner.machine import Machine
from astrarium.planner.objective import OBJECTIVES, Objective
from astrarium.planner.serving.service import Service

__all__ = ["RANKED", "Price", "price_of"]

HOUR, JOULES, MEGA = 3.6e12, 3.6e6, 1e6    # ns, of a kWh, tokens
RANKED: Mapping[str, str] = MappingProxyType({"cost": "$/h", "energy": "kW", "carbon": "kg CO2/h"})
"""Objectives that weigh GPUs -> the unit of the weight."""


class Price(Struct, frozen=True):
    """`rates`: objective of RANKED -> US dollars, kWh or kg of CO2 of a ns of `npus` NPUs, as far as they are known."""

    npus: int
    rates: Mapping[str, Objective]

    def hour(self, name: str) -> float:
        """The amount of an hour of an NPU that computes all the time."""
        return self.rates[name].value(HOUR, HOUR) / self.npus

    def figures(self, tokens: float, busy: float) -> Mapping[str, float]:
        """US dollars, J and kg of CO2 of 10^6 output tokens, for `tokens` per second and NPU."""
        second = 1e9 / self.npus / tokens if tokens else float("inf")
        found = {name: rate.value(second, second * busy) for name, rate in self.rates.items()}
        units = {"cost": ("cost_per_mega_tokens", MEGA), "energy": ("energy_per_mega_tokens", JOULES * MEGA),
                 "carbon": ("carbon_per_mega_tokens", MEGA)}
        return {key: found[name] * units_of for name, (key, units_of) in units.items() if name in found}


def price_of(machine: Machine, service: Service, needed: str) -> Price:
    """The price of a machine. Raises InputError if what the objective `needed` weighs by is not known."""
    made: dict[str, Objective] = {}
    for name in RANKED:
        try:
            made[name] = OBJECTIVES[name](machine, service)
        except InputError:
            if name == needed:
                raise
    return Price(machine.npus, made)
