"""What layouts are ranked by: the time of a step, or money, energy or CO2 of 10^12 tokens.

All of these are of the form  a T + b B  with the time T of a step and the mean B over all NPUs of the time for which
they compute (`cost.rates`). So lower bounds of T and B give a lower bound of the objective, and the figures of `cost`
are these sums (a test compares them).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Protocol

from msgspec import Struct

from astrarium.cost import FIGURES
from astrarium.cost.rates import RATES
from astrarium.cost.tokens import TERA
from astrarium.design import Design
from astrarium.errors import InputError, nearest
from astrarium.planner.job import Job
from astrarium.planner.lower_bound import LowerBound
from astrarium.planner.machine import Machine
from astrarium.system.config import System
from astrarium.workload.config import Workload

__all__ = ["OBJECTIVES", "TIME", "Objective", "objective_of", "priced"]


class Objective(Struct, frozen=True):
    """`per_ns` of a step's time and `per_busy_ns` of the mean computing time; `figure`: that of `cost` which it is."""

    name: str
    per_ns: float
    per_busy_ns: float = 0.0
    figure: str = "makespan"

    def value(self, time: float, busy: float) -> float:
        """The objective of a step of `time` ns, of which NPUs compute `busy` ns in the mean."""
        return self.per_ns * time + self.per_busy_ns * busy if self.per_busy_ns else self.per_ns * time

    def bound(self, bound: LowerBound) -> float:
        """What no layout with these lower bounds falls below."""
        return self.value(bound.time, bound.busy)

    def shown(self, value: float) -> str:
        """A value for a person."""
        from astrarium.units import format_time

        return format_time(value) if self.name == "time" else FIGURES[self.figure].shown(value)


TIME = Objective("time", 1.0)


class Based(Protocol):
    """What is run on a machine, with a workload of one rank."""

    @property
    def base(self) -> Workload:
        """The workload."""
        ...


def priced(machine: Machine, job: Based) -> Design:
    """A design of a machine whose work is of no concern: for figures of designs alone."""
    return Design(workload=job.base, network=machine.network, compute=machine.compute, memory=machine.memory,
                  system=System(placement=[0]), cost=machine.cost)


def _rated(name: str, figure: str, rented: str = "") -> Callable[[Machine, Based], Objective]:
    """What makes the objective of a rate of `cost`; `rented`: its figure where NPUs are rented."""
    def made(machine: Machine, job: Based) -> Objective:
        rate = RATES[name](priced(machine, job), f"objective {name}")
        if rate.rented:         # NPUs with a rank are, and the priced design has one
            return Objective(name, machine.npus * rate.per_ns, figure=rented)
        return Objective(name, rate.per_ns, rate.per_busy_ns, figure)
    return made


OBJECTIVES: Mapping[str, Callable[[Machine, Based], Objective]] = MappingProxyType({
    "time": lambda machine, job: TIME,
    "cost": _rated("cost", "owned_cost_per_tera_tokens", "cost_per_tera_tokens"),
    "energy": _rated("energy", "energy_per_tera_tokens"), "carbon": _rated("carbon", "carbon_per_tera_tokens")})
"""Name -> what makes it for a machine and a job."""


def objective_of(name: str, machine: Machine, job: Job) -> Objective:
    """The objective of that name, per 10^12 tokens but for time. Raises InputError for an unknown one, and for what the
    machine's `cost` does not say."""
    if name not in OBJECTIVES:
        raise InputError("objective", f"{name[:60]!r} is not known", expected="one of " + ", ".join(OBJECTIVES),
                         did_you_mean=nearest(name, OBJECTIVES))
    found = OBJECTIVES[name](machine, job)
    if found is TIME:
        return found
    share = TERA / job.tokens
    if not math.isfinite(found.per_ns * share):
        raise InputError("objective", f"{name} is not finite", expected="prices that are")
    return Objective(found.name, found.per_ns * share, found.per_busy_ns * share, found.figure)
