"""What engines cost, draw and emit: of an hour, and of tokens."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from astrarium.errors import InputError
from astrarium.planner.machine import Machine
from astrarium.planner.objective import OBJECTIVES, Objective
from astrarium.planner.serving.service import Service
from astrarium.serving.outcome import Served
from astrarium.serving.prices import amounts

__all__ = ["RANKED", "Price", "price_of"]

HOUR = 3.6e12      # ns
RANKED: Mapping[str, str] = MappingProxyType({"cost": "$/h", "energy": "kW", "carbon": "kg CO2/h"})
"""Objectives that weigh GPUs -> the unit of the weight."""


class Price(Struct, frozen=True):
    """`rates`: objective of RANKED -> US dollars, kWh or kg of CO2 of a ns of `npus` NPUs, as far as they are known."""

    npus: int
    rates: Mapping[str, Objective]

    def hour(self, name: str) -> float:
        """The amount of an hour of an NPU that computes all the time."""
        return self.rates[name].value(HOUR, HOUR) / self.npus

    def figures(self, npus: int, served: Served) -> Mapping[str, float]:
        """US dollars, J and kg of CO2 of 10^6 output tokens of an engine of `npus` NPUs: those of `astrarium serve`."""
        found: dict[str, float] = {}
        for name, rate in self.rates.items():
            each = amounts(name, [(rate, npus / self.npus)] * len(served.parts), served)
            found |= {f"{name}_per_mega_tokens": each["per_mega_tokens"]} if "per_mega_tokens" in each else {}
        return found


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
