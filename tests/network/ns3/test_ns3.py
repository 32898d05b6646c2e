"""`network.backend: ns3` with ns-3 itself (optional: the program of `make ns3`).

A message that meets nobody must take what its packets take, link by link, to the rounding of ns-3's clock, over the
ways that our own graph has; and agree with `closed_form` within a packet per hop and the headers. Where messages meet,
ns-3 must differ as packets do.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.commands import Run
from tests.plugins.builtin import BuiltinNetwork

import astrarium as ar
from astrarium.engine.plan import FIRST_LINK, Backend, Dim, Graph, NetworkPlan, Shape
from astrarium.engine.plugins import Network
from astrarium.engine.plugins.exams import EXAM_FABRIC, exam_network
from astrarium.engine.plugins.network import NEVER
from astrarium.engine.routes import Routes
from astrarium.errors import PluginError
from astrarium.fabric.graph import graph_of
from astrarium.network.ns3 import Ns3
from astrarium.network.ns3.medium import Ns3Network
from astrarium.network.ns3.program import find
from astrarium.trace import TraceBuilder, traces_of_bytes

pytestmark = pytest.mark.skipif(find() is None, reason="no program astrarium-ns3 here: `make ns3` builds it, with ns-3")

HEADERS = 30        # bytes: PPP 2, IP 20, UDP 8
Message = tuple[int, int, int, int]     # at, source, destination, bytes
DIMS = {
    "rings": (Dim(Shape.RING, 5, 50.0, 500.0), Dim(Shape.RING, 4, 12.5, 700.0)),
    "one_way": (Dim(Shape.RING_ONE_WAY, 4, 25.0, 100.0), Dim(Shape.MESH, 3, 50.0, 0.0)),
    "switches": (Dim(Shape.SWITCH, 4, 450.0, 250.0), Dim(Shape.SWITCH, 3, 50.0, 1000.0)),
    "others": (Dim(Shape.FULLY_CONNECTED, 3, 100.0, 30.0), Dim(Shape.HYPERCUBE, 8, 33.3, 12.345)),
}


def plan(*dims: Dim) -> NetworkPlan:
    return NetworkPlan(Backend.FOREIGN, dims)


def played(network: Network, messages: Sequence[Message]) -> list[int]:
    """ps at which each message is delivered; messages by time."""
    found = [-1] * len(messages)

    def called(number: int) -> None:
        assert found[number] == -1
        found[number] = network.sim_get_time()

    def run_to(end: int) -> None:
        while (following := network.next_event_time()) < end:
            network.advance(following)
        if end < NEVER:
            network.advance(end)

    for number, (at, source, destination, size) in enumerate(messages):
        if at > network.sim_get_time():
            run_to(at)
        network.sim_send(size, source, destination, lambda number=number: called(number), number)   # type: ignore[misc]
    run_to(NEVER)
    return found


def apart(pairs: Sequence[tuple[int, int]], size: int) -> list[Message]:
    """One message at a time."""
    return [(number * 10**9, source, destination, size) for number, (source, destination) in enumerate(pairs)]


def packets(size: int, packet: int) -> Iterator[int]:
    """Bytes on the wire of each packet of a message."""
    for at in range(0, max(size, 1), packet):
        yield min(packet, size - at) + HEADERS


def stored_and_forwarded(links: Sequence[tuple[float, float]], sizes: Sequence[int]) -> float:
    """ps of packets that meet nobody; links: bytes per ns, ps."""
    there = [0.0] * len(sizes)
    for bandwidth, latency in links:
        free = 0.0
        for number, size in enumerate(sizes):
            free = max(free, there[number]) + size / bandwidth * 1000
            there[number] = free + latency
    return there[-1]


@pytest.mark.parametrize("dims", DIMS.values(), ids=DIMS)
def test_a_message_alone_takes_the_time_of_its_packets_on_our_ways(dims: tuple[Dim, ...]) -> None:
    npus, graph, size, packet = math.prod(dim.npus for dim in dims), graph_of(dims), 20_000, 1500
    routes, pairs = Routes(graph), [(0, npu) for npu in range(1, npus)] + [(npus - 1, 1), (2, 1)]
    ways = [[(graph.bandwidth[link], 1000 * graph.latency[link]) for link in routes.between(*pair)] for pair in pairs]
    expected = [stored_and_forwarded(way, [*packets(size, packet)]) for way in ways]
    messages = apart(pairs, size)
    found = played(Ns3Network(plan(*dims), Ns3(packet=f"{packet} B")), messages)
    rounding = 2 * (len([*packets(size, packet)]) + 10)
    for (at, source, destination, _), time, due in zip(messages, found, expected, strict=True):
        assert time - at == pytest.approx(due, abs=rounding), (source, destination)


@pytest.mark.parametrize("dims", DIMS.values(), ids=DIMS)
def test_it_agrees_with_closed_form_within_packets_and_headers(dims: tuple[Dim, ...]) -> None:
    """Neighbours inside one dim. (Between others `closed_form` counts a message once per hop.)"""
    npus, packet, size = math.prod(dim.npus for dim in dims), 4096, 1_000_000
    graph = graph_of(dims)
    routes, pairs = Routes(graph), [(0, 1), (0, dims[0].npus), (1, npus - dims[0].npus + 1)]
    pairs = [pair for pair in pairs if len(routes.between(*pair)) == 1 or dims[0].shape == Shape.SWITCH]
    assert len(pairs) >= 2
    messages = apart(pairs, size)
    theirs = played(Ns3Network(plan(*dims), Ns3(packet=f"{packet} B")), messages)
    ours = played(BuiltinNetwork(NetworkPlan(Backend.PORTS, dims)), messages)
    for (_, source, destination, _), real, model in zip(messages, theirs, ours, strict=True):
        hops = routes.between(source, destination)
        headers = sum(packets(size, packet)) - size
        granularity = 1000 * (headers + (len(hops) - 1) * (packet + HEADERS)) / graph.bandwidth[hops[0]]
        assert 0 < real - model <= granularity + 1000, (source, destination)


def test_incast_differs_from_closed_form_as_packets_do() -> None:
    """Seven NPUs send to one: whole messages one after the other there, packets of all in turns here. The last one is
    equal, the first is not."""
    dims, size = (Dim(Shape.SWITCH, 8, 50.0, 500.0),), 1 << 20
    messages = [(0, source, 0, size) for source in range(1, 8)]
    ours = played(BuiltinNetwork(NetworkPlan(Backend.PORTS, dims)), messages)
    theirs = played(Ns3Network(plan(*dims), Ns3()), messages)
    alone = size / 50 * 1000
    assert min(ours) == pytest.approx(alone + 1e6, rel=0.01)
    assert min(theirs) > 6.9 * alone
    assert max(theirs) == pytest.approx(max(ours), rel=0.01)
    assert max(theirs) > max(ours)


TRAFFIC = st.lists(st.tuples(st.integers(0, 3_000_000), st.integers(0, 11), st.integers(1, 11),
                             st.sampled_from([0, 1, 4096, 65_536, 300_000])), min_size=1, max_size=40)


@pytest.mark.parametrize("transport", ["udp", "tcp"])
@settings(max_examples=4, phases=[Phase.explicit, Phase.generate])       # no shrinking: it starts programs
@given(TRAFFIC, st.sampled_from(["switches", "one_way"]))
def test_crowds_are_delivered_once_and_no_sooner_than_alone(transport: Any, drawn: list[Message], name: str) -> None:
    """Whatever meets whatever: every message comes, none before its bytes can, and a run repeats itself. (That no
    message comes before the program said so is checked at every answer.)"""
    messages = sorted((at, source, (source + step) % 12, size) for at, source, step, size in drawn)
    dims = DIMS[name]
    graph = graph_of(dims)
    routes = Routes(graph)
    first, second = (played(Ns3Network(plan(*dims), Ns3(transport=transport)), messages) for _ in range(2))
    assert first == second
    for (at, source, destination, size), time in zip(messages, first, strict=True):
        hops = routes.between(source, destination)
        assert time >= at + 1000 * (size / graph.bandwidth[hops].min()) + graph.latency[hops].sum() - 10


@pytest.mark.parametrize("transport", ["udp", "tcp"])
def test_it_passes_the_exam(transport: Any) -> None:
    exam_network(lambda: Ns3Network(EXAM_FABRIC, Ns3(transport=transport)), latency=500_000, rounds=2)


def test_udp_says_what_it_lost_and_tcp_sends_it_again() -> None:
    dims, messages = (Dim(Shape.SWITCH, 8, 50.0, 500.0),), [(0, source, 0, 1 << 18) for source in range(1, 8)]
    with pytest.raises(PluginError, match="the queue of node 8 towards node 0 was full and lost a packet"):
        played(Ns3Network(plan(*dims), Ns3(queue=20)), messages)
    with pytest.raises(PluginError, match="more than 100 packets are under way"):
        played(Ns3Network(plan(*dims), Ns3(most_packets=100)), messages)
    assert -1 not in played(Ns3Network(plan(*dims), Ns3(transport="tcp", queue=20)), messages)


@pytest.mark.parametrize("packet", [1, 32, 39, 40])
def test_small_packets_arrive(packet: int) -> None:
    """ns-3 leaves an interface down whose MTU is below IPv4's least one, 68 bytes."""
    network = Ns3Network(plan(Dim(Shape.SWITCH, 4, 50.0, 500.0)), Ns3(packet=f"{packet} B"))
    sizes = [*packets(1000, packet)]
    due = stored_and_forwarded([(50.0, 500_000)] * 2, sizes)
    assert played(network, [(0, 0, 1, 1000)]) == pytest.approx([due], abs=2 * len(sizes))


