"""RoCE: a flow alone takes what credits take; incasts fill their link; links inside hosts are no hops."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.draws import draws
from tests.plans.hand import plan_of, recv, send

from astrarium import engine
from astrarium.engine import Outcome
from astrarium.engine.plan import Dim, Graph, NetworkPlan, PacketRules, RoceRules, Shape
from astrarium.network.roce import Roce, of_rates
from astrarium.oracle import execute

needs_core = pytest.mark.skipif(not engine.HAVE_CORE, reason="no compiled core here: millions of packet-hops")
RATES = (12.5, 25.0, 50.0, 100.0)
NVLINK, LATENCY = 450.0, 500.0
PACKET = 4096


def chain(rates: list[float], latency: float) -> Graph:
    """NPU 0, devices, NPU 1: a line of links both ways."""
    nodes = [0, *range(2, len(rates) + 1), 1]
    source, target = nodes[:-1] + nodes[1:], nodes[1:] + nodes[:-1]
    links = len(source)
    return Graph(len(nodes), np.array(source, np.int32), np.array(target, np.int32), np.array(rates * 2),
                 np.full(links, latency), np.zeros(links, np.int64), np.ones(links, np.int32))


def over(graph: Graph, size: int, roce: Roce | None, inside: list[int], *, pure: bool = False,
         cut_through: bool = False) -> Outcome:
    """One message from NPU 0 to NPU 1, whose way has these links inside hosts."""
    rules = PacketRules(PACKET) if roce is None else PacketRules(
        PACKET, transport=of_rates(roce, sorted(set(graph.bandwidth.tolist()))), inside=bytes(inside * 2))
    network = NetworkPlan("packets", (Dim(Shape.SWITCH, 2, 1.0, 1.0),), graph=graph, packets=rules,
                          cut_through=cut_through)
    plan = plan_of([[send(1, size)], [recv(0, size)]], network)
    return execute(plan, record=True) if pure else engine.execute(plan, record=True, fold=False)


def way(nic: float, slowest: float, nvlink: bool) -> tuple[list[float], list[int]]:
    """NVLink or not, a NIC, a slower or faster link, a NIC, NVLink or not: rates, and which links are inside hosts."""
    ends = [NVLINK] * nvlink
    return [*ends, nic, slowest, nic, *ends], [1] * nvlink + [0, 0, 0] + [1] * nvlink


@needs_core
@pytest.mark.parametrize("size", [4 << 10, 1 << 20, 64 << 20])
def test_a_flow_alone_takes_what_credits_take(size: int) -> None:
    """To the ps, at all pairs of rates of NIC and slowest link, with and without NVLink at both ends."""
    for nic, slowest, nvlink in product(RATES, RATES, (False, True)):
        rates, inside = way(nic, slowest, nvlink)
        graph = chain(rates, LATENCY)
        found = over(graph, size, Roce(), inside)
        assert found.packets is not None
        assert found.packets.marks.sum() == 0
        assert found.makespan == over(graph, size, None, inside).makespan, (nic, slowest, nvlink)


@given(st.lists(st.sampled_from([5.0, *RATES, 37.3]), min_size=1, max_size=4), st.integers(0, 2), st.integers(0, 2),
       st.sampled_from([1.0, 500.0, 5000.0]), st.integers(0, 200_000), st.booleans())
@draws(25)
def test_it_does_at_any_rates_and_latencies(rates: list[float], before: int, after: int, latency: float, size: int,
                                            cut_through: bool) -> None:
    inside = [1] * before + [0] * len(rates) + [1] * after
    graph = chain([NVLINK] * before + rates + [NVLINK] * after, latency)
    found = [over(graph, size, roce, inside, pure=True, cut_through=cut_through) for roce in (None, Roce())]
    assert found[0].makespan == found[1].makespan


def test_without_a_window_the_slower_hop_queues_and_marks() -> None:
    """What the window is for: 1 MiB from a NIC of 400 Gb/s over 100 Gb/s."""
    rates, inside = way(50.0, 12.5, nvlink=True)
    graph = chain(rates, LATENCY)
    without, with_one = (over(graph, 1 << 20, Roce(window=window), inside, pure=True) for window in (0.0, 1.0))
    assert without.packets is not None
    assert with_one.packets is not None
    assert without.packets.queue.max() > 700_000
    assert with_one.packets.queue.max() <= PACKET
    assert without.packets.marks.sum() > 0


def incast(senders: int, rate: float, roce: Roce, size: int) -> Outcome:
    ranks = [[recv(npu, size) for npu in range(1, senders + 1)]] + [[send(0, size)]] * senders
    rules = PacketRules(PACKET, transport=of_rates(roce, [rate]))
    network = NetworkPlan("packets", (Dim(Shape.SWITCH, senders + 1, rate, LATENCY),), packets=rules)
    return engine.execute(plan_of(ranks, network), record=True, fold=False)


@needs_core
@pytest.mark.parametrize("rate", [5.0, 12.5, 50.0, 100.0])
def test_incasts_use_their_link(rate: float) -> None:
    """8 MiB of each sender, with the defaults of the rate: at least 85 % of the link, nobody paused."""
    size = 8 << 20
    for senders in 2, 4, 7, 16, 32:
        found = incast(senders, rate, Roce(), size)
        assert found.packets is not None
        assert senders * size / rate * 1000 / found.makespan >= 0.85, senders
        assert found.packets.pauses.sum() == 0


def fan_in(roce: RoceRules, inside: bytes) -> Outcome:
    """NPUs 0 and 1 of a host send 400 kB each over NVLink (to node 4) and one NIC to NPUs 2 and 3 behind a switch."""
    source, target = [0, 1, 4, 5, 5], [4, 4, 5, 2, 3]
    bandwidth = [NVLINK, NVLINK, 50.0, 50.0, 50.0]
    graph = Graph(6, np.array(source + target, np.int32), np.array(target + source, np.int32), np.array(bandwidth * 2),
                  np.full(10, LATENCY), np.zeros(10, np.int64), np.ones(10, np.int32))
    network = NetworkPlan("packets", (Dim(Shape.SWITCH, 4, 1.0, 1.0),), graph=graph,
                          packets=PacketRules(PACKET, transport=roce, inside=inside))
    ranks = [[send(2, 400_000)], [send(3, 400_000)], [recv(0, 400_000)], [recv(1, 400_000)]]
    return execute(plan_of(ranks, network), record=True)


def test_links_inside_hosts_neither_mark_nor_pause() -> None:
    """Two flows of one NIC queue before it. As hops of RoCE NVLinks would be marked and paused."""
    rules = RoceRules(buffer=2_000_000, alpha=0.05, kmin=20_000, kmax=40_000)
    inside = bytes([1, 1, 0, 0, 0] * 2)
    apart, hops = fan_in(rules, inside).packets, fan_in(rules, b"").packets
    assert apart is not None
    assert hops is not None
    assert (apart.marks.sum(), apart.pauses.sum(), int((apart.buffer[:2]).sum())) == (0, 0, 0)
    assert apart.queue[2] > 300_000
    assert hops.marks.sum() > 0
    assert hops.pauses.sum() > 0


def test_messages_begin_at_full_rate_where_each_has_its_own_state() -> None:
    """Three NPUs send twice to a fourth: a pair's second message has the rate that the first one left, or the NIC's."""
    rules = RoceRules(kmin=20_000, kmax=40_000, pmax=500_000, cnp_interval=4_000_000)
    size = 400_000
    ranks = [[recv(npu, size, tag=tag) for npu in (1, 2, 3) for tag in (0, 1)]] + [
        [send(0, size, tag=0), send(0, size, 0, tag=1)]] * 3
    network = NetworkPlan("packets", (Dim(Shape.SWITCH, 4, 50.0, LATENCY),))
    lasts, anew = (execute(plan_of(ranks, replace(network, packets=PacketRules(PACKET, transport=each))), record=True)
                   for each in (rules, replace(rules, per_message=True)))
    assert anew.makespan < 0.8 * lasts.makespan
