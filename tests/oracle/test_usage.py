"""Use of links over time: exact shares of bins, in whatever order the intervals come."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from astrarium.errors import UnsupportedError
from astrarium.oracle.record import BINS, FIRST_WIDTH, Usage

Interval = tuple[int, int, int]     # dim, begin, busy
DIMS = 2

TIMES = st.one_of(st.integers(0, 300), st.integers(0, 400_000), st.integers(0, 2**40), st.integers(0, 2**61))
INTERVALS = st.lists(st.tuples(st.integers(0, DIMS - 1), TIMES, TIMES), max_size=12)


def binned(intervals: Sequence[Interval], makespan: int = 0) -> tuple[int, list[list[int]]]:
    """(width, ps per dim and bin) of intervals added one after another."""
    usage = Usage(DIMS)
    for interval in intervals:
        usage.add(*interval)
    columns = usage.columns(makespan)
    return columns["use_width"], columns["use_busy"].reshape(DIMS, BINS).tolist()


@given(INTERVALS, TIMES, st.randoms(use_true_random=False))
def test_bins_are_the_shares_of_intervals(intervals: list[Interval], makespan: int, order: random.Random) -> None:
    width, bins = binned(intervals, makespan)
    ends = [makespan, *(begin + busy for _, begin, busy in intervals if busy)]
    assert width == FIRST_WIDTH or max(ends) > BINS * width // 2       # no wider than need be
    assert BINS * width >= max(ends)
    for dim in range(DIMS):
        for number, found in enumerate(bins[dim]):
            low, high = number * width, (number + 1) * width
            assert found == sum(max(0, min(begin + busy, high) - max(begin, low))
                                for d, begin, busy in intervals if d == dim)
    shuffled = list(intervals)
    order.shuffle(shuffled)
    assert binned(shuffled, makespan) == (width, bins)


def test_sums_that_no_int64_holds_are_refused() -> None:
    usage = Usage(1)
    for _ in range(600):
        usage.add(0, 0, 2**62)
    with pytest.raises(UnsupportedError, match=r"2\^63 ps"):
        usage.columns(0)


def test_an_idle_network_has_empty_bins() -> None:
    width, bins = binned([])
    assert width == FIRST_WIDTH
    assert not np.any(bins)
