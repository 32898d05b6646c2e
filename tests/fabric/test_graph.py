"""Dims as a graph and back; the numbers of its links are those of the rows that dims report."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.plans.graphs import random_graph
from tests.plans.hand import Node, plan_of, recv, send

from astrarium import engine
from astrarium.engine.plan import FIRST_LINK, Dim, NetworkPlan, Shape
from astrarium.fabric.graph import dims_of, graph_of, plain


@st.composite
def some_dims(draw: st.DrawFn) -> tuple[Dim, ...]:
    """Up to three dims, of 2 to 64 NPUs together."""
    dims: list[Dim] = []
    for _ in range(draw(st.integers(1, 3))):
        shape = draw(st.sampled_from(tuple(Shape)))
        able = [1, 2, 4, 8] if shape == Shape.HYPERCUBE else [1, 2, 3, 4, 5, 6]
        npus = draw(st.sampled_from([n for n in able if n * math.prod(dim.npus for dim in dims) <= 64]))
        dims.append(Dim(shape, npus, draw(st.sampled_from([1.0, 12.5])), draw(st.sampled_from([0.0, 10.0]))))
    return tuple(dims) if math.prod(dim.npus for dim in dims) > 1 else (Dim(Shape.RING, 2, 1.0, 0.0),)


@given(some_dims())
def test_dims_come_back_from_their_graph(dims: tuple[Dim, ...]) -> None:
    assert dims_of(graph_of(dims), math.prod(dim.npus for dim in dims)) == plain(dims)


@given(some_dims(), st.data())
def test_a_graph_that_was_changed_has_no_dims(dims: tuple[Dim, ...], data: st.DataObject) -> None:
    graph, npus = graph_of(dims), math.prod(dim.npus for dim in dims)
    row = data.draw(st.integers(1, graph.source.size - 1))
    bandwidth, target = graph.bandwidth.copy(), graph.target.copy()
    bandwidth[row] *= 3
    target[row] = graph.source[row]
    assert dims_of(replace(graph, target=target), npus) is None
    assert dims_of(replace(graph, nodes=graph.nodes + 1), npus) is None
    assert dims_of(replace(graph, lanes=graph.lanes + 1), npus) is None
    assert dims_of(replace(graph, bandwidth=bandwidth), npus) is None


@pytest.mark.skipif(not engine.HAVE_CORE, reason="the order of the compiled core's rows")
@given(some_dims())
def test_links_are_numbered_as_the_rows_of_dims(dims: tuple[Dim, ...]) -> None:
    npus = math.prod(dim.npus for dim in dims)
    ranks: list[list[Node]] = [[] for _ in range(npus)]
    for a in range(npus):
        b = (a + 1) % npus
        ranks[a].append(send(b, 1000))
        ranks[b].append(recv(a, 1000))
    network = NetworkPlan("contention", dims)
    theirs = engine.execute(plan_of(ranks, network), record=True, fold=False)
    on_graph = replace(network, graph=graph_of(dims), ecmp=FIRST_LINK)
    ours = engine.execute(plan_of(ranks, on_graph), record=True, fold=False)
    assert theirs.link_number.size == 0
    assert (np.diff(ours.link_number) > 0).all()
    for name in ("link_bytes", "link_busy", "link_from", "link_to"):
        mine = getattr(ours, name)
        np.testing.assert_array_equal(np.where(mine < npus, mine, -1) if name in ("link_from", "link_to") else mine,
                                      getattr(theirs, name))


def test_other_graphs_have_no_dims() -> None:
    assert all(dims_of(random_graph(random.Random(seed), 6), 6) is None for seed in range(50))
    assert dims_of(graph_of((Dim(Shape.RING, 1, 1.0, 0.0),)), 1) is None
    assert np.array_equal(graph_of((Dim(Shape.SWITCH, 2, 1.0, 0.0),)).source, [0, 1, 2, 2])
