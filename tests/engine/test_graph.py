"""Graphs of links: both engines, closed forms, the graphs of dims, and what is refused."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.draws import draws
from tests.oracle.test_same_integers import assert_same
from tests.plans.draw import random_plan
from tests.plans.graphs import Link, graph_from, random_graph, shortest_ways
from tests.plans.hand import Node, collective, native_collective, plan_of, recv, send

from astrarium import engine
from astrarium.engine import HAVE_CORE, Outcome, Plan, execute
from astrarium.engine.plan import FIRST_LINK, Backend, Dim, Graph, NetworkPlan, Order, Policy, Shape
from astrarium.errors import UnsupportedError
from astrarium.fabric.graph import graph_of
from astrarium.vocab import CommOp

from .test_core_hostile import answers, corrupt

CORE = pytest.mark.skipif(not HAVE_CORE, reason="no compiled core here")
ENGINES = pytest.mark.parametrize("pure", [pytest.param(False, marks=CORE, id="core"), pytest.param(True, id="pure")])
SEEDS = st.integers(0, 2**32 - 1)
MEDIA = st.sampled_from(["contention", "fluid"])


def run(plan: Plan, pure: bool = False) -> Outcome:
    return execute(plan, record=True, fold=False, pure=pure)


def on(graph: Graph, npus: int, backend: str = "contention", **fields: Any) -> NetworkPlan:
    """A network of one logical dim on a graph."""
    return NetworkPlan(backend, (Dim(Shape.RING, npus, 1.0, 0.0),), graph=graph, **fields)


def pair(size: int, source: int, target: int, npus: int) -> list[list[Node]]:
    """One message."""
    ranks: list[list[Node]] = [[] for _ in range(npus)]
    ranks[source], ranks[target] = [send(target, size)], [recv(source, size)]
    return ranks


@CORE
@given(SEEDS, MEDIA, st.booleans(), st.integers(-1, 5))
@draws(60)
def test_both_engines(seed: int, backend: str, cut_through: bool, ecmp: int) -> None:
    plan = random_plan(seed, ends=False)
    graph = random_graph(random.Random(seed), plan.npus)
    network = NetworkPlan(backend, plan.network.dims, cut_through=cut_through, graph=graph, ecmp=ecmp)
    assert_same(replace(plan, network=network))


@ENGINES
@given(seed=SEEDS, npus=st.integers(2, 9), size=st.integers(0, 10**6), ecmp=st.integers(-1, 9))
def test_a_message_alone(pure: bool, seed: int, npus: int, size: int, ecmp: int) -> None:
    """It takes one of the ways of the least cost; without ECMP, at every node the lowest number of those."""
    rng = random.Random(seed)
    graph, (source, target) = random_graph(rng, npus), rng.sample(range(npus), 2)
    ways = shortest_ways(graph, source, target)
    serial = [round(size / rate * 1000) for rate in graph.bandwidth.tolist()]
    latency = [round(ns * 1000) for ns in graph.latency.tolist()]
    taken = {}
    for backend, cut_through in ("contention", False), ("contention", True), ("fluid", False):
        plan = plan_of(pair(size, source, target, npus), on(graph, npus, backend, cut_through=cut_through, ecmp=ecmp))
        outcome = run(plan, pure)
        taken[backend, cut_through] = outcome.makespan
        if size:
            way = set(outcome.link_number.tolist())
    if not size:
        return
    (way,) = [links for links in ways if set(links) == way]
    assert ecmp != FIRST_LINK or way == min(ways)
    assert taken["contention", False] == sum(serial[k] + latency[k] for k in way)
    tail = head = 0
    for k in way:
        tail, head = max(head + serial[k], tail) + latency[k], head + latency[k]
    assert taken["contention", True] == tail
    slowest = min(graph.bandwidth[way].tolist())
    assert abs(taken["fluid", False] - size / slowest * 1000 - sum(latency[k] for k in way)) <= 1


def rows(outcome: Outcome, npus: int) -> list[tuple[int, ...]]:
    """Traffic without dims, and without the names of switches."""
    ends = [np.where(column >= npus, -1, column).tolist() for column in (outcome.link_from, outcome.link_to)]
    return sorted(zip(*ends, outcome.link_bytes.tolist(), outcome.link_busy.tolist(), strict=True))


@ENGINES
@given(seed=SEEDS, backend=MEDIA)
@draws(20)
def test_the_graph_of_dims_gives_the_integers_of_the_dims(pure: bool, seed: int, backend: str) -> None:
    """With the first of equal links, also where a dim has several ways: these go up the dims, and up a ring."""
    plan = random_plan(seed)
    dims = replace(plan.network, backend=backend)
    if plan.npus == 1:
        return
    ours = run(replace(plan, network=replace(dims, graph=graph_of(dims.dims), ecmp=FIRST_LINK)), pure)
    theirs = run(replace(plan, network=dims), pure)
    for name in ("finish", "busy", "start", "end", "use_width"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name), err_msg=name)
    assert rows(ours, plan.npus) == rows(theirs, plan.npus)
    if backend == "contention":
        np.testing.assert_array_equal(ours.use_busy, theirs.use_busy.reshape(len(dims.dims), -1).sum(axis=0))


@ENGINES
@pytest.mark.parametrize("backend", ["contention", "fluid"])
@pytest.mark.parametrize("shape", [Shape.SWITCH, Shape.FULLY_CONNECTED, Shape.RING, Shape.RING_ONE_WAY, Shape.MESH])
def test_where_ways_are_unique_any_seed_gives_them(pure: bool, backend: str, shape: Shape) -> None:
    """An even ring, a hypercube and several dims have equal ways: there a seed chooses others."""
    dims = (Dim(shape, 5, 12.5, 100.0),)
    plan = plan_of([[collective(0)]] * 5, NetworkPlan(backend, dims),
                   collectives=[native_collective("direct", CommOp.ALL_TO_ALL, 5, 100_000)])
    seeded = replace(plan, network=replace(plan.network, graph=graph_of(dims), ecmp=7))
    np.testing.assert_array_equal(run(seeded, pure).finish, run(plan, pure).finish)


def clos(spines: int) -> Graph:
    """Two leaves of four NPUs each, on so many spines; cables up are a fourth as fast."""
    cables = [(npu, 8 + npu // 4, 100.0, 10.0) for npu in range(8)]
    cables += [(leaf, 10 + spine, 25.0, 20.0) for leaf in (8, 9) for spine in range(spines)]
    return graph_from(10 + spines, [link for a, b, rate, ns in cables for link in ((a, b, rate, ns), (b, a, rate, ns))])


@ENGINES
def test_ecmp_spreads_pairs_over_spines(pure: bool) -> None:
    """Four messages from one leaf to the other: seeds differ in who meets whom, and the first link takes all."""
    ranks = [[send(npu + 4, 100_000)] for npu in range(4)] + [[recv(npu, 100_000)] for npu in range(4)]

    def spines(ecmp: int) -> list[int]:
        outcome = run(plan_of(ranks, on(clos(4), 8, ecmp=ecmp)), pure)
        up = outcome.link_from == 8
        return sorted(outcome.link_bytes[up & (outcome.link_to >= 10)].tolist())

    assert spines(FIRST_LINK) == [400_000]
    assert len({tuple(spines(seed)) for seed in range(20)}) > 2
    assert sum(len(spines(seed)) for seed in range(20)) / 20 == pytest.approx(4 * (1 - 0.75**4), abs=0.5)


@ENGINES
def test_rows_have_the_numbers_of_links(pure: bool) -> None:
    graph = graph_from(3, [(0, 2, 10.0, 0.0), (2, 0, 10.0, 0.0), (1, 2, 5.0, 0.0), (2, 1, 20.0, 0.0)])
    outcome = run(plan_of(pair(1000, 0, 1, 2), on(graph, 2)), pure)
    assert outcome.link_number.tolist() == [0, 3]
    assert outcome.link_dim.tolist() == [0, 0]
    assert list(zip(outcome.link_from, outcome.link_to, strict=True)) == [(0, 2), (2, 1)]
    assert outcome.link_busy.tolist() == [100_000, 50_000]
    assert outcome.use_busy.sum() == 100_000    # what a switch sends does not leave an NPU


BOTH: list[Link] = [(0, 1, 10.0, 0.0), (1, 0, 10.0, 0.0)]
BAD: dict[str, tuple[Callable[[], Graph], str]] = {
    "no node": (lambda: graph_from(2, [*BOTH, (0, 2, 1.0, 0.0)]), r"link 2 of the graph, from node 0 to 2: of a node"),
    "a negative node": (lambda: graph_from(2, [(-1, 0, 1.0, 0.0), *BOTH]), "link 0 .*from node -1 to 0: of a node"),
    "bandwidth 0": (lambda: graph_from(2, [*BOTH, (0, 1, 0.0, 0.0)]), "link 2 .*its bandwidth is no number above 0"),
    "bandwidth -1": (lambda: graph_from(2, [*BOTH, (0, 1, -1.0, 0.0)]), "link 2 .*its bandwidth"),
    "bandwidth NaN": (lambda: graph_from(2, [*BOTH, (0, 1, np.nan, 0.0)]), "link 2 .*its bandwidth"),
    "no end": (lambda: graph_from(2, [*BOTH, (0, 1, np.inf, 0.0)]), "link 2 .*its bandwidth"),
    "latency": (lambda: graph_from(2, [(0, 1, 1.0, -1.0), *BOTH]), "link 0 .*its latency is no number of 0 or more"),
    "latency NaN": (lambda: graph_from(2, [*BOTH, (1, 0, 1.0, np.nan)]), "link 2 .*from node 1 to 0: its latency"),
    "buffer": (lambda: replace(graph_from(2, BOTH), buffer=np.array([0, -1])), "link 1 .*its buffer is below 0"),
    "lanes": (lambda: replace(graph_from(2, BOTH), lanes=np.array([0, 1], np.int32)), "link 0 .*its lanes are below 1"),
    "cost": (lambda: replace(graph_from(2, BOTH), cost=np.array([1, 0])), "link 1 .*its cost is below 1"),
    "costs": (lambda: replace(graph_from(2, BOTH), cost=np.array([2**62, 1])), "link 0 .*its cost is .* too much"),
    "nothing from": (lambda: graph_from(3, [(1, 0, 1.0, 0.0), (1, 2, 1.0, 0.0), (2, 1, 1.0, 0.0)]),
                     "NPU 0 has no link from it in the graph"),
    "nothing to": (lambda: graph_from(3, [(0, 1, 1.0, 0.0)]), "NPU 0 has no link to it in the graph"),
    "apart": (lambda: graph_from(4, [(0, 2, 1.0, 0.0), (2, 0, 1.0, 0.0), (1, 3, 1.0, 0.0), (3, 1, 1.0, 0.0)]),
              "no way from NPU 0 to NPU 1"),
    "one way only": (lambda: graph_from(2, [(0, 1, 1.0, 0.0), (0, 0, 1.0, 0.0), (1, 1, 1.0, 0.0)]),
                     "no way from NPU 1 to NPU 0"),
    "fewer nodes than NPUs": (lambda: graph_from(1, [(0, 0, 1.0, 0.0)]), "a graph of 1 nodes and 1 links for 2 NPUs"),
    "nodes without links": (lambda: graph_from(5, BOTH), "a graph of 5 nodes and 2 links for 2 NPUs"),
    "106 days": (lambda: graph_from(2, [*BOTH, (0, 1, 1.0, 1e16)]), "106 days"),
}


@CORE
@pytest.mark.parametrize("what", BAD)
def test_bad_graphs_are_refused(what: str) -> None:
    make, why = BAD[what]
    with pytest.raises(UnsupportedError, match=why):
        execute(plan_of(pair(8, 0, 1, 2), on(make(), 2)))


@CORE
@given(seed=SEEDS, times=st.integers(1, 2), backend=MEDIA)
@draws(20)
def test_corrupted_graphs(seed: int, times: int, backend: str) -> None:
    rng, plan = random.Random(seed), random_plan(seed)
    graph: Any = random_graph(rng, plan.npus)
    for _ in range(times):
        graph = corrupt(rng, graph)
        if not isinstance(graph, Graph):
            return
    answers(replace(plan, network=NetworkPlan(backend, plan.network.dims, graph=graph, ecmp=rng.choice([-2, -1, 3]))))


@CORE
def test_a_medium_without_links_takes_no_graph() -> None:
    graph = graph_from(2, BOTH)
    for pure in (False, True):
        with pytest.raises(UnsupportedError, match=r"closed_form has no links of a graph.*contention"):
            execute(plan_of(pair(8, 0, 1, 2), on(graph, 2, Backend.PORTS)), pure=pure)
    astra = NetworkPlan(Backend.LINKS, (Dim(Shape.RING, 2, 1.0, 0.0),), whole_ns=True, graph=graph)
    with pytest.raises(UnsupportedError, match="links has no links of a graph"):
        execute(plan_of(pair(8, 0, 1, 2), astra, policy=Policy(order=Order.ASTRA_SIM)))


def test_nodes_without_a_route_are_named() -> None:
    """By the pure-Python engine when a message asks; the core looks at the whole graph beforehand."""
    with pytest.raises(UnsupportedError, match="the graph has no route from node 0 to node 1"):
        execute(plan_of(pair(8, 0, 1, 2), on(graph_from(2, BOTH[1:]), 2)), pure=True)


@CORE
def test_nothing_folds_on_a_graph() -> None:
    plan = plan_of([[collective(0)]] * 8, on(clos(2), 8),
                   collectives=[native_collective("ring", CommOp.ALL_REDUCE, 8, 80_000)])
    outcome = engine.execute(plan)
    assert outcome.unfolded_because == "links of a graph"
    assert outcome.makespan == run(plan, pure=True).makespan
