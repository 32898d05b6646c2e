"""Dims written as fabrics are recognised, and give the integers of the dims."""

from __future__ import annotations

import math
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.draws import draws
from tests.fabric.fabrics import all_reduce, saved
from tests.fabric.test_graph import some_dims

import astrarium as ar
from astrarium.engine.plan import Dim, Graph, Shape
from astrarium.fabric.built import build
from astrarium.fabric.graph import graph_of, plain
from astrarium.fabric.of_dims import document_of_dims
from astrarium.fabric.recognise import matching_links, recognised, same_graph
from astrarium.network.dims import plan_dims
from astrarium.network.planned import network_plan

TWO_WAY = some_dims().filter(lambda dims: all(dim.shape != Shape.RING_ONE_WAY or dim.npus < 3 for dim in dims))


def shuffled(graph: Graph, npus: int, seed: int) -> Graph:
    """The same graph with other numbers of devices and links."""
    rng = np.random.default_rng(seed)
    number = np.r_[np.arange(npus), npus + rng.permutation(graph.nodes - npus)].astype(np.int32)
    order = rng.permutation(graph.source.size)
    return Graph(graph.nodes, number[graph.source][order], number[graph.target][order],
                 *(getattr(graph, name)[order] for name in ("bandwidth", "latency", "buffer", "lanes")))


@given(some_dims(), st.integers(0, 99))
def test_numbers_of_links_and_devices_do_not_matter(dims: tuple[Dim, ...], seed: int) -> None:
    npus = math.prod(dim.npus for dim in dims)
    graph = shuffled(graph_of(dims), npus, seed)
    assert recognised(graph, npus, dims) == dims
    found = recognised(graph, npus)
    assert found is not None
    assert same_graph(graph_of(found), graph_of(dims), npus)
    rows = matching_links(graph, graph_of(dims), npus)
    assert sorted(rows.tolist()) == list(range(graph.source.size))
    assert (graph_of(dims).bandwidth[rows] == graph.bandwidth).all()
    below = graph.source < npus
    assert (graph_of(dims).source[rows][below] == graph.source[below]).all()


@given(some_dims(), st.integers(0, 99), st.data())
def test_another_graph_is_not_recognised(dims: tuple[Dim, ...], seed: int, data: st.DataObject) -> None:
    npus = math.prod(dim.npus for dim in dims)
    graph = shuffled(graph_of(dims), npus, seed)
    row = data.draw(st.integers(0, graph.source.size - 1))
    latency = graph.latency.copy()
    latency[row] += 1
    changed = replace(graph, latency=latency)
    found = recognised(changed, npus)
    assert found is None or same_graph(graph_of(found), changed, npus)
    assert not same_graph(graph_of(dims), changed, npus)
    assert recognised(changed, npus, dims) != dims


@given(TWO_WAY)
def test_dims_to_a_fabric_and_back(dims: tuple[Dim, ...]) -> None:
    with TemporaryDirectory() as folder:
        file = ar.FabricFile(file=saved(document_of_dims(dims), Path(folder)))
        assert build(file, dims).dims == dims
        built = build(file)
    assert built.dims is not None
    assert same_graph(graph_of(built.dims), graph_of(dims), built.npus)
    assert math.prod(dim.npus for dim in built.dims) == built.npus == math.prod(dim.npus for dim in dims)


def test_few_npus_and_early_shapes_come_first() -> None:
    for dims in ((Dim(Shape.SWITCH, 8, 450.0, 300.0), Dim(Shape.SWITCH, 4, 50.0, 500.0)),
                 (Dim(Shape.RING, 4, 50.0, 1.0), Dim(Shape.RING, 4, 50.0, 1.0), Dim(Shape.RING, 2, 50.0, 1.0)),
                 (Dim(Shape.FULLY_CONNECTED, 4, 1.0, 0.0), Dim(Shape.MESH, 5, 1.0, 0.0))):
        assert recognised(graph_of(dims), math.prod(dim.npus for dim in dims)) == dims == plain(dims)
    cube = recognised(graph_of((Dim(Shape.HYPERCUBE, 8, 1.0, 0.0),)), 8)
    assert cube == (Dim(Shape.RING, 2, 1.0, 0.0),) * 3


