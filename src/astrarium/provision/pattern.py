"""A pattern search (Hooke and Jeeves 1961) over the bandwidths of dims, judged by simulations.

It raises and lowers the bandwidth of one dim after another, and moves some from one to another; what the budget then
lacks or leaves is taken from or given to all of them. A move that helps is made again; when none helps, the step is
quartered.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from astrarium.arrays import F64
from astrarium.provision.budget import Feasible

__all__ = ["pattern_search"]

FIRST, LAST = 1.0, 1e-5       # share of a dim's bandwidth that a move adds


def pattern_search(value: Callable[[F64], float], start: F64, feasible: Feasible, spend: bool, most: int
                   ) -> tuple[F64, int]:
    """The best allocation found from `start`.

    Args:
        value: what is minimised, of bandwidths [dims] in byte/ns.
        spend: whether every allocation spends the whole budget.
        most: values to ask for, at most.

    Returns:
        The bandwidths [dims], and how many values were asked for. Of equal values the earlier one stays.
    """
    best, at, count, step = value(start), start, 1, FIRST
    moves = _moves(start.size, spend)
    while step >= LAST and count < most:
        improved = False
        for move in moves:
            helps = True
            while helps and count < most:
                moved = feasible.fitted(at * (1 + step) ** move, spend)
                if np.array_equal(moved, at):
                    break
                found, count = value(moved), count + 1
                helps = found < best
                if helps:
                    best, at, improved = found, moved, True
        step = step if improved else step / 4
    return at, count


def _moves(dims: int, spend: bool) -> list[F64]:
    """Exponents of a step: every dim up and down, from every dim to every other, and where not all is spent every two
    dims and all of them up and down."""
    unit = np.eye(dims)
    moved = [unit[one] - unit[other] for one, other in itertools.permutations(range(dims), 2)]
    together = [] if spend else [np.ones(dims), *(unit[one] + unit[other]
                                                  for one, other in itertools.combinations(range(dims), 2))]
    return [*unit, *-unit, *moved, *together, *(-each for each in together)]
