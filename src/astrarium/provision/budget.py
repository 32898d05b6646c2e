"""What may be spent on a network's bandwidth."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, Any, ClassVar

import numpy as np
from msgspec import Struct

from astrarium.arrays import F64
from astrarium.config import Config, Knob, Problem, default
from astrarium.errors import InputError
from astrarium.units import Bandwidth, OptionalBandwidth

__all__ = ["Budget", "Feasible", "feasible_of"]


def _named(budget: Budget) -> Iterator[Problem]:
    if budget.money is None and budget.bandwidth is None:
        yield Problem("money", "is missing", "US dollars of the network (money), or a bandwidth, or both")
    if budget.spend_all and budget.bandwidth is None:
        yield Problem("spend_all", "has no effect without a total bandwidth", "bandwidth")
    if budget.spend_all and budget.money is not None:
        yield Problem("spend_all", "with money, too: both cannot be spent exactly", "bandwidth alone")


def _ordered(budget: Budget) -> Iterator[Problem]:
    for place, ceiling in enumerate(budget.ceiling):
        if float(ceiling) <= float(budget.floor):
            yield Problem(f"ceiling[{place}]", f"{ceiling} is not above the floor of {budget.floor}", "more")


class Budget(Config, frozen=True, kw_only=True):
    """What a network's bandwidth may cost. Bandwidths are of all links of one NPU in a dim, one direction.

    `money` buys the network alone; NPUs cost what they cost whatever their links. `bandwidth` is the sum over the dims
    (LIBRA's budget). With both, the answer keeps both.
    """

    rules: ClassVar[tuple[Callable[[Any], Iterable[Problem]], ...]] = (_named, _ordered)
    money: Annotated[float | None, Knob("US dollars of the whole network, at most.", gt=0)] = None
    bandwidth: Annotated[OptionalBandwidth, Knob("Sum over the dims of the bandwidth out of one NPU, at most.", gt=0)
                         ] = default(None)
    floor: Annotated[Bandwidth, Knob("Least bandwidth of every dim.", gt=0)] = default("100 MB/s")
    ceiling: Annotated[Sequence[Bandwidth], Knob("Most bandwidth of each dim, innermost first; none: no limit.", gt=0)
                       ] = ()
    spend_all: Annotated[bool, Knob("The dims' sum is `bandwidth` exactly, as LIBRA's time x cost has it. Time alone "
                                    "spends all anyway.")] = False


class Feasible(Struct, frozen=True):
    """Bandwidths (byte/ns) that a budget allows: rows [rows, dims] @ bandwidths <= limits [rows], from `low` to `high`
    [dims]; `total` is what their sum is exactly, where it is to be spent."""

    rows: F64
    limits: F64
    low: F64
    high: F64
    total: float | None = None

    def fitted(self, bandwidths: F64, spend: bool) -> F64:
        """Bandwidths scaled until they keep the budget; `spend`: until it is spent, as far as ceilings allow."""
        low, high = 0.0, 1.0
        if self._inside(bandwidths):
            if not spend and self.total is None:
                return self._clipped(bandwidths)
            low = 1.0
            while self._inside(bandwidths * high) and high < 1e9:
                low, high = high, high * 2
        for _ in range(100):
            middle = (low + high) / 2
            low, high = (middle, high) if self._inside(bandwidths * middle) else (low, middle)
        return self._clipped(bandwidths * low)

    def _clipped(self, bandwidths: F64) -> F64:
        found: F64 = np.clip(bandwidths, self.low, self.high)
        return found

    def _inside(self, bandwidths: F64) -> bool:
        point = self._clipped(bandwidths)
        whole = self.total is None or float(point.sum()) <= self.total * (1 + 1e-12)
        return whole and bool((self.rows @ point <= self.limits * (1 + 1e-12)).all())


def feasible_of(budget: Budget, prices: F64) -> Feasible:
    """The budget as constraints. `prices` [dims]: US dollars per byte/ns. Raises InputError where it cannot buy the
    floors."""
    dims = prices.size
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