def config_dims(dims: tuple[Dim, ...]) -> list[ar.Ring | ar.Switch | ar.FullyConnected | ar.Mesh | ar.Hypercube]:
    kinds = {Shape.RING: ar.Ring, Shape.SWITCH: ar.Switch, Shape.FULLY_CONNECTED: ar.FullyConnected,
             Shape.MESH: ar.Mesh, Shape.HYPERCUBE: ar.Hypercube, Shape.RING_ONE_WAY: ar.Ring}
    return [kinds[dim.shape](dim.npus, bandwidth=f"{dim.bandwidth} GB/s", latency=f"{dim.latency} ns") for dim in dims]


@draws(15)
@given(TWO_WAY, st.sampled_from(["closed_form", "contention", "fluid"]), st.sampled_from(["1 MB", "12345 B"]))
def test_a_recognised_fabric_gives_the_integers_of_its_dims(dims: tuple[Dim, ...], backend: str, payload: str) -> None:
    with TemporaryDirectory() as folder:
        file = ar.FabricFile(file=saved(document_of_dims(dims), Path(folder)))
        written = ar.Network(config_dims(dims), backend=backend)
        on_fabric = ar.Network(config_dims(dims), backend=backend, fabric=file)
        assert network_plan(on_fabric, backend).graph is None
        alone = ar.Network(fabric=file, backend=backend)
        same = plan_dims(alone) == plan_dims(written)
        plain_run, fabric_run = (ar.simulate(all_reduce(each, payload), record=False) for each in (written, on_fabric))
        assert fabric_run.makespan_ps == plain_run.makespan_ps
        assert fabric_run.outcome.folded == plain_run.outcome.folded
        if same:
            assert ar.simulate(all_reduce(alone, payload), record=False).makespan_ps == plain_run.makespan_ps


@draws(10)
@given(TWO_WAY, st.sampled_from(["contention", "fluid"]))
def test_the_graph_itself_gives_them_too_where_ways_are_unique(dims: tuple[Dim, ...], backend: str) -> None:
    """With a seed the run is on the graph: the same integers where every pair of NPUs has one shortest way."""
    many = [dim for dim in dims if dim.npus > 1]
    assume(len(many) == 1 and (many[0].shape != Shape.RING or many[0].npus % 2 or many[0].npus == 2))
    assume(many[0].shape != Shape.HYPERCUBE or many[0].npus == 2)
    with TemporaryDirectory() as folder:
        file = ar.FabricFile(file=saved(document_of_dims(dims), Path(folder)))
        written = ar.Network(config_dims(dims), backend=backend)
        on_graph = ar.Network(config_dims(dims), backend=backend, fabric=file, ecmp=5)
        assert network_plan(on_graph, backend).graph is not None
        runs = [ar.simulate(all_reduce(each), record=False).makespan_ps for each in (written, on_graph)]
    assert runs[0] == runs[1]


def test_a_seed_without_a_graph_medium_is_refused() -> None:
    torus = ar.blueprint("torus", sides=[4], links={"dim0": {"bandwidth": "1 GB/s", "latency": "1 ns"}})
    assert ar.Network(fabric=torus).npus == 4
    assert ar.Network(fabric=torus, ecmp=1).notes == ("inactive with backend: closed_form: ecmp",)
    with pytest.raises(ar.InputError, match=r"backend: library has no links of a graph, and the fabric has "
                                            r"network.ecmp"):
        ar.Network(fabric=torus, ecmp=1, backend="library", library="net.so")
    with pytest.raises(ar.InputError, match="ecmp: has no effect without a fabric"):
        ar.Network([ar.Ring(4, bandwidth="1 GB/s", latency="0 ns")], ecmp=1)


def test_one_way_rings_are_no_fabric() -> None:
    with pytest.raises(ar.UnsupportedError, match=r"network.dims\[0\].one_way: edges of InfraGraph go both ways"):
        document_of_dims((Dim(Shape.RING_ONE_WAY, 4, 1.0, 0.0),))


def test_a_change_of_a_recognised_link_is_the_change_of_its_dims() -> None:
    numbers = {"bandwidth": "50 GB/s", "latency": "500 ns"}
    fabric = ar.blueprint("torus", sides=[4, 3], links={"dim0": numbers, "dim1": numbers})
    change = ar.Change(at="1 us", link=[0, 4], speed=0.5)
    dims = [ar.Ring(4, **numbers), ar.Ring(3, **numbers)]
    runs = [ar.simulate(all_reduce(network)).makespan_ps for network in (
        ar.Network(dims, backend="contention", changes=[change]),
        ar.Network(fabric=fabric, backend="contention", changes=[change]), ar.Network(dims, backend="contention"))]
    assert runs[0] == runs[1] > runs[2]