def test_fabrics_that_it_refuses() -> None:
    with pytest.raises(PluginError, match="the way from NPU 0 to 299 has 299 links, and IP packets live for 255"):
        played(Ns3Network(plan(Dim(Shape.RING_ONE_WAY, 300, 50.0, 1.0)), Ns3()), [(0, 0, 299, 1)])
    dims = (Dim(Shape.RING, 4, 50.0, 500.0),)
    whole = graph_of(dims)
    cut = Graph(whole.nodes, *(getattr(whole, name)[:3] for name in ("source", "target", "bandwidth", "latency",
                                                                     "buffer", "lanes")))
    with pytest.raises(PluginError, match="there is no way from NPU 2 to 0"):
        played(Ns3Network(NetworkPlan(Backend.FOREIGN, dims, graph=cut, ecmp=FIRST_LINK), Ns3()), [(0, 2, 0, 1)])


def test_a_whole_design_from_the_command_line(tmp_path: Path, run: Run) -> None:
    design = tmp_path / "design.yaml"
    design.write_text("""\
workload: {source: collective, op: all_reduce, payload: 1 MiB}
network:
  backend: ns3
  dims: [{shape: switch, npus: 8, bandwidth: 50 GB/s, latency: 500 ns}]
collective: {all_reduce: [ring], chunks: 1}
""")
    makespan = {}
    for backend in "ns3", "closed_form":
        done = run("run", str(design), "--set", f"network.backend={backend}", "--json")
        makespan[backend] = json.loads(done.out)["summary"]["makespan_ns"]
    granularity = 14 * ((32 * HEADERS + 4096 + HEADERS) / 50)
    assert 0 < makespan["ns3"] - makespan["closed_form"] <= granularity




