"""Packed steps against masks that are written out."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from astrarium.errors import InputError
from astrarium.workload.graph.packed import Packed, Sequences

PARTS = st.builds(Sequences, st.integers(1, 3), st.integers(1, 6), st.integers(0, 9), st.just(1))


def seen(new: int, past: int, window: int | None) -> np.ndarray:
    """[new, past + new] whether a new token looks at another."""
    query, key = np.arange(past, past + new)[:, None], np.arange(past + new)[None, :]
    mask = key <= query
    return mask if window is None else mask & (key > query - window)


@given(st.lists(PARTS, min_size=1, max_size=3), st.one_of(st.none(), st.integers(1, 12)))
def test_pairs_and_context_are_those_of_the_mask(parts: list[Sequences], window: int | None) -> None:
    packed = Packed(tuple(parts))
    masks = [(part.count, seen(part.new, part.past, window)) for part in parts]
    assert packed.pairs(window, skip=True) == sum(count * int(mask.sum()) for count, mask in masks)
    assert packed.context(window) == sum(count * int(mask.any(axis=0).sum()) for count, mask in masks)
    assert packed.tokens == sum(count * len(mask) for count, mask in masks)


@given(st.lists(PARTS, min_size=1, max_size=3))
def test_without_skipping_every_query_meets_its_whole_sequence(parts: list[Sequences]) -> None:
    packed = Packed(tuple(parts))
    assert packed.pairs(None, skip=False) == sum(p.count * p.new * (p.past + p.new) for p in parts)


def test_compression_keeps_a_share_of_the_past_only() -> None:
    packed = Packed((Sequences(2, 3, 101),), keep=Fraction(1, 5))
    assert packed.context(None) == 2 * (21 + 3)


@pytest.mark.parametrize("part", [Sequences(0, 1), Sequences(1, 0), Sequences(1, 1, -1), Sequences(1, 1, 0, 2)])
def test_nonsense_is_refused(part: Sequences) -> None:
    with pytest.raises(InputError):
        Packed((part,))
