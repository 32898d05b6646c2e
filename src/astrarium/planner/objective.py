"""What layouts are ranked by: the time of a step, or money, energy or CO2 of 10^12 tokens.

All of these are of the form  a T + b B  with the time T of a step and the mean B over all NPUs of the time for which
they compute: rent and the paying off of what is bought go with T, and so does the power of an NPU that waits and of all
that is beside the NPUs; what an NPU draws more while it computes goes with B. So lower bounds of T and B give a lower
bound of the objective, and the figures of `cost` are these sums (a test compares them).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Protocol

from msgspec import Struct

from astrarium.cost import FIGURES
from astrarium.cost.capital import capital_cost
from astrarium.cost.power import SitePower, check_site, site_power
from astrarium.cost.rent import rent_per_hour
from astrarium.cost.running import check_hourly
from astrarium.cost.tokens import TERA
from astrarium.design import Design
from astrarium.errors import InputError, nearest
from astrarium.planner.job import Job
from astrarium.planner.lower_bound import LowerBound
from astrarium.planner.machine import Machine
from astrarium.system.config import System
from astrarium.workload.config import Workload

__all__ = ["OBJECTIVES", "TIME", "Objective", "objective_of", "priced"]

HOUR_NS, KWH_NJ = 3.6e12, 3.6e15


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


def _cost(machine: Machine, job: Based) -> Objective:
    design, cost = priced(machine, job), machine.cost
    check_hourly(design, "objective cost")
    rent = rent_per_hour(design)
    if rent is not None:
        return Objective("cost", machine.npus * rent / HOUR_NS, figure="cost_per_tera_tokens")
    power, used, price = site_power(design), cost.utilisation, (cost.energy_price or 0.0) / KWH_NJ
    base, more = _watts(power)
    fixed = capital_cost(design) / (cost.lifetime or 1.0) / HOUR_NS / used
    return Objective("cost", fixed + price * (base + (1 - used) / used * power.waiting), price * more,
                     "owned_cost_per_tera_tokens")


def _watts(power: SitePower) -> tuple[float, float]:
    """W of the site while all NPUs wait, and how much more while they compute."""
    return power.waiting, power.pue * (power.active - power.idle)


def _energy(machine: Machine, job: Based) -> Objective:
    design = priced(machine, job)
    check_site(design, "objective energy")
    base, more = _watts(site_power(design))
    return Objective("energy", base / KWH_NJ, more / KWH_NJ, "energy_per_tera_tokens")


def _carbon(machine: Machine, job: Based) -> Objective:
    grid = machine.cost.grid
    if grid is None:
        raise InputError("objective carbon", "is not known without cost.carbon_intensity (or cost.region)",
                         expected="a region of the catalog (`astrarium list region`)")
    found = _energy(machine, job)
    kilograms = grid / 1000
    return Objective("carbon", found.per_ns * kilograms, found.per_busy_ns * kilograms, "carbon_per_tera_tokens")


OBJECTIVES: Mapping[str, Callable[[Machine, Based], Objective]] = MappingProxyType({
    "time": lambda machine, job: TIME, "cost": _cost, "energy": _energy, "carbon": _carbon})
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
