"""The door: designs and a budget in, bandwidths per dim out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from astrarium.config import replace_all
from astrarium.design import Design, npu_types
from astrarium.errors import InputError, nearest
from astrarium.lower import Given, Kept
from astrarium.provision.answer import Allocation, Provisioned
from astrarium.provision.barrier import Feasible
from astrarium.provision.budget import Budget
from astrarium.provision.cuts import CuttingPlanes, cheapest_allocation
from astrarium.provision.floors import DesignFloor, check_same_dims, floor_of
from astrarium.provision.prices import prices_of
from astrarium.provision.refine import fitted, refine
from astrarium.simulate import simulate

__all__ = ["OBJECTIVES", "provision", "with_bandwidths"]

F64 = npt.NDArray[np.float64]
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
        most_simulations: of the refinement; 1 leaves the convex program's answer as it is.

    Returns:
        Provisioned: the allocation with its simulated time, the equal one beside it, and a proved bound.

    Raises InputError for a budget that cannot buy the floors, for unlike networks and for wrong weights;
    UnsupportedError for designs without a floor by bandwidth, and for dims without a price.
    """
    problem = _problem(workloads, budget, objective, weights, prices, traces)
    planes = CuttingPlanes(problem.cuts)
    start = _inside(problem.feasible)
    if objective == "time":
        least = planes.least(problem.feasible, start)
        convex, bound = least.bandwidths, least.bound
    else:
        found = planes.cheapest(problem.feasible, problem.prices, problem.fixed, start, problem.price_range())
        convex, bound = found.bandwidths, found.bound
    convex = fitted(convex, problem.feasible, problem.spend)
    equal = fitted(np.ones(convex.size), problem.feasible, True)
    best, count = refine(problem.value, convex, problem.feasible, problem.spend, most_simulations)
    return Provisioned(objective, problem.allocation(best), problem.allocation(convex), problem.allocation(equal),
                       bound, (count + 1) * len(problem.designs))


def with_bandwidths(design: Design, bandwidths: Sequence[float]) -> Design:
    """The design with these bandwidths (byte/ns of all of an NPU's links) in its dims, innermost first."""
    return replace_all(design, {f"network.dims[{place}].bandwidth_per_npu": f"{float(each)!r} GB/s"
                                for place, each in enumerate(bandwidths)})


class _Problem(Struct, frozen=True, eq=False):
    """What is asked, as numbers."""

    designs: Sequence[Design]
    weights: Sequence[float]
    traces: Sequence[Given | None]
    floors: Sequence[DesignFloor]
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

    def cuts(self, y: F64) -> tuple[F64, F64]:
        """Cuts of the weighted sum: of each design its highest one; of one design all."""
        if len(self.designs) == 1:
            constant, slope = self.floors[0].cuts(y)
            return constant * self.weights[0], slope * self.weights[0]
        total, slopes = 0.0, np.zeros(y.size)
        for weight, floor in zip(self.weights, self.floors):
            constant, slope = floor.cuts(y)
            row = int((constant + slope @ y).argmax())
            total, slopes = total + weight * float(constant[row]), slopes + weight * slope[row]
        return np.array([total]), slopes[None, :]

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

    def price_range(self) -> tuple[float, float]:
        """The lowest and highest price of a network within the budget."""
        feasible = self.feasible
        low = float(self.prices @ cheapest_allocation(feasible, self.prices))
        totals = [limit for row, limit in zip(feasible.rows, feasible.limits) if np.array_equal(row, self.prices)]
        room = feasible.high - feasible.low
        for row, limit in zip(feasible.rows, feasible.limits):
            room = np.minimum(room, (limit - row @ feasible.low) / row)
        if feasible.total is not None:
            room = np.minimum(room, feasible.total - feasible.low.sum())
        return low, min([*totals, float(self.prices @ (feasible.low + room))])


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
    check_same_dims(designs)
    cost = prices_of(designs[0], prices)
    kept, given_traces = Kept(), list[Given | None](traces) or [None] * len(designs)
    floors = [floor_of(design, given, kept) for design, given in zip(designs, given_traces)]
    feasible = _feasible(budget, cost, len(designs[0].network.flat))
    return _Problem(designs, [*weights] or [1.0] * len(designs), given_traces, floors, feasible, cost,
                    _npu_price(designs[0]), objective, kept)


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


def _feasible(budget: Budget, prices: F64, dims: int) -> Feasible:
    """The budget as constraints. Raises InputError where it cannot buy the floors."""
    if len(budget.ceiling) not in (0, dims):
        raise InputError("Budget.ceiling", f"has {len(budget.ceiling)} entries",
                         expected=f"{dims}, one for each of network.dims, or none")
    low = np.full(dims, float(budget.floor))
    high = np.array([float(each) for each in budget.ceiling] or [np.inf] * dims)
    rows, limits = [], []
    for name, row, limit in (("money", prices, budget.money), ("bandwidth", np.ones(dims), budget.bandwidth)):
        if limit is None:
            continue
        least = float(row @ low)
        if float(limit) <= least * (1 + 1e-9):
            unit = "US dollars" if name == "money" else "GB/s"
            raise InputError(f"Budget.{name}", f"{float(limit):,.6g} {unit} cannot buy {budget.floor} in every dim, "
                             f"which takes {least:,.6g} {unit}", expected="more, or a lower Budget.floor")
        if not (name == "bandwidth" and budget.spend_all):
            rows.append(row)
            limits.append(float(limit))
    total = float(budget.bandwidth) if budget.spend_all and budget.bandwidth is not None else None
    if total is not None and total >= float(high.sum()) * (1 - 1e-9):
        raise InputError("Budget.ceiling", f"allows {float(high.sum()):,.6g} GB/s in all", expected="more than the "
                         f"{total:,.6g} GB/s that spend_all is to spend")
    return Feasible(np.array(rows).reshape(-1, dims), np.array(limits), low, high, total)


def _inside(feasible: Feasible) -> F64:
    """An allocation strictly inside: near that of equal bandwidths."""
    equal = fitted(np.ones(feasible.low.size), feasible, True)
    if feasible.total is None:
        found: F64 = feasible.low + 0.9 * (equal - feasible.low)
        return found
    return equal if (equal < feasible.high).all() else _spread(feasible)


def _spread(feasible: Feasible) -> F64:
    """Between the floors and the ceilings, every dim the same share of the way, with the total spent."""
    assert feasible.total is not None
    reach = np.where(np.isfinite(feasible.high), feasible.high, feasible.low + feasible.total)
    share = (feasible.total - feasible.low.sum()) / (reach - feasible.low).sum()
    found: F64 = feasible.low + share * (reach - feasible.low)
    return found
