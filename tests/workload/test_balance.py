"""The division of blocks over the parts of a pipeline, against every division."""

from __future__ import annotations

from itertools import combinations, pairwise

from hypothesis import given
from hypothesis import strategies as st

from astrarium.workload.balance import balanced


@given(st.lists(st.integers(0, 20), min_size=1, max_size=9), st.data())
def test_the_most_expensive_part_costs_as_little_as_can_be(costs: list[int], data: st.DataObject) -> None:
    parts = data.draw(st.integers(1, len(costs)))
    counts = balanced(costs, parts)
    assert len(counts) == parts
    assert sum(counts) == len(costs)
    assert min(counts) >= 1
    ways = [(0, *cuts, len(costs)) for cuts in combinations(range(1, len(costs)), parts - 1)]
    least = min(max(sum(costs[a:b]) for a, b in pairwise(way)) for way in ways)
    ends = [sum(counts[:number]) for number in range(parts + 1)]
    assert max(sum(costs[a:b]) for a, b in pairwise(ends)) == least


def test_equal_blocks_are_divided_evenly() -> None:
    """Nobody takes as many as fit where fewer do."""
    assert balanced([1] * 12, 4) == [3, 3, 3, 3]
    assert balanced([1] * 10, 4) == [2, 3, 2, 3]
