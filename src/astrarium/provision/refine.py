"""The last step: moves of bandwidth between dims, judged by simulations.

The floor leaves out what only a simulation shows: chunks that wait for each other, lanes that several workloads of a
rank share. So a pattern search (Hooke and Jeeves 1961) raises and lowers the bandwidth of one dim after another, and
moves some from one to another; what the budget then lacks or leaves is taken from or given to all of them, and the step
is quartered when no move helps.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from astrarium.provision.barrier import Feasible

__all__ = ["fitted", "refine"]

F64 = npt.NDArray[np.float64]
FIRST, LAST = 0.08, 1e-6       # share of a dim's bandwidth that a move changes


def fitted(bandwidths: F64, feasible: Feasible, spend: bool) -> F64:
    """Bandwidths scaled until they keep the budget; `spend`: until it is spent, as far as ceilings allow."""
    low, high = 0.0, 1.0

    def at(scale: float) -> F64:
        found: F64 = np.clip(bandwidths * scale, feasible.low, feasible.high)
        return found

    def inside(scale: float) -> bool:
        point = at(scale)
        whole = feasible.total is None or float(point.sum()) <= feasible.total * (1 + 1e-12)
        return whole and bool((feasible.rows @ point <= feasible.limits * (1 + 1e-12)).all())

    if inside(1.0):
        if not spend and feasible.total is None:
            return at(1.0)
        low = 1.0
        while inside(high) and high < 1e9:
            low, high = high, high * 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if inside(middle) else (low, middle)
    return at(low)


def refine(value: Callable[[F64], float], start: F64, feasible: Feasible, spend: bool, most: int) -> tuple[F64, int]:
    """The best allocation found from `start` with at most `most` values; ties keep the earlier one. Also how many
    values were asked for."""
    best, at, count, step = value(start), start, 1, FIRST
    while step >= LAST and count < most:
        improved = False
        for move in _moves(start.size):
            moved = fitted(at * (1 + step) ** move, feasible, spend)
            if count >= most or np.array_equal(moved, at):
                continue
            found, count = value(moved), count + 1
            if found < best:
                best, at, improved = found, moved, True
        step = step if improved else step / 4
    return at, count


def _moves(dims: int) -> list[F64]:
    """Exponents of a step: every dim up and down, then from every dim to every other."""
    unit = np.eye(dims)
    return [*unit, *-unit, *(unit[one] - unit[other] for one, other in itertools.permutations(range(dims), 2))]
