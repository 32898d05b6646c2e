"""The door: designs and a budget in, bandwidths per dim out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct, field

from astrarium.arrays import F64
from astrarium.config import replace_all
from astrarium.design import Design, npu_types
from astrarium.errors import InputError, UnsupportedError, nearest
from astrarium.lower import Given, Kept
from astrarium.network.config import LinkDim
from astrarium.network.needs import needs_dims
from astrarium.provision.answer import Allocation, Provisioned
from astrarium.provision.budget import Budget, Feasible, feasible_of
from astrarium.provision.pattern import pattern_search
from astrarium.provision.prices import prices_of
from astrarium.simulate import simulate

__all__ = ["OBJECTIVES", "provision", "with_bandwidths"]

OBJECTIVES = ("time", "time_x_cost")


def provision(workloads: Design | Sequence[Design], budget: Budget, objective: str = "time", *,
              weights: Sequence[float] = (), prices: Sequence[float] | None = None, traces: Sequence[Given] = (),
              most_simulations: int = 400) -> Provisioned:
    """Bandwidth per dim that minimises the step time, or step time x cost, under a budget.

    Args:
        workloads: designs that share the network's shapes and sizes; their bandwidths are what is chosen, all else is
            kept. Of several, times are added up with `weights` (none: 1 each).
        budget: what may be spent.
        objective: `time`, or `time_x_cost` with the network's US dollars (and the NPUs', where `compute.price` says).
        prices: US dollars of the whole network per GB/s of one NPU's bandwidth in each dim, innermost first; left out:
            those of the cost model of networks (`network_cost`).
        traces: what takes the place of each design's trace files.
        most_simulations: of each workload.

    Returns:
        Provisioned: the best allocation that a pattern search from equal bandwidths found, with its simulated time,
        and the equal one.

    Raises:
        InputError: a budget that cannot buy the least bandwidth of every dim, unlike networks, wrong weights.
        UnsupportedError: dims without a price, tori, measured collectives and GPU kernels.
    """
    problem = _problem(workloads, budget, objective, weights, prices, traces)
    equal = problem.feasible.fitted(np.ones(problem.prices.size), True)
    best, count = pattern_search(problem.value, equal, problem.feasible, problem.spend, most_simulations)
    return Provisioned(objective, problem.allocation(best), problem.allocation(equal), count * len(problem.designs))


def with_bandwidths(design: Design, bandwidths: Sequence[float]) -> Design:
    """The design with these bandwidths (byte/ns of all of an NPU's links) in its dims, innermost first."""
    return replace_all(design, {f"network.dims[{place}].bandwidth_per_npu": f"{float(each)!r} GB/s"
                                for place, each in enumerate(bandwidths)})


class _Problem(Struct, frozen=True, eq=False):
    """What is asked, as numbers."""

    designs: Sequence[Design]
    weights: Sequence[float]
    traces: Sequence[Given | None]
    feasible: Feasible
    prices: F64
    fixed: float            # US dollars of the NPUs
    objective: str
    kept: Kept
    times: dict[bytes, float] = field(default_factory=dict)

    @property
    def spend(self) -> bool:
        """Whether more bandwidth within the budget is never worse."""
        return self.objective == "time" or self.feasible.total is not None

    def time(self, bandwidths: F64) -> float:
        """The weighted sum of simulated step times (ns)."""
        key = bandwidths.tobytes()
        if key not in self.times:
            self.times[key] = sum(
                weight * float(simulate(with_bandwidths(design, bandwidths.tolist()), record=False, traces=given,
                                        kept=self.kept).makespan)
                for design, weight, given in zip(self.designs, self.weights, self.traces))
        return self.times[key]

    def value(self, bandwidths: F64) -> float:
        """The objective, simulated."""
        made = self.allocation(bandwidths)
        return made.time if self.objective == "time" else made.product

    def allocation(self, bandwidths: F64) -> Allocation:
        """An allocation with its simulated time and its price."""
        network = float(self.prices @ bandwidths)
        return Allocation(tuple(bandwidths.tolist()), self.time(bandwidths), network, network + self.fixed)


def _problem(workloads: Design | Sequence[Design], budget: Budget, objective: str, weights: Sequence[float],
             prices: Sequence[float] | None, traces: Sequence[Given]) -> _Problem:
    if objective not in OBJECTIVES:
        raise InputError("objective", f"{str(objective)[:60]!r} is not known",
                         expected="one of " + ", ".join(OBJECTIVES), did_you_mean=nearest(str(objective), OBJECTIVES))
    designs = [workloads] if isinstance(workloads, Design) else list(workloads)
    if not designs:
        raise InputError("workloads", "is empty", expected="at least one design")
    for name, given in (("weights", weights), ("traces", traces)):
        if len(given) not in (0, len(designs)):
            raise InputError(name, f"has {len(given)} entries", expected=f"{len(designs)}, one for each workload")
    for place, weight in enumerate(weights):
        if not weight > 0:
            raise InputError(f"weights[{place}]", f"{weight!r}", expected="more than 0")
    _check(designs)
    cost = prices_of(designs[0], prices)
    kept, given_traces = Kept(), list[Given | None](traces) or [None] * len(designs)
    return _Problem(designs, [*weights] or [1.0] * len(designs), given_traces, feasible_of(budget, cost), cost,
                    _npu_price(designs[0]), objective, kept)


def _check(designs: Sequence[Design]) -> None:
    """Raises InputError where designs have different networks to buy, UnsupportedError for tori and for collectives
    whose time does not depend on a dim's bandwidth."""
    first = designs[0].network
    needs_dims(first, "provisioning", written=True)
    for place, dim in enumerate(first.dims):
        if not isinstance(dim, LinkDim):
            raise UnsupportedError(f"network.dims[{place}]", "a torus is several dims", expected="its ring dims")
    for collective in (design.collective for design in designs):
        if collective.model != "simulated" or collective.kernels is not None:
            name = "model" if collective.kernels is None else "kernels"
            raise UnsupportedError(f"collective.{name}", "its times do not depend on bandwidths of dims",
                                   expected="simulated collectives")
    sizes = [(dim.tag, dim.npus) for dim in first.flat]
    for place, design in enumerate(designs[1:], 1):
        if [(dim.tag, dim.npus) for dim in design.network.flat] != sizes:
            raise InputError(f"workloads[{place}]", "has other network dims than the first",
                             expected="the same shapes and sizes: one network serves all of them")


def _npu_price(design: Design) -> float:
    """US dollars of all NPUs; 0 where no NPU has a price. Raises InputError where only some have one."""
    kinds, types = npu_types(design)
    prices = [compute.price for compute, _ in types]
    if all(price is None for price in prices):
        return 0.0
    for name, price in zip(("compute.price", *(f"npu_types[{place}].compute.price" for place in range(len(types) - 1))),
                           prices):
        if price is None:
            raise InputError(name, "is missing, and other NPUs have prices", expected="US dollars of an NPU")
    return float(sum(count * float(price or 0) for count, price in
                     zip(np.bincount(kinds, minlength=len(types)).tolist(), prices)))