def test_a_fabric_on_ns3_is_near_packets_and_its_dead_links_are_not_there() -> None:
    """A Clos: closed forms do not know it, and ns-3 has the graph itself."""
    numbers = {"bandwidth": "12.5 GB/s", "latency": "500 ns"}
    clos = ar.blueprint("clos", hosts=4, ports=4, links={"access": numbers, "spine": numbers})
    dead = [{"link": ["leaf.0", "spine.0"], "speed": 0}]
    times = []
    for more in ({"backend": "packets"}, {"backend": "ns3"}, {"backend": "ns3", "changes": dead}):
        network = ar.Network(fabric=clos, **more)
        design = ar.Design(workload=ar.SingleCollective("all_reduce", "1 MiB"), network=network)
        times.append(float(ar.simulate(design).makespan))
    assert times[1] == pytest.approx(times[0], rel=0.02)
    assert times[2] == pytest.approx(times[1], rel=0.02)


def crossing(npus: int) -> list[TraceBuilder]:
    """Each NPU of the first half sends 1 MB to one of the other half."""
    ranks = [TraceBuilder() for _ in range(npus)]
    for rank in range(npus // 2):
        ranks[rank].send("send", rank + npus // 2, 1_000_000)
        ranks[rank + npus // 2].recv("recv", rank, 1_000_000)
    return ranks


@pytest.mark.parametrize("transport", ["udp", "tcp"])
def test_ways_on_ns3_are_those_of_the_other_back_ends(transport: str) -> None:
    """Six messages cross the spines of a Clos at once. Where the hash sends them decides how long they take."""
    numbers = {"bandwidth": "12.5 GB/s", "latency": "500 ns"}
    clos = ar.blueprint("clos", hosts=12, ports=12, links={"access": numbers, "spine": numbers})
    traces = traces_of_bytes([builder.encode() for builder in crossing(12)])
    far = [{"source": npu, "destination": npu + 6, "via": ["spine.3"]} for npu in range(3)]
    for ways in ({"ecmp": 0}, {"ecmp": 1}, {"ecmp": 2}, {"ecmp": "off"}, {"routes": far}):
        times = [float(ar.simulate(ar.Design(workload=ar.Trace("in memory"), network=ar.Network(
            fabric=clos, backend=backend, ns3=Ns3(transport=transport), **ways)), traces=traces).makespan)
            for backend in ("packets", "ns3")]
        assert times[1] == pytest.approx(times[0], rel=0.03 if transport == "udp" else 0.15), ways
