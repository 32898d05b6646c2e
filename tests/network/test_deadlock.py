"""Cycles of the channel dependency graph, against all routes written out, and against runs with tiny buffers."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from itertools import pairwise, permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.draws import draws
from tests.plans.graphs import graph_from, random_graph, shortest_ways

import astrarium as ar
from astrarium import engine
from astrarium.engine.plan import FIRST_LINK, Dim, GivenRoutes, Graph, NetworkPlan, PacketRules, Plan, RoceRules, Shape
from astrarium.errors import StallError, UnsupportedError
from astrarium.fabric.graph import graph_of
from astrarium.lower import lower
from astrarium.lower.senders import pairs_of
from astrarium.network.deadlock import wait_cycle
from astrarium.oracle.fabric import fabric_of
from astrarium.trace import TraceBuilder, traces_of_bytes

FINITE = PacketRules(buffer=8192)
LINK = {"bandwidth": "50 GB/s", "latency": "500 ns"}


def has_cycle(after: dict[int, set[int]]) -> bool:
    """Take away what nothing comes after, until nothing is left or something stays."""
    left = {came: set(going) for came, going in after.items()}
    while True:
        ends = [came for came, going in left.items() if not going & left.keys()]
        if not ends:
            return bool(left)
        for came in ends:
            del left[came]


def dependencies(ways: list[list[int]]) -> dict[int, set[int]]:
    after: dict[int, set[int]] = {}
    for way in ways:
        for came, going in pairwise(way):
            after.setdefault(came, set()).add(going)
    return after


def nodes_of(graph: Graph, ways: list[list[int]]) -> set[tuple[int, int, int]]:
    """The nodes that two links of a way join, one after the other."""
    return {(int(graph.source[came]), int(graph.source[going]), int(graph.target[going]))
            for way in ways for came, going in pairwise(way)}


@given(st.integers(0, 2**32), st.sampled_from([FIRST_LINK, 3]), st.booleans(), st.booleans())
@draws(60)
def test_a_cycle_is_found_where_routes_have_one(seed: int, ecmp: int, some: bool, spray: bool) -> None:
    """Of routes between all NPUs, and between some."""
    rng = random.Random(seed)
    npus = rng.randint(2, 7)
    graph = random_graph(rng, npus)
    network = NetworkPlan("packets", (Dim(Shape.SWITCH, npus, 1.0, 1.0),), graph=graph, ecmp=ecmp,
                          packets=replace(FINITE, spray=spray))
    pairs = [(a, b) for a in range(npus) for b in range(npus) if a != b]
    if some:
        pairs = rng.sample(pairs, rng.randint(1, len(pairs)))
    fabric = fabric_of(network)
    ways = ([way for pair in pairs for way in shortest_ways(graph, *pair)] if spray else
            [[hop.port[3] for hop in fabric.between(*pair)] for pair in pairs])
    cycle = wait_cycle(network, False, (lambda: np.array(pairs)) if some else None)
    assert bool(cycle) == has_cycle(dependencies(ways))
    steps = nodes_of(graph, ways)
    assert all(step in steps for step in zip(cycle, cycle[1:] + cycle[:1], cycle[2:] + cycle[:2], strict=True))


@given(st.integers(0, 2**32))
@draws(60)
def test_of_dims_as_their_graph_says(seed: int) -> None:
    rng = random.Random(seed)
    dims = []
    for _ in range(rng.randint(1, 3)):
        shape = rng.choice(list(Shape))
        dims.append(Dim(shape, rng.choice([2, 4]) if shape == Shape.HYPERCUBE else rng.randint(2, 5), 1.0, 1.0))
    npus = int(np.prod([dim.npus for dim in dims]))
    pairs = np.array([rng.sample(range(npus), 2) for _ in range(rng.randint(1, 3 * npus))])
    network = NetworkPlan("packets", tuple(dims), packets=FINITE)
    on_graph = replace(network, graph=graph_of(dims), ecmp=FIRST_LINK)
    for some in (None, lambda: pairs):
        assert bool(wait_cycle(network, False, some)) == bool(wait_cycle(on_graph, False, some))


@pytest.mark.parametrize(("shape", "way"), [(Shape.RING, 2), (Shape.RING, -2), (Shape.RING_ONE_WAY, 2)])
def test_the_npus_of_a_ring_are_named(shape: Shape, way: int) -> None:
    """Of the ring of three by five in which packets go two links far."""
    network = NetworkPlan("packets", (Dim(Shape.MESH, 3, 1.0, 1.0), Dim(shape, 5, 1.0, 1.0)), packets=FINITE)
    pairs = np.array([(3 * n + 1, 3 * ((n + way) % 5) + 2) for n in range(5)])
    assert wait_cycle(network, False, lambda: pairs) == [2, 5, 8, 11, 14]
    assert not wait_cycle(network, False, lambda: pairs[1:])


def test_links_without_limit_wait_for_nobody() -> None:
    """A ring of five whose one link has no limit breaks the circle of one way round."""
    ring = [(n, (n + 1) % 5, 1.0, 1.0) for n in range(5)]
    graph = graph_from(5, ring)
    network = NetworkPlan("packets", (Dim(Shape.SWITCH, 5, 1.0, 1.0),), graph=replace(graph, buffer=np.full(5, 9000)))
    assert wait_cycle(network, False) == [0, 1, 2, 3, 4]
    buffer = np.array([0, 9000, 9000, 9000, 9000])
    one_free = replace(network, graph=replace(graph, buffer=buffer))
    assert not wait_cycle(one_free, False)
    assert wait_cycle(one_free, True) == [0, 1, 2, 3, 4]


def test_given_routes_of_pairs_that_send_nothing_do_not_count() -> None:
    ring = graph_from(4, [(a, b, 1.0, 1.0) for n in range(4) for a, b in ((n, (n + 1) % 4), ((n + 1) % 4, n))])
    link = {(int(a), int(b)): k for k, (a, b) in enumerate(zip(ring.source, ring.target, strict=True))}
    rows = [(n, (n + 2) % 4, link[at % 4, (at + 1) % 4]) for n in range(4) for at in (n, n + 1)]
    network = NetworkPlan("packets", (Dim(Shape.SWITCH, 4, 1.0, 1.0),), graph=ring, ecmp=FIRST_LINK,
                          routes=GivenRoutes(*(np.array(column, np.int32) for column in zip(*rows, strict=True))))
    assert wait_cycle(network, True, lambda: np.array([(n, (n + 2) % 4) for n in range(4)])) == [0, 1, 2, 3]
    assert not wait_cycle(network, True, lambda: np.array([(n, (n + 2) % 4) for n in range(3)]))


def design(network: Any, op: str = "all_reduce", algorithm: str = "ring", **packets: Any) -> ar.Design:
    return ar.Design(workload=ar.SingleCollective(op, "1 MB"), collective=ar.Collective(**{op: [algorithm]}),
                     network=ar.Network(**network, backend="packets", packets=packets))


@pytest.mark.parametrize("packets", [{"buffer": "64 KiB"}, {"transport": "roce"}])
def test_npus_in_a_ring_are_refused_where_they_pass_packets_on(packets: dict[str, Any]) -> None:
    """A ring all-reduce sends to neighbours only, all_to_all across other NPUs."""
    ring = {"dims": [ar.Ring(6, **LINK)]}
    assert ar.simulate(design(ring, **packets)).makespan > 0
    with pytest.raises(UnsupportedError, match="NPU 0 -> NPU 1 -> NPU 2 -> NPU 3 -> NPU 4 -> NPU 5 -> NPU 0"):
        ar.simulate(design(ring, "all_to_all", "direct", **packets))


def test_pfc_of_pinned_routes_is_named_by_devices() -> None:
    """Four switches in a ring and routes that go two of them on (a user's case); a run with small buffers stalls."""
    ring = ar.blueprint("torus", sides=[4], links={"dim0": LINK})
    network = {"fabric": ring, "routes": [{"source": npu, "destination": (npu + 2) % 4, "via": [(npu + 1) % 4]}
                                          for npu in range(4)]}
    circle = "npu.0.xpu.0 -> npu.1.xpu.0 -> npu.2.xpu.0 -> npu.3.xpu.0"
    with pytest.raises(UnsupportedError, match=f"{circle} -> npu.0.xpu.0"):
        ar.simulate(design(network, "all_to_all", "direct", transport={"name": "roce", "buffer": "1 MB"}))
    stalls = design(network, "all_to_all", "direct", buffer="8 KiB", deadlock="allow")
    for pure in (False, True):
        with pytest.raises(StallError) as stalled:
            ar.simulate(replace(stalls, workload=ar.SingleCollective("all_to_all", "1 MB")), pure=pure)
        lines = [wait.text for wait in stalled.value.waits if wait.rank is None]
        assert [line.split(":")[0] for line in lines] == [
            f"link {one} -> {two}" for one, two in pairwise([*circle.split(" -> "), "npu.0.xpu.0"])]


TINY = {"credits": PacketRules(size=4096, buffer=4096),
        "roce": PacketRules(size=4096, transport=RoceRules(buffer=400_000, alpha=0.01, kmin=10**9, kmax=10**9))}


def sends(npus: int, pairs: Sequence[tuple[int, int]], size: int) -> Plan:
    """A message of each pair, all at once."""
    builders = [TraceBuilder() for _ in range(npus)]
    for tag, (source, target) in enumerate(pairs):
        builders[source].send(f"send {tag}", target, size, tag=tag)
        builders[target].recv(f"receive {tag}", source, size, tag=tag)
    several = ar.System(p2p_streams=1 << 20)
    network = ar.Network([ar.Switch(npus, bandwidth="1 GB/s", latency="1 us")], backend="packets")
    return lower(ar.Design(workload=ar.Trace("in memory"), network=network, system=several),
                 traces_of_bytes([builder.encode() for builder in builders]))


@given(st.integers(0, 2**32), st.sampled_from(list(TINY)), st.sampled_from([FIRST_LINK, 3]))
@draws(20)
def test_what_passes_never_stalls(seed: int, transport: str, ecmp: int) -> None:
    """In buffers of a packet, where what is refused often stalls."""
    rng = random.Random(seed)
    npus = rng.randint(3, 8)
    graph = random_graph(rng, npus)
    graph = replace(graph, latency=np.full(graph.source.size, 500.0), bandwidth=np.full(graph.source.size, 1.0))
    pairs = [pair for pair in permutations(range(npus), 2) if rng.random() < 0.5] or [(0, 1)]
    plan = sends(npus, pairs, 200_000)
    network = replace(plan.network, graph=graph, ecmp=ecmp, packets=TINY[transport])
    try:
        engine.execute(replace(plan, network=network))
    except StallError:
        assert wait_cycle(network, transport == "roce", lambda: pairs_of(plan))


def test_a_fat_tree_of_a_thousand_is_checked_at_once() -> None:
    begin = time.process_time()
    npus, leaves, spines = 1024, 32, 16
    cables = [(npu, npus + npu // 32) for npu in range(npus)] + [
        (npus + leaf, npus + leaves + spine) for leaf in range(leaves) for spine in range(spines)]
    graph = graph_from(npus + leaves + spines, [(*ends, 1.0, 1.0) for a, b in cables for ends in ((a, b), (b, a))])
    network = NetworkPlan("packets", (Dim(Shape.SWITCH, npus, 1.0, 1.0),), graph=graph, packets=FINITE)
    assert not wait_cycle(network, True)
    assert time.process_time() - begin < 3
