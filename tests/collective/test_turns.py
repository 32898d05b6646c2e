"""The order in which chunks take turns in the dims: by hand, and what every order must be."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from astrarium.collective.compose import Composition
from astrarium.collective.groups import world_shape
from astrarium.collective.lower import plan_collective
from astrarium.collective.settings import Link, Settings
from astrarium.collective.themis import Visit, turns
from astrarium.vocab import CommOp

VISITS = st.builds(Visit, st.integers(0, 3), st.integers(1, 4), st.integers(0, 5))


def test_smallest_first_and_of_equal_ones_the_last() -> None:
    big, small = Visit(0, 8, 10), Visit(0, 4, 10)
    assert turns([[big], [big], [small], [big]]) == {0: [(0, 0), (2, 0), (3, 0), (1, 0)]}


def test_at_one_instant_the_inner_dim_goes_first() -> None:
    # Both dims are done at 10; what leaves dim 0 is at dim 2 before what leaves dim 1.
    chunks = [[Visit(1, 8, 10), Visit(2, 8, 5)], [Visit(0, 8, 10), Visit(2, 8, 5)]]
    assert turns(chunks)[2] == [(1, 1), (0, 1)]


@given(st.lists(st.lists(VISITS, max_size=4), max_size=6))
def test_the_lists_can_be_run_to_their_end(chunks: list[list[Visit]]) -> None:
    lists = turns(chunks)
    assert sorted((c, k) for visits in lists.values() for c, k in visits) == [
        (c, k) for c, visits in enumerate(chunks) for k in range(len(visits))]
    heads, reached = dict.fromkeys(lists, 0), [0] * len(chunks)
    moved = True
    while moved:
        moved = False
        for dim, visits in lists.items():
            while heads[dim] < len(visits) and visits[heads[dim]][1] == reached[visits[heads[dim]][0]]:
                chunk, number = visits[heads[dim]]
                assert chunks[chunk][number].dim == dim
                heads[dim], reached[chunk], moved = heads[dim] + 1, number + 1, True
    assert reached == [len(visits) for visits in chunks]


def test_only_operations_whose_chunks_take_several_ways_need_turns() -> None:
    settings = Settings(("ring",), Composition.THEMIS, chunks=4, links=(Link(10.0, 1.0), Link(5.0, 1.0)))
    for op in (CommOp.ALL_REDUCE, CommOp.REDUCE_SCATTER, CommOp.ALL_GATHER):
        plan = plan_collective(op, 1 << 20, world_shape([4, 2]), settings)
        visits = sum(chunk.repeat * len(chunk.phases) for chunk in plan.chunks)
        assert sorted(np.concatenate(plan.turns).tolist()) == list(range(visits))
    for op in (CommOp.ALL_TO_ALL, CommOp.BROADCAST, CommOp.BARRIER):
        assert plan_collective(op, 1 << 20, world_shape([4, 2]), settings).turns == ()
    assert plan_collective(CommOp.ALL_REDUCE, 1 << 20, world_shape([4]), settings).turns == ()
