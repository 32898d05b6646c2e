"""`packets`: both engines give the same integers; alone it is the closed form; bytes and buffers; bounds; deadlock."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.draws import draws
from tests.plans.draw import random_plan
from tests.plans.graphs import graph_from, random_graph, shortest_ways
from tests.plans.hand import Node, collective, native_collective, plan_of, recv, send

from astrarium import engine
from astrarium.engine import Outcome, Plan
from astrarium.engine.plan import FIRST_LINK, Backend, Dim, Graph, NetworkPlan, PacketRules, RoceRules, Shape
from astrarium.errors import AstrariumError, StallError, UnsupportedError
from astrarium.fabric.graph import graph_of
from astrarium.oracle import execute
from astrarium.vocab import CommOp

PURE = [pytest.param(True, id="pure"),
        pytest.param(False, id="core", marks=pytest.mark.skipif(not engine.HAVE_CORE, reason="no compiled core here"))]
ENGINES = pytest.mark.parametrize("pure", PURE)
needs_core = pytest.mark.skipif(not engine.HAVE_CORE, reason="no compiled core here")
SEEDS = st.integers(0, 2**32)
COLUMNS = ("finish", "busy", "start", "end", "use_busy")
LINKS = ("link_dim", "link_from", "link_to", "link_bytes", "link_busy")
COUNTS = ("queue", "buffer", "marks", "pauses", "paused", "source", "destination", "size", "asked", "arrived",
          "width", "watched", "longest", "paused_in")
SMALL_ROCE = RoceRules(buffer=400_000, kmin=3_000, kmax=20_000, pmax=300_000, cnp_interval=2_000_000,
                       alpha_timer=3_000_000, rate_timer=3_000_000, byte_counter=50_000, additive=0.5)


def run(plan: Plan, pure: bool, record: bool = True) -> Outcome:
    return execute(plan, record=record) if pure else engine.execute(plan, record=record, fold=False)


def told(plan: Plan, pure: bool) -> Outcome | str:
    """The outcome, or the words of the refusal, or the links of a stall: each engine has its own words for ranks."""
    try:
        return run(plan, pure)
    except StallError as error:
        return "\n".join(line for line in str(error).splitlines() if line.startswith("  link"))
    except AstrariumError as error:
        return str(error)


def rules_of(rng: random.Random) -> PacketRules:
    size, header = rng.choice([3_000, 20_000, 100_000]), rng.choice([0, 0, 62])
    roce = roce_of(rng) if rng.random() < 0.5 else None
    buffer = 0 if roce else rng.choice([0, 0, size + header, 3 * (size + header) + 1, 100_000])
    return PacketRules(size, header, buffer, rng.random() < 0.3, rng.randrange(5), roce, rng.random() < 0.5)


def roce_of(rng: random.Random) -> RoceRules:
    """Rules with and without a window, hyper increase, a byte counter, and a row for links of 12.5 bytes/ns."""
    row = (12.5, 4_000.0, 30_000.0, 500_000.0, 0.3, 0.25, 1.0)
    return replace(SMALL_ROCE, alpha=rng.choice([0.1, 1.0]), departing=rng.random() < 0.3, hyper=rng.choice([0.0, 2.0]),
                   window=rng.choice([0.0, 0.5, 1.0, 4.0]), window_scales=rng.random() < 0.5, clamp=rng.random() < 0.5,
                   recovery=rng.choice([1, 5]), byte_counter=rng.choice([0, 50_000]), per_message=rng.random() < 0.3,
                   by_rate=rng.choice([(), row]))


def with_inside(rng: random.Random, network: NetworkPlan) -> NetworkPlan:
    """Some links, or dims, inside hosts."""
    rules = network.packets
    if rules.transport is None or rng.random() < 0.5:
        return network
    places = len(network.dims) if network.graph is None else network.graph.source.size
    return replace(network, packets=replace(rules, inside=bytes(rng.choices([0, 1], k=places))))


def with_latency(graph: Graph) -> Graph:
    return replace(graph, latency=np.maximum(graph.latency, 0.5))


def drawn(seed: int) -> Plan:
    """A random plan over its dims, their graph, or another graph."""
    rng, plan = random.Random(seed), random_plan(seed)
    dims = tuple(replace(dim, latency=max(dim.latency, 0.001)) for dim in plan.network.dims)
    network = NetworkPlan("packets", dims, cut_through=rng.random() < 0.4, packets=rules_of(rng),
                          ecmp=rng.choice([FIRST_LINK, 0, 7]))
    which = rng.random() if plan.npus > 1 else 0.0
    if which > 0.4:
        graph = graph_of(dims) if which < 0.6 else random_graph(rng, plan.npus)
        network = replace(network, graph=with_latency(graph))
    return replace(plan, network=with_inside(rng, network))


@needs_core
@given(SEEDS)
@draws(30)
def test_both_engines_give_the_same_integers(seed: int) -> None:
    plan = drawn(seed)
    ours, theirs = told(plan, True), told(plan, False)
    if isinstance(ours, str) or isinstance(theirs, str):
        assert ours == theirs
        return
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name), err_msg=name)
    traffic = [sorted(zip(*(getattr(o, name).tolist() for name in LINKS), strict=True)) for o in (ours, theirs)]
    assert traffic[0] == traffic[1]
    if ours.packets is None or theirs.packets is None:
        assert ours.packets is theirs.packets
        return
    assert ours.packets.hops == theirs.packets.hops
    for name in COUNTS:
        np.testing.assert_array_equal(getattr(ours.packets, name), getattr(theirs.packets, name), err_msg=name)
    np.testing.assert_array_equal(run(plan, False, record=False).finish, theirs.finish)


def one_message(graph: Graph, npus: int, size: int, **fields: object) -> Plan:
    ranks = [[send(1, size)], [recv(0, size)]] + [[] for _ in range(npus - 2)]
    dims = (Dim(Shape.SWITCH, npus, 1.0, 1.0),)
    return plan_of(ranks, NetworkPlan("packets", dims, graph=graph, **fields))      # type: ignore[arg-type]


def crossed(graph: Graph, way: list[int], sizes: list[int], header: int, cut_through: bool) -> int:
    """When the last of a message's packets has crossed a way that is empty, ps: link by link, packet by packet."""
    free = [0] * len(way)
    tail = 0
    for size in sizes:
        head = tail = 0
        for place, link in enumerate(way):
            latency, bandwidth = round(graph.latency[link] * 1000), graph.bandwidth[link]
            start = max(head, free[place])
            free[place] = max(start + round((size + header) / bandwidth * 1000), tail)
            tail = free[place] + latency
            head = min(tail, start + round(header / bandwidth * 1000) + latency) if cut_through else tail
    return tail


