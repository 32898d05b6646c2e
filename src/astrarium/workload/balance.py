"""Blocks of a model to parts of a pipeline, so that the most expensive part costs as little as can be."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

__all__ = ["balanced"]


def balanced(costs: Sequence[int], parts: int) -> list[int]:
    """How many neighbouring blocks each of `parts` has, at least 1; `parts` is at most their number.

    No other division has a lower maximum. Of those with this maximum each part in turn comes as near as it can to the
    mean of what is left, the smaller of two that are equally near.
    """
    total = [0, *accumulate(costs)]
    most = _least_maximum(costs, parts)
    begins = _soonest(costs, parts, most)
    counts, start = list[int](), 0
    for part in range(parts):
        rest = parts - part
        first = max(start + 1, begins[part])
        ends = [end for end in range(first, len(costs) - rest + 2) if total[end] - total[start] <= most]
        mean = (total[-1] - total[start]) / rest
        end = min(ends, key=lambda end: abs(total[end] - total[start] - mean)) if rest > 1 else len(costs)
        counts.append(end - start)
        start = end
    return counts


def _needed(costs: Sequence[int], most: int) -> int:
    """Parts that are needed where none may cost more than `most`, which no block exceeds."""
    parts, cost = 1, 0
    for each in costs:
        if cost + each > most:
            parts, cost = parts + 1, 0
        cost += each
    return parts


def _least_maximum(costs: Sequence[int], parts: int) -> int:
    low, high = max(costs), sum(costs)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if _needed(costs, middle) <= parts else (middle + 1, high)
    return low


def _soonest(costs: Sequence[int], parts: int, most: int) -> list[int]:
    """[parts] the first block at which the parts behind each one can begin and still take all that is left."""
    begins, end = [len(costs)], len(costs)
    for _ in range(parts - 1):
        cost = 0
        while end > 0 and cost + costs[end - 1] <= most:
            end -= 1
            cost += costs[end]
        begins.append(end)
    return begins[::-1]
