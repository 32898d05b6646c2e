"""COMET's hybrid bandwidth: against a sum over single accesses, its bounds, what is refused."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from comet.hybrid import hybrid_bandwidth
from hypothesis import given
from hypothesis import strategies as st

from astrarium.errors import InputError

SIZES = st.lists(st.tuples(st.integers(0, 10**13), st.floats(0.1, 1e5)), min_size=1, max_size=5).filter(
    lambda rows: any(size for size, _ in rows))


@given(SIZES)
def test_equals_one_access_after_the_other(rows: list[tuple[int, float]]) -> None:
    """All bytes at the hybrid bandwidth take what the memories take in turn, in exact arithmetic."""
    sizes, bandwidths = zip(*rows)
    found = hybrid_bandwidth(sizes, bandwidths)
    turns = sum(Fraction(size) / Fraction(bandwidth) for size, bandwidth in rows)
    assert math.isclose(found, sum(sizes) / turns, rel_tol=1e-12)
    used = [bandwidth for size, bandwidth in rows if size]
    assert min(used) * (1 - 1e-12) <= found <= max(used) * (1 + 1e-12)


@given(SIZES, st.integers(0, 4), st.floats(1, 10))
def test_a_faster_memory_never_slows(rows: list[tuple[int, float]], which: int, factor: float) -> None:
    sizes, bandwidths = zip(*rows)
    faster = [each * (factor if number == which else 1) for number, each in enumerate(bandwidths)]
    assert hybrid_bandwidth(sizes, faster) >= hybrid_bandwidth(sizes, bandwidths) * (1 - 1e-12)


def test_by_hand() -> None:
    """80 GB at 2,039 GB/s and 185 GB at 500 GB/s: 265 / (80/2039 + 185/500)."""
    assert math.isclose(hybrid_bandwidth([80e9, 185e9], [2039, 500]), 265 / (80 / 2039 + 185 / 500), rel_tol=1e-12)
    assert hybrid_bandwidth([80e9, 0], [2039, 1]) == 2039


@pytest.mark.parametrize(("sizes", "bandwidths", "path"), [
    ([1], [1, 2], "bandwidths"), ([0, 0], [1, 2], "sizes"), ([-1, 2], [1, 2], "sizes[0]"),
    ([math.nan], [1], "sizes[0]"), ([1, 2], [1, 0], "bandwidths[1]"), ([1, 2], [1, math.inf], "bandwidths[1]")])
def test_refusals(sizes: list[float], bandwidths: list[float], path: str) -> None:
    with pytest.raises(InputError) as refused:
        hybrid_bandwidth(sizes, bandwidths)
    assert refused.value.path == path