@ENGINES
@given(SEEDS, st.integers(0, 40_000), st.booleans())
@draws(30)
def test_alone_it_takes_what_its_links_take(pure: bool, seed: int, size: int, cut_through: bool) -> None:
    """To the ps, on one of the shortest ways."""
    rng = random.Random(seed)
    npus = rng.randint(2, 6)
    graph = with_latency(random_graph(rng, npus))
    rules = PacketRules(rng.choice([100, 4096]), rng.choice([0, 62]), rng.choice([0, 10**6]))
    plan = one_message(graph, npus, size, packets=rules, cut_through=cut_through, ecmp=rng.choice([FIRST_LINK, 3]))
    sizes = [rules.size] * (size // rules.size) + [size % rules.size] * (size % rules.size > 0 or not size)
    times = [crossed(graph, way, sizes, rules.header, cut_through) for way in shortest_ways(graph, 0, 1)]
    assert run(plan, pure).makespan in times


def between(dims: tuple[Dim, ...], other: int, size: int, backend: str, **fields: object) -> Plan:
    ranks: list[list[Node]] = [[] for _ in range(math.prod(dim.npus for dim in dims))]
    ranks[0], ranks[other] = [send(other, size)], [recv(0, size)]
    return plan_of(ranks, NetworkPlan(backend, dims, **fields))     # type: ignore[arg-type]


@ENGINES
@pytest.mark.parametrize("shape", [Shape.RING, Shape.SWITCH, Shape.FULLY_CONNECTED])
def test_alone_it_agrees_with_the_closed_form(pure: bool, shape: Shape) -> None:
    """Within one packet time per link of the way: over one hop; over several with whole messages whose heads go on."""
    one = (Dim(shape, 8, 12.5, 700.0),)
    two = (*one, Dim(Shape.SWITCH, 2, 50.0, 300.0))
    for size, other in (0, 3), (1, 1), (5_000, 4), (1_000_000, 5), (4_096, 6):
        near = 1 if shape == Shape.RING else other
        for dims, where, rival in (one, near, Backend.PORTS), (two, other + 8, "contention"):
            found = run(between(dims, where, size, "packets"), pure)
            theirs = run(between(dims, where, size, rival, cut_through=rival != Backend.PORTS), pure).makespan
            assert found.packets is not None
            hops = found.packets.hops // max(1, -(-size // 4096))
            assert 0 <= found.makespan - theirs + 20 <= hops * 4096 / 12.5 * 1000 + 40


@ENGINES
@given(SEEDS)
@draws(12)
def test_bytes_are_conserved_and_buffers_hold(pure: bool, seed: int) -> None:
    plan = drawn(seed)
    found = told(plan, pure)
    if isinstance(found, str) or found.packets is None:
        return
    counts, rules = found.packets, plan.network.packets
    graph = plan.network.graph or graph_of(plan.network.dims)
    carried = np.zeros((2, graph.nodes), np.int64)
    rows = found.link_number if found.link_number.size else rows_of(found, graph, plan.network)
    np.add.at(carried[0], graph.source[rows], found.link_bytes)
    np.add.at(carried[1], graph.target[rows], found.link_bytes)
    sent = np.zeros((2, graph.nodes), np.int64)
    np.add.at(sent[0], counts.source, counts.size)
    np.add.at(sent[1], counts.destination, counts.size)
    np.testing.assert_array_equal(carried[0] - carried[1], sent[0] - sent[1])   # what a node forwards comes and goes
    assert (counts.arrived > counts.asked).all()
    buffers = np.where(graph.buffer > 0, graph.buffer, rules.buffer)
    if rules.transport is None:
        assert (counts.buffer[buffers > 0] <= buffers[buffers > 0]).all()
    else:
        assert isinstance(rules.transport, RoceRules)
        assert (counts.buffer <= rules.transport.buffer).all()


def rows_of(found: Outcome, graph: Graph, network: NetworkPlan) -> list[int]:
    """Numbers of an outcome's link rows in the graph of its dims."""
    from astrarium.oracle.fabric import fabric_of

    number = {port[:3]: number for number, port in enumerate(fabric_of(network).ports())}
    assert len(number) == graph.source.size
    rows = zip(found.link_dim.tolist(), found.link_from.tolist(), found.link_to.tolist(), strict=True)
    return [number[row] for row in rows]


def star(npus: int, transport: PacketRules, sizes: list[int]) -> Plan:
    """NPUs 1.. send to NPU 0 over one switch."""
    ranks = [[recv(npu, size, tag=0) for npu, size in enumerate(sizes, 1)]] + [[send(0, size)] for size in sizes]
    return plan_of(ranks, NetworkPlan("packets", (Dim(Shape.SWITCH, npus, 50.0, 500.0),), packets=transport))


@ENGINES
@pytest.mark.parametrize("rules", [PacketRules(), PacketRules(buffer=65_536), PacketRules(transport=RoceRules())],
                         ids=["no limit", "credits", "roce"])
def test_an_incast_takes_what_its_last_link_takes(pure: bool, rules: PacketRules) -> None:
    """n B / W, two latencies, and a packet; rate control may only add to it (marks begin above its 5 kB here)."""
    found = run(star(8, rules, [100_000] * 7), pure)
    least = 7 * 100_000 / 50 * 1000 + 2 * 500_000
    assert least <= found.makespan
    if rules.transport is None:      # marks make flows of RoCE slower
        assert found.makespan <= least + 4096 / 50 * 1000 + 20
    assert found.packets is not None
    if rules.buffer:
        assert found.packets.queue.max() <= 7 * 65_536
        assert found.packets.buffer.max() <= 65_536


@ENGINES
def test_a_permutation_takes_what_a_link_takes(pure: bool) -> None:
    """Nobody shares a link of a switch: B / W, two latencies, a packet."""
    ranks = [[send((npu + 3) % 8, 200_000), recv((npu - 3) % 8, 200_000)] for npu in range(8)]
    for rules in PacketRules(buffer=200_000), PacketRules(transport=RoceRules()):
        found = run(plan_of(ranks, NetworkPlan("packets", (Dim(Shape.SWITCH, 8, 50.0, 500.0),), packets=rules)), pure)
        assert found.makespan == pytest.approx(4_000_000 + 1_000_000 + 81_920, abs=200)
        assert found.packets is not None
        assert not found.packets.pauses.any()


@ENGINES
def test_a_deadlock_is_named_by_link_and_node(pure: bool) -> None:
    """Five NPUs in a ring send two links far, with room for one packet at each link's end."""
    ranks = [[send((npu + 2) % 5, 40_960), recv((npu - 2) % 5, 40_960)] for npu in range(5)]
    network = NetworkPlan("packets", (Dim(Shape.RING_ONE_WAY, 5, 50.0, 500.0),), packets=PacketRules(buffer=4096))
    with pytest.raises(StallError) as stall:
        run(plan_of(ranks, network), pure)
    assert "link 1 from node 1 to node 2: 4096 bytes wait, 0 of 4096 bytes are free at its end" in str(stall.value)


@ENGINES
def test_a_small_buffer_throttles_a_long_link(pure: bool) -> None:
    """One packet per round trip: it leaves, crosses, is taken, and its credit comes back."""
    plan = star(2, PacketRules(buffer=4096), [40_960])
    packet, latency = 81_920, 500_000
    assert run(plan, pure).makespan == 9 * 2 * (packet + latency) + 2 * (packet + latency)


@ENGINES
def test_heads_go_on_after_the_header(pure: bool) -> None:
    """Cut through, a packet of 1,000 + 100 bytes is there two latencies, a header and a packet later."""
    rules = PacketRules(1000, 100)
    plan = star(2, rules, [1000])
    assert run(plan, pure).makespan == 2 * (22_000 + 500_000)
    cut = replace(plan, network=replace(plan.network, cut_through=True))
    assert run(cut, pure).makespan == 2_000 + 22_000 + 2 * 500_000


def diamond() -> Graph:
    """Two NPUs, a switch each, four ways between the switches, each half as fast as the NPUs' links."""
    cables = [(0, 2, 100.0), (1, 3, 100.0)] + [(end, 4 + k, 50.0) for k in range(4) for end in (2, 3)]
    return graph_from(8, [link for a, b, rate in cables for link in ((a, b, rate, 50.0), (b, a, rate, 50.0))])


@ENGINES
def test_spraying_uses_all_ways(pure: bool) -> None:
    """One message: static and hashed ways take one of four links, spraying all of them evenly."""
    plan = one_message(diamond(), 2, 409_600, ecmp=5)
    one = run(plan, pure)
    sprayed = run(replace(plan, network=replace(plan.network, packets=PacketRules(spray=True))), pure)
    assert sorted(one.link_bytes.tolist()) == [409_600] * 4
    assert sorted(sprayed.link_bytes.tolist()) == [102_400] * 8 + [409_600] * 2
    assert sprayed.makespan < 0.6 * one.makespan


@ENGINES
def test_pfc_pauses_and_loses_nothing(pure: bool) -> None:
    """A buffer of little more than its headroom: links are paused, and all bytes arrive."""
    roce = RoceRules(buffer=8 * (50_000 + 3 * 4096) + 40_000, kmin=10**9, kmax=10**9)
    found = run(star(8, PacketRules(transport=roce), [200_000] * 7), pure)
    assert found.packets is not None
    assert found.packets.pauses.sum() > 7
    assert found.packets.marks.sum() == 0
    assert found.packets.buffer.sum() <= roce.buffer + 50_000
    assert found.makespan == pytest.approx(7 * 4_000_000 + 1_000_000 + 81_920, rel=0.1)


@ENGINES
def test_queues_over_time_are_bytes_that_wait(pure: bool) -> None:
    """Two NPUs send ten packets each to a third at once: the queue of its link grows by two packets each packet time,
    and falls by one. Without the flag nothing is kept."""
    packet = 4096 * 20
    found = run(star(3, PacketRules(queues=True), [40_960] * 2), pure).packets
    assert found is not None
    assert found.watched.size == 1
    first = 500_000 + packet
    levels = np.zeros(256, np.int64)
    for place in range(256):
        begin, end = place * found.width, (place + 1) * found.width - 1
        times = np.arange(begin, end + 1, 64)
        came = np.clip((times - first) // packet + 1, 0, 10) * 2
        left = np.clip((times - first) // packet + 1, 0, 20)
        levels[place] = 4096 * int((came - left).max())
    inside = levels > 0
    assert np.abs(found.longest[inside] - levels[inside]).max() <= 4096
    assert found.longest.max() == found.queue.max()
    assert found.longest[~inside].max() <= 4096
    assert run(star(3, PacketRules(), [40_960] * 2), pure).packets.watched.size == 0


@ENGINES
def test_pauses_over_time_add_up(pure: bool) -> None:
    roce = RoceRules(buffer=8 * (50_000 + 3 * 4096) + 40_000, kmin=10**9, kmax=10**9)
    found = run(star(8, PacketRules(transport=roce, queues=True), [200_000] * 7), pure).packets
    assert found is not None
    paused = found.paused_in.reshape(found.watched.size, -1)
    assert paused.sum(axis=1).tolist() == found.paused[found.watched].tolist()
    assert paused.max() <= found.width
    assert found.longest.reshape(paused.shape).max(axis=1).tolist() == found.queue[found.watched].tolist()


@ENGINES
@pytest.mark.parametrize(("network", "words"), [
    (NetworkPlan("packets", (Dim(Shape.SWITCH, 2, 50.0, 0.0),)), "packets over links of dim 0 without latency"),
    (NetworkPlan("packets", (Dim(Shape.SWITCH, 2, 50.0, 5.0),), packets=PacketRules(buffer=100)),
     "packets of 4096 bytes over links of dim 0 with a buffer of 100"),
    (NetworkPlan("packets", (Dim(Shape.SWITCH, 2, 50.0, 5.0),), packets=PacketRules(transport=RoceRules(buffer=9000))),
     "a RoCE buffer of 9000 bytes at node 2: the headroom of its links takes"),
], ids=["latency", "buffer", "headroom"])
def test_what_it_cannot_carry_is_refused(pure: bool, network: NetworkPlan, words: str) -> None:
    with pytest.raises(UnsupportedError, match=words):
        run(plan_of([[send(1, 10)], [recv(0, 10)]], network), pure)


@needs_core
def test_lazy_sends_take_their_turns() -> None:
    """A collective whose messages come to be one after another, beside one whose do not."""
    plan = plan_of([[collective(0), collective(1)]] * 6, NetworkPlan(
        "packets", (Dim(Shape.RING, 3, 12.5, 100.0), Dim(Shape.SWITCH, 2, 50.0, 500.0)), packets=PacketRules(1000)),
        collectives=[native_collective("direct", CommOp.ALL_TO_ALL, 6, 60_000),
                     native_collective("ring", CommOp.ALL_REDUCE, 6, 6_000)])
    np.testing.assert_array_equal(run(plan, False).finish, run(plan, True).finish)
