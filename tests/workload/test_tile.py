"""Templates along a schedule: what units wait for."""

from __future__ import annotations

import numpy as np

from astrarium.workload.assemble.builder import BEFORE, BESIDE, REDUCED, Builder, Template
from astrarium.workload.assemble.tile import joined_to, tile


def _unit(nodes: int, *outside: int, reduced: bool = False) -> Template:
    """A chain of nodes; the last one is its exit and, where said, a reduction."""
    build = Builder()
    last = build.node(0, outside)
    for _ in range(nodes - 1):
        last = build.node(0, (last,))
    return build.template(last, reduced=last if reduced else None)


def _parents(tiled: object, node: int) -> list[int]:
    return tiled.parent[tiled.parent_ptr[node]:tiled.parent_ptr[node + 1]].tolist()  # type: ignore[attr-defined,no-any-return]


def test_units_in_a_row() -> None:
    tiled = tile([_unit(2, BEFORE), _unit(3, BEFORE)], np.array([0, 1, 0], np.int32), np.zeros(3, np.bool_))
    assert tiled.offset.tolist() == [0, 2, 5]
    assert [_parents(tiled, node) for node in range(7)] == [[], [0], [1], [2], [3], [4], [5]]


def test_joined_units_wait_for_the_same_and_are_waited_for_together() -> None:
    unit = _unit(2, BESIDE, BEFORE)
    joined = np.array([False, False, True, False, False, True], np.bool_)
    tiled = tile([unit], np.zeros(6, np.int32), joined)
    assert [sorted(_parents(tiled, node)) for node in range(0, 12, 2)] == [[], [1], [1], [3, 5], [7], [7]]


def test_reductions_are_a_chain_over_units_without_any() -> None:
    tiled = tile([_unit(1, BEFORE, REDUCED, reduced=True), _unit(1, BEFORE)], np.array([0, 1, 1, 0], np.int32),
                 np.zeros(4, np.bool_))
    assert [sorted(_parents(tiled, node)) for node in range(4)] == [[], [0], [1], [0, 2]]


def test_the_tail_counts_on() -> None:
    tiled = tile([_unit(2, BEFORE)], np.zeros(2, np.int32), np.zeros(2, np.bool_))
    build = Builder(start=4)
    last = build.node(7, (build.node(7, (1, 3)),))
    whole = joined_to(tiled, build.template(last))
    assert whole.rows.tolist() == [0, 0, 0, 0, 7, 7]
    assert [_parents(whole, node) for node in (4, 5)] == [[1, 3], [4]]
