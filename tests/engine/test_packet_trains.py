"""`packets` in the core: messages that meet nobody run as trains, windows on several threads; the integers stay."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.draws import draws
from tests.plans.graphs import graph_from, random_graph
from tests.plans.hand import Node, collective, delay, native_collective, plan_of, recv, send

from astrarium import engine
from astrarium.engine import Outcome, Plan
from astrarium.engine.plan import FIRST_LINK, Dim, GivenRoutes, Graph, NetworkPlan, PacketRules, RoceRules, Shape
from astrarium.errors import AstrariumError
from astrarium.oracle import execute
from astrarium.vocab import CommOp

pytestmark = pytest.mark.skipif(not engine.HAVE_CORE, reason="no compiled core here")
SEEDS = st.integers(0, 2**32)
COLUMNS = ("finish", "start", "end", "use_busy")
LINKS = ("link_dim", "link_from", "link_to", "link_bytes", "link_busy")
COUNTS = ("queue", "buffer", "marks", "pauses", "paused", "source", "destination", "size", "asked", "arrived", "width",
          "watched", "longest", "paused_in")
SMALL_ROCE = RoceRules(buffer=3_000_000, alpha=0.05, kmin=3_000, kmax=20_000, pmax=300_000, cnp_interval=2_000_000,
                       alpha_timer=3_000_000, rate_timer=3_000_000, byte_counter=50_000, additive=0.5)


def told(plan: Plan, pure: bool) -> Outcome | str:
    try:
        return execute(plan, record=True) if pure else engine.execute(plan, record=True, fold=False)
    except AstrariumError as error:
        return str(error)


def same(ours: Outcome | str, theirs: Outcome | str) -> None:
    if isinstance(ours, str) or isinstance(theirs, str):
        assert ours == theirs
        return
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name), err_msg=name)
    traffic = [sorted(zip(*(getattr(o, name).tolist() for name in LINKS), strict=True)) for o in (ours, theirs)]
    assert traffic[0] == traffic[1]
    assert ours.packets is not None
    assert theirs.packets is not None
    assert ours.packets.hops == theirs.packets.hops
    for name in COUNTS:
        np.testing.assert_array_equal(getattr(ours.packets, name), getattr(theirs.packets, name), err_msg=name)


def graph_of_rates(rng: random.Random, npus: int, rate: float | None) -> Graph:
    graph = random_graph(rng, npus)
    latency = np.maximum(graph.latency, rng.choice([0.5, 50.0]))
    bandwidth = graph.bandwidth if rate is None else np.full(graph.source.size, rate)
    return replace(graph, latency=latency, bandwidth=bandwidth)


def network_of(rng: random.Random, npus: int, threads: int = 1) -> NetworkPlan:
    """Links that are mostly alike, so that trains are possible; buffers of no, few and many packets."""
    rate = rng.choice([None, 50.0, 12.5])
    size, header = rng.choice([(1000, 0), (1000, 62), (4096, 100)])
    buffer = rng.choice([0, 0, 3, 20, 1000]) * (size + header)
    dims = (Dim(rng.choice([Shape.RING, Shape.SWITCH, Shape.SWITCH, Shape.FULLY_CONNECTED]), npus, rate or 25.0,
                rng.choice([0.5, 10.0, 500.0])),)
    graph = graph_of_rates(rng, npus, rate) if rng.random() < 0.6 else None
    return NetworkPlan("packets", dims, cut_through=rng.random() < 0.4, graph=graph, ecmp=rng.choice([FIRST_LINK, 7]),
                       packets=PacketRules(size, header, buffer, rng.random() < 0.1, threads=threads))


def messages(rng: random.Random, npus: int, count: int, network: NetworkPlan) -> Plan:
    """Messages of up to 60 packets from random times on: some alone, some behind others, some across."""
    ranks: list[list[Node]] = [[] for _ in range(npus)]
    horizon, size, ends = rng.choice([10**5, 10**6, 10**7]), network.packets.size, [0, 1]
    for tag in range(count):
        if rng.random() < 0.7:
            ends = rng.sample(range(npus), 2)
        amount = rng.choice([rng.randint(1, 4), rng.randint(3, 60)]) * size - rng.choice([0, rng.randrange(size)])
        amount = 0 if rng.random() < 0.1 else amount
        before = len(ranks[ends[0]])
        ranks[ends[0]] += [delay(rng.choice([0, rng.randrange(horizon)]), lane=-1),
                           send(ends[1], amount, before, tag=tag)]
        ranks[ends[1]].append(recv(ends[0], amount, tag=tag))
    return plan_of(ranks, network)


@given(SEEDS)
@draws(60)
def test_trains_are_the_packets_that_they_stand_for(seed: int) -> None:
    rng = random.Random(seed)
    npus = rng.randint(2, 9)
    plan = messages(rng, npus, rng.randint(1, 2 * npus), network_of(rng, npus))
    same(told(plan, True), told(plan, False))


@pytest.mark.parametrize("buffer", [0, 20_000, 1_000_000])
@pytest.mark.parametrize("after", [100_000, 1_000_000, 2_000_000, 2_600_000])
def test_a_train_that_is_met_becomes_packets(buffer: int, after: int) -> None:
    """A second message takes the switch's link to NPU 0: before, within and after the first one's packets there."""
    network = NetworkPlan("packets", (Dim(Shape.SWITCH, 3, 50.0, 500.0),), packets=PacketRules(1000, 0, buffer))
    ranks = [[recv(1, 100_500), recv(2, 7_000)], [send(0, 100_500)], [delay(after), send(0, 7_000, 0)]]
    plan = plan_of(ranks, network)
    same(told(plan, True), told(plan, False))


def test_collectives_in_chunks_run_behind_each_other() -> None:
    for op, name in (CommOp.ALL_REDUCE, "ring"), (CommOp.ALL_TO_ALL, "direct"):
        network = NetworkPlan("packets", (Dim(Shape.SWITCH, 6, 50.0, 500.0),), packets=PacketRules(1000))
        plan = plan_of([[collective(0)]] * 6, network, collectives=[
            native_collective(name, op, 6, 240_600, chunks=4, active=3)])
        same(told(plan, True), told(plan, False))


def leaves(npus: int, radix: int, rng: random.Random) -> Graph:
    """NPUs on leaves, two spines; rates that differ between the tiers."""
    count, rate = -(-npus // radix), rng.choice([25.0, 50.0])
    up = [(npu, npus + npu // radix, 50.0) for npu in range(npus)]
    up += [(npus + leaf, npus + count + spine, rate) for leaf in range(count) for spine in range(2)]
    links = [link for a, b, speed in up for link in ((a, b, speed, 300.0), (b, a, speed, 300.0))]
    return graph_from(npus + count + 2, links)


def ways(rng: random.Random, graph: Graph, npus: int, count: int) -> GivenRoutes:
    """Over drawn spines, for some pairs of NPUs of different leaves."""
    link = {ends: k for k, ends in enumerate(zip(graph.source.tolist(), graph.target.tolist(), strict=True))}
    leaf = {npu: node for npu, node in link if npu < npus}
    rows = {}
    for _ in range(count):
        a, b = rng.sample(range(npus), 2)
        if leaf[a] != leaf[b]:
            nodes = [a, leaf[a], graph.nodes - rng.randint(1, 2), leaf[b], b]
            rows[a, b] = [(a, b, link[ends]) for ends in pairwise(nodes)]
    return GivenRoutes(*np.array([row for way in rows.values() for row in way], np.int32).reshape(-1, 3).T.copy())


def network_on_leaves(rng: random.Random, npus: int, radix: int) -> NetworkPlan:
    """Credits with trains, or RoCE; with queues over time and without; ways by the first link, hashed, some given."""
    network = replace(network_of(rng, npus), graph=leaves(npus, radix, rng))
    assert network.graph is not None
    roce = replace(SMALL_ROCE, window=rng.choice([0.0, 1.0]), hyper=1.0) if rng.random() < 0.6 else None
    rules = replace(network.packets, transport=roce, queues=rng.random() < 0.5)
    routes = ways(rng, network.graph, npus, 2 * npus) if rng.random() < 0.5 and not rules.spray else None
    return replace(network, packets=rules, routes=routes)


@given(SEEDS)
@draws(25)
def test_given_ways_and_recorded_queues_change_no_integer_of_a_train(seed: int) -> None:
    """In both engines."""
    rng = random.Random(seed)
    npus = rng.randint(4, 12)
    plan = messages(rng, npus, rng.randint(1, 2 * npus), network_on_leaves(rng, npus, 3))
    ours = told(plan, True)
    same(ours, told(plan, False))
    rules = replace(plan.network.packets, queues=not plan.network.packets.queues)
    theirs = told(replace(plan, network=replace(plan.network, packets=rules)), False)
    if not isinstance(ours, str) and not isinstance(theirs, str):
        np.testing.assert_array_equal(ours.finish, theirs.finish)


@given(SEEDS)
@draws(6)
def test_any_number_of_threads_gives_the_same_integers(seed: int) -> None:
    """Enough ports per window for several threads: messages of all lengths, and a collective whose sends are pulled."""
    rng = random.Random(seed)
    npus = rng.randint(150, 250)
    network = network_on_leaves(rng, npus, 16)
    if rng.random() < 0.5:
        plan = messages(rng, npus, 3 * npus, network)
    else:
        plan = plan_of([[collective(0)]] * npus, network, collectives=[
            native_collective("direct", CommOp.ALL_TO_ALL, npus, npus * rng.choice([300, 2500]))])
    one = told(plan, False)
    for threads in 2, 5:
        rules = replace(network.packets, threads=threads)
        same(one, told(replace(plan, network=replace(network, packets=rules)), False))
