"""How many NPUs a budget of money, of power, or both, pays for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from astrarium.cost.capital import capital_cost, dollars
from astrarium.cost.power import site_power, watts
from astrarium.errors import InputError
from astrarium.planner.job import Job
from astrarium.planner.layout import layouts
from astrarium.planner.machine import Machine
from astrarium.planner.objective import priced
from astrarium.planner.terms import Terms
from astrarium.vocab import MOST_PLANNED

__all__ = ["check_budget", "counts_within"]


def over(machine: Machine, job: Job, terms: Terms) -> str:
    """What of the budget a machine exceeds, in words; empty where it fits. Raises InputError for missing prices."""
    design = priced(machine, job)
    if terms.budget is not None:
        price = capital_cost(design)
        if price > terms.budget:
            return f"{machine.npus:,} x {machine.device} cost {dollars(price)}, the budget is {dollars(terms.budget)}"
    if terms.power is not None:
        peak = site_power(design).peak
        if peak > terms.power:
            return f"{machine.npus:,} x {machine.device} draw {watts(peak)}, the budget is {watts(terms.power)}"
    return ""


def check_budget(machine: Machine, job: Job, terms: Terms) -> None:
    """Raises InputError where a machine of a given count does not fit the budget."""
    if problem := over(machine, job, terms):
        raise InputError("gpus", problem, expected="fewer, or --budget and --power without --gpus: the most that fit")


def counts_within(make: Callable[[int], Machine], host: int, job: Job, terms: Terms,
                  fixed: Mapping[str, Sequence[Any]] | None = None, lift: Sequence[str] = ()) -> list[int]:
    """Counts of NPUs to compare, those first that are likely to be the best (their values bound the others): powers of
    two, and the largest number of whole hosts of `host` NPUs that fits the budget; of these, the counts that some
    layout (of `fixed` parts, under the rules less those to `lift`) allows. What is counted grows with the count, so the
    largest is found by bisection. Raises InputError where not even one host fits, and where no count has a layout.
    """
    if problem := over(make(host), job, terms):
        raise InputError("budget" if terms.budget is not None else "power", problem, expected="more: one host")
    low, high, most = 1, 2, MOST_PLANNED // host
    while high <= most and not over(make(high * host), job, terms):
        low, high = high, 2 * high
    if high > most and not over(make(most * host), job, terms):
        raise InputError("budget" if terms.budget is not None else "power", f"pays for {most * host:,} NPUs or more",
                         expected="less, or --gpus")
    high = min(high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if over(make(middle * host), job, terms) else (middle, high)

    def allowed(hosts: int) -> bool:
        machine = make(hosts * host)
        return layouts(job, machine.npus, machine.host, fixed, lift).possible

    largest = next((each for each in range(low, 0, -1) if allowed(each)), 0)
    if not largest:
        raise InputError("gpus", f"no layout takes {host} to {low * host} x {make(host).device}, which the budget pays "
                         "for", expected="a larger budget, another --fix, or another device")
    powers = [1 << each for each in range(low.bit_length()) if 1 << each < largest and allowed(1 << each)]
    order = powers[::-1] if terms.objective == "time" else powers
    return [each * host for each in [*order, largest]]
