"""Cutting planes (Kelley 1960): the least floor of one or several designs, and its least product with a price.

The floor is convex in the inverse bandwidths, so the cuts found at some points are below it everywhere, and the program
over the cuts (`barrier`) gives a time that no allocation can be below. Points are added where that program ends until
the floor there is no higher.

Time x cost is that program for every price kappa that the network may have: T(kappa) falls and is convex, so between
two prices it is above both tangents, and kappa T(kappa) is above the least of three numbers. The interval with the
least of these is halved until none is below the best product found.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from astrarium.provision.barrier import Feasible, Least, least_time

__all__ = ["Cheapest", "CuttingPlanes", "Oracle"]

F64 = npt.NDArray[np.float64]
Oracle = Callable[[F64], tuple[F64, F64]]
"""Inverse bandwidths -> cuts (constant [cuts], slope [cuts, dims])."""
CLOSE = 1e-6        # of the floor above the cuts, relative
ROUNDS = 400
CLOSE_PRODUCT = 1e-4
PRICES = 200        # prices looked at


class Cheapest(Struct, frozen=True):
    """Bandwidths with the least time x cost, this product's parts, and a product that none is below."""

    bandwidths: F64
    time: float
    cost: float
    bound: float


class CuttingPlanes(Struct):
    """The cuts of an oracle found so far."""

    oracle: Oracle
    constant: F64 = field(default_factory=lambda: np.zeros(0))
    slope: F64 = field(default_factory=lambda: np.zeros((0, 0)))

    def time(self, bandwidths: F64) -> float:
        """The floor (ns) at some bandwidths, which adds its cuts."""
        constant, slope = self.oracle(1 / bandwidths)
        if self.constant.size:
            together = np.column_stack([np.append(self.constant, constant), np.vstack([self.slope, slope])])
            _, first = np.unique(together, axis=0, return_index=True)
            together = together[np.sort(first)]
            self.constant, self.slope = together[:, 0], together[:, 1:]
        else:
            self.constant, self.slope = constant, slope
        return float((constant + slope @ (1 / bandwidths)).max())

    def least(self, feasible: Feasible, start: F64) -> Least:
        """The allocation with the least floor. `start` lies strictly inside."""
        best, at = self.time(start), start
        for _ in range(ROUNDS):
            found = least_time(self.constant, self.slope, feasible, start)
            time = self.time(found.bandwidths)
            if time < best:
                best, at = time, found.bandwidths
            if best <= found.time * (1 + CLOSE):
                break
        return Least(at, best, found.bound, found.worth)

    def cheapest(self, feasible: Feasible, prices: F64, fixed: float, start: F64, ends: tuple[float, float]
                 ) -> Cheapest:
        """The least floor x (fixed + prices @ bandwidths), over networks of a price in `ends`."""
        low, high = ends

        def at(price: float) -> _At:
            inside = Feasible(np.vstack([feasible.rows, prices]), np.append(feasible.limits, price), feasible.low,
                              feasible.high, feasible.total)
            return _At(fixed + price, self.least(inside, _cheaper(feasible, prices, start, price, low)))

        first = low * (1 + 1e-4)      # there is nothing strictly inside below
        grid = [at(price) for price in (np.geomspace(first, high, 9).tolist() if high > first * 1.001 else [high])]
        cheapest = (fixed + low) * grid[0].found.bound      # of what is cheaper than the first
        best = min(grid, key=lambda each: each.product)
        waiting = [(_between(*pair), number, *pair) for number, pair in enumerate(itertools.pairwise(grid))]
        heapq.heapify(waiting)
        for count in range(PRICES):
            if not waiting or waiting[0][0] >= best.product * (1 - CLOSE_PRODUCT):
                break
            _, _, one, other = heapq.heappop(waiting)
            middle = at(math.sqrt(one.cost * other.cost) - fixed)
            best = min(best, middle, key=lambda each: each.product)
            for side, pair in enumerate(((one, middle), (middle, other))):
                heapq.heappush(waiting, (_between(*pair), len(grid) + 2 * count + side, *pair))
        found = best.found.bandwidths
        bound = min([best.product, cheapest, *(each[0] for each in waiting[:1])])
        return Cheapest(found, best.found.time, fixed + float(prices @ found), bound)


class _At(Struct, frozen=True):
    """The least floor for a cost (of network and NPUs) of at most `cost`."""

    cost: float
    found: Least

    @property
    def product(self) -> float:
        """Its floor x cost."""
        return self.cost * self.found.time


def _between(one: _At, other: _At) -> float:
    """A product that no cost between two is below: times are above the tangents at both."""
    low, first, down = one.cost, one.found.bound, -float(one.found.worth[-1])
    high, second, up = other.cost, other.found.bound, -float(other.found.worth[-1])
    ends = [low * max(first, second + up * (low - high)), high * max(second, first + down * (high - low))]
    if up > down:
        cross = (first - second - down * low + up * high) / (up - down)
        if low < cross < high:
            ends.append(cross * max(first + down * (cross - low), second))
    return min(ends)


def _cheaper(feasible: Feasible, prices: F64, start: F64, price: float, least: float) -> F64:
    """A point strictly inside at a price: from the start towards the cheapest allocation."""
    cheap = cheapest_allocation(feasible, prices)
    have = float(prices @ start)
    if have < price * (1 - 1e-9):
        return start
    share = 0.5 * (price - least) / (have - least)
    found: F64 = cheap + share * (start - cheap)
    return found


def cheapest_allocation(feasible: Feasible, prices: F64) -> F64:
    """The allocation with the lowest price: the floors, and what is left of a total in the cheapest dims."""
    found: F64 = feasible.low.copy()
    if feasible.total is None:
        return found
    left = feasible.total - float(found.sum())
    for place in np.argsort(prices, kind="stable"):
        more = min(left, float(feasible.high[place] - found[place]))
        found[place] += more
        left -= more
    return found
