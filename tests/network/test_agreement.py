"""Back ends agree with `closed_form` on uncongested paths within their granularity, for all algorithms of the registry.

Uncongested: no two messages use one link at one time. Found from the schedule alone (`alone.py`): each message is sent
when what it waits for is there, and takes what it takes alone. Then a back end must give that makespan, to the ps; each
message of it is within the stated granularity (`astrarium.network.granularity`) of its latencies and its slowest link.
`closed_form` is one of the back ends. Where messages meet, back ends differ by what they model (`test_ladder.py`), but
none is faster than its messages alone.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.draws import draws
from tests.network.alone import alone

import astrarium as ar
from astrarium import engine, registry
from astrarium.collective.algorithms import algorithm_of
from astrarium.engine.plan import NetworkPlan, PacketRules, Plan
from astrarium.lower import lower
from astrarium.network.ns3.program import find
from astrarium.network.packets import Packets
from astrarium.units import Bandwidth, Bytes, Time

LINK = {"bandwidth": "50 GB/s", "latency": "500 ns"}
ABLE = ar.InSwitch(rate="100 TB/s")
SHAPES: dict[str, Any] = {
    "ring": ar.Ring(4, **LINK), "one_way": ar.Ring(4, one_way=True, **LINK),
    "switch": ar.Switch(4, in_switch=ABLE, **LINK), "fully_connected": ar.FullyConnected(4, **LINK),
    "mesh": ar.Mesh(4, **LINK), "hypercube": ar.Hypercube(4, **LINK), "torus": ar.Torus([3, 2], **LINK)}
RUNGS: dict[str, dict[str, Any]] = {
    "closed_form": {"backend": "closed_form"}, "contention": {"backend": "contention"},
    "contention, store_and_forward": {"backend": "contention", "switching": "store_and_forward"},
    "fluid": {"backend": "fluid"}, "packets": {"backend": "packets"},
    "packets, roce": {"backend": "packets", "packets": Packets(transport="roce")}}
FIRST_COME = set(RUNGS) - {"fluid"}     # there messages between two NPUs share a link, and so meet
EXACT = sorted(set(RUNGS) - {"packets, roce"})
SIZES = (0, 1, 4096, 4097, 100_003)
CASES = [(name, op.name.lower()) for name in registry.built_ins("algorithm") for op in sorted(algorithm_of(name).ops)]

EVERYWHERE = [case for case in CASES if not algorithm_of(case[0]).in_switch]


def over(rung: str, **network: Any) -> NetworkPlan:
    """The network of a rung as the engine takes it."""
    section = ar.Network(**{**network, **RUNGS[rung]})
    return lower(ar.Design(workload=ar.SingleCollective("barrier", "0 B"), network=section)).network


@cache
def on_shape(rung: str, shape: str) -> NetworkPlan:
    """The network of a rung over one of `SHAPES`."""
    return over(rung, dims=[SHAPES[shape]])


def planned(algorithm: str, op: str, size: int, network: ar.Network, **collective: Any) -> Plan:
    """One collective of all NPUs."""
    chosen = ar.Collective(**{op: [algorithm]}, choice="none", **collective)
    return lower(ar.Design(workload=ar.SingleCollective(op, Bytes.of(size)), network=network, collective=chosen))


def agree(plan: Plan, rung: str, *, pure: bool = False) -> bool:
    """Whether the plan is uncongested on a rung, which must then have the makespan of messages alone."""
    expected, slack, crowded = alone(plan, rung)
    found = engine.execute(plan, fold=False, pure=pure).makespan
    assert found >= expected - slack
    assert crowded or found <= expected + slack
    return not crowded


@cache
def uncongested(shape: str, algorithm: str, op: str) -> frozenset[str]:
    """The rungs on which an algorithm is uncongested over a dim, all of which agree."""
    plan = planned(algorithm, op, 100_003, ar.Network([SHAPES[shape]]))
    return frozenset(rung for rung in RUNGS if agree(replace(plan, network=on_shape(rung, shape)), rung))


@pytest.mark.parametrize(("algorithm", "op"), CASES)
def test_every_algorithm_of_the_registry(algorithm: str, op: str) -> None:
    """On every shape; and on one at least nothing meets on any back end."""
    fitting = ["switch"] if algorithm_of(algorithm).in_switch else list(SHAPES)
    assert any(uncongested(shape, algorithm, op) >= FIRST_COME for shape in fitting)


@pytest.mark.skipif(find() is None, reason="no program astrarium-ns3 here: `make ns3` builds it, with ns-3")
@pytest.mark.parametrize("shape", ["fully_connected", "switch"])
def test_ns3(shape: str) -> None:
    """Packets with 30 bytes of headers: PPP 2, IP 20, UDP 8."""
    network = ar.Network([SHAPES[shape]], backend="ns3")
    headers = replace(on_shape("packets", shape), packets=PacketRules(header=30))
    for algorithm, op in EVERYWHERE:
        plan = planned(algorithm, op, 100_003, ar.Network(network.dims))
        expected, _, crowded = alone(replace(plan, network=headers), "ns3")
        found = ar.simulate(ar.Design(workload=ar.SingleCollective(op, "100003 B"), network=network,
                                      collective=ar.Collective(**{op: [algorithm]}, choice="none"))).makespan_ps
        assert found >= expected
        assert crowded or found == expected
        assert not crowded or shape == "switch"


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_has_rings_that_meet_nobody(shape: str) -> None:
    assert uncongested(shape, "ring", "all_reduce") == set(RUNGS)


@st.composite
def dims(draw: st.DrawFn) -> list[Any]:
    """One or two dims of any shape, at most 24 NPUs."""
    found: list[Any] = []
    for most in draw(st.sampled_from([(6,), (8,), (4, 4), (6, 3)])):
        name, n = draw(st.sampled_from(sorted(SHAPES))), draw(st.integers(1, most))
        link = {"bandwidth": Bandwidth.of(draw(st.sampled_from([0.125, 12.5, 33.3, 450.0, 1e5]))),
                "latency": Time.of(draw(st.sampled_from([0.001, 100.0, 5000.0])))}
        if name == "torus":
            found.append(ar.Torus([n, 2] if n < 4 else [n], **link))
        elif name == "one_way":
            found.append(ar.Ring(n, one_way=True, **link))
        else:
            found.append(type(SHAPES[name])(1 << n.bit_length() - 1 if name == "hypercube" else n, **link))
    return found


@st.composite
def jobs(draw: st.DrawFn, npus: int, op: str) -> ar.Jobs:
    """One or two tenants on NPUs in any order, each with one collective."""
    order = draw(st.permutations(range(npus)))
    first = draw(st.integers(1, npus))
    parts = [order[:first], order[first:][:draw(st.integers(0, npus))]]
    return ar.Jobs([ar.Job(ar.SingleCollective(op, Bytes.of(draw(st.sampled_from(SIZES)))), npus=part)
                    for part in parts if part])


@given(st.sampled_from(EVERYWHERE), dims(),
       st.sampled_from(EXACT), st.booleans(), st.data())
@draws(100)
def test_drawn_collectives(case: tuple[str, str], network: list[Any], rung: str, pure: bool, data: st.DataObject
                           ) -> None:
    """Any sizes, links, chunks and tenants, on both engines. (RoCE's answers would meet other messages.)"""
    algorithm, op = case
    chosen = ar.Collective(**{op: [algorithm]}, choice="none", chunks=data.draw(st.integers(1, 3)),
                           pipeline=data.draw(st.sampled_from([1, 8])),
                           endpoint_delay=data.draw(st.sampled_from(["0 ns", "70 ns"])))
    section = ar.Network(network)
    work = data.draw(st.one_of(jobs(section.npus, op), st.builds(
        ar.SingleCollective, st.just(op), st.sampled_from([Bytes.of(size) for size in SIZES]))))
    plan = ar.simulate(ar.Design(workload=work, network=section, collective=chosen)).plan
    agree(replace(plan, network=over(rung, dims=network)), rung, pure=pure)


FABRICS: dict[str, tuple[Any, list[Any]]] = {
    "torus": (ar.blueprint("torus", sides=[4, 3], links={"dim0": LINK, "dim1": LINK}), [ar.Torus([4, 3], **LINK)]),
    "mesh": (ar.blueprint("mesh", sides=[4, 2], links={"dim0": LINK, "dim1": LINK}),
             [ar.Mesh(4, **LINK), ar.Mesh(2, **LINK)]),
    "clos": (ar.blueprint("clos", hosts=4, ports=8, inside="free", links={"access": LINK, "spine": LINK}),
             [ar.Switch(4, **LINK)])}


@pytest.mark.parametrize("rung", RUNGS)
@pytest.mark.parametrize("name", FABRICS)
def test_fabrics_that_are_dims(name: str, rung: str) -> None:
    """They are these dims, and their graph (over which a seed sends messages) is no other."""
    fabric, written = FABRICS[name]
    plan = planned("ring", "all_reduce", 100_003, ar.Network(written))
    own = over(rung, fabric=fabric)
    assert own.graph is None
    assert agree(replace(plan, network=own), rung)
    if rung != "closed_form":
        graph = over(rung, fabric=fabric, ecmp=3)
        assert graph.graph is not None
        assert agree(replace(plan, network=graph), rung)
