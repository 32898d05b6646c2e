"""Ranks, coordinates and groups of a mesh."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from astrarium.errors import InputError
from astrarium.workload.mesh import AXES, INNER, Mesh, mesh_of, parse_order

SIZES = st.tuples(*[st.integers(1, 3)] * 5)
ORDER = st.permutations(AXES).map("-".join)
SUBSET = st.lists(st.sampled_from([*INNER, "edp", "dp"]), min_size=1, max_size=4)


def _mesh(sizes: tuple[int, ...], order: str, ep: int = 2) -> Mesh:
    tp, cp, sp, pp, edp = sizes
    return mesh_of(order, tp=tp, cp=cp, sp=sp, pp=pp, ep=ep, dp=ep * edp)


def test_megatrons_example() -> None:
    """Megatron-LM's documented example: 16 ranks, tensor 2, pipeline 4 (initialize_model_parallel)."""
    mesh = mesh_of("megatron", tp=2, dp=2, pp=4)
    assert mesh.groups(("dp",)).tolist() == [[0, 2], [1, 3], [4, 6], [5, 7], [8, 10], [9, 11], [12, 14], [13, 15]]
    assert mesh.groups(("tp",)).tolist() == [[2 * n, 2 * n + 1] for n in range(8)]
    assert mesh.groups(("pp",)).tolist() == [[n, n + 4, n + 8, n + 12] for n in range(4)]


def test_stages_example() -> None:
    """STAGE puts data parallel ranks next to each other: of dp 4, tp 4 the first group of each."""
    mesh = mesh_of("stage", tp=4, dp=4)
    assert mesh.groups(("dp",))[0].tolist() == [0, 1, 2, 3]
    assert mesh.groups(("tp",))[0].tolist() == [0, 4, 8, 12]


def test_dp_is_ep_and_edp() -> None:
    mesh = mesh_of("megatron", ep=2, dp=6)
    assert mesh.real(("dp",)) == mesh.real(("edp", "ep")) == ("ep", "idp")
    assert mesh.groups(("ep",)).tolist() == [[0, 1], [2, 3], [4, 5]]
    assert mesh.coordinate("dp").tolist() == list(range(6))


@given(SIZES, ORDER, SUBSET)
def test_groups_differ_on_their_axes_only(sizes: tuple[int, ...], order: str, axes: list[str]) -> None:
    mesh = _mesh(sizes, order)
    groups, chosen = mesh.groups(axes), mesh.real(axes)
    assert sorted(groups.ravel().tolist()) == list(range(mesh.ranks))
    assert groups.shape[1] == mesh.size(axes)
    assert (np.diff(groups, axis=1) > 0).all()
    assert (np.diff(groups[:, 0]) > 0).all()
    for axis in INNER:
        coordinate = mesh.coordinate(axis)[groups]
        if axis not in chosen:
            assert (coordinate == coordinate[:, :1]).all()
    coordinates = np.stack([mesh.coordinate(axis) for axis in chosen]) if chosen else np.zeros((1, mesh.ranks))
    for row in groups[:4]:
        assert len({tuple(each) for each in coordinates[:, row].T.tolist()}) == len(row)
    assert (groups[mesh.group_of(axes)] == np.arange(mesh.ranks)[:, None]).any(axis=1).all()


@given(SIZES, ORDER)
def test_rank_is_the_sum_of_its_coordinates(sizes: tuple[int, ...], order: str) -> None:
    mesh = _mesh(sizes, order)
    rank, stride = np.zeros(mesh.ranks, int), 1
    for axis, size in zip(mesh.axes, mesh.sizes, strict=True):
        rank += mesh.coordinate(axis) * stride
        stride *= size
    assert (rank == np.arange(mesh.ranks)).all()


@given(SIZES, ORDER, st.sampled_from([*INNER, "edp", "dp"]), st.integers(-5, 5))
def test_shift_moves_along_one_axis(sizes: tuple[int, ...], order: str, axis: str, shift: int) -> None:
    mesh = _mesh(sizes, order)
    peer = mesh.shifted(axis, shift)
    assert sorted(peer.tolist()) == list(range(mesh.ranks))
    assert (mesh.shifted(axis, -shift)[peer] == np.arange(mesh.ranks)).all()
    assert (mesh.group_of((axis,))[peer] == mesh.group_of((axis,))).all()


@given(SIZES, ORDER)
def test_moved_changes_one_coordinate(sizes: tuple[int, ...], order: str) -> None:
    mesh = _mesh(sizes, order)
    last = mesh.size(("pp",)) - 1
    moved = mesh.moved("pp", last)
    assert (mesh.coordinate("pp")[moved] == last).all()
    for axis in INNER[:-1]:
        assert (mesh.coordinate(axis)[moved] == mesh.coordinate(axis)).all()
    assert (mesh.moved("pp", last)[mesh.on("pp", last)] == mesh.on("pp", last)).all()


@pytest.mark.parametrize("text", ["tp-dp", "tp-cp-sp-ep-dp-pp-tp", "tp_cp", "", "tp-tp-sp-ep-dp-pp"])
def test_orders_that_are_none(text: str) -> None:
    with pytest.raises(InputError, match="not an order of the axes"):
        parse_order(text)


def test_hybrid_sharding_divides_dp() -> None:
    """12 replicas, experts over 2, shards over 4 neighbours."""
    mesh = mesh_of("megatron", tp=2, ep=2, dp=12, shards=4)
    assert mesh.groups(("ep", "idp"))[:2].tolist() == [[0, 2, 4, 6], [1, 3, 5, 7]]
    assert mesh.groups(("odp",))[0].tolist() == [0, 8, 16]
    assert mesh.groups(("edp",))[0].tolist() == [0, 4, 8, 12, 16, 20]
    plain, split = mesh_of("megatron", tp=2, dp=12), mesh_of("megatron", tp=2, dp=12, shards=3)
    assert plain.groups(("dp",)).tolist() == split.groups(("dp",)).tolist()
    with pytest.raises(InputError, match="3 is not a multiple of ep"):
        mesh_of("megatron", ep=2, dp=12, shards=3)


def test_ep_divides_dp() -> None:
    with pytest.raises(InputError, match="3 does not divide dp"):
        mesh_of("megatron", ep=3, dp=4)
