"""Messages as flows: the exam of networks, closed forms of shared links, and the use of links over time."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.plans.draw import random_plan
from tests.plans.hand import Node, collective, delay, native_collective, plan_of, recv, send
from tests.plugins.builtin import BuiltinNetwork

import astrarium as ar
from astrarium import engine
from astrarium.engine import HAVE_CORE, Outcome, Plan, execute
from astrarium.engine.plan import Backend, Dim, Graph, NetworkPlan, Shape
from astrarium.engine.plugins.exams import EXAM_FABRIC, exam_network
from astrarium.errors import UnsupportedError
from astrarium.lower import lower
from astrarium.trace import TraceBuilder, traces_of_bytes
from astrarium.vocab import CommOp

MANY = (64,) * 5        # nodes at once in each lane
ENGINES = pytest.mark.parametrize(
    "pure", [pytest.param(False, marks=pytest.mark.skipif(not HAVE_CORE, reason="no compiled core here"), id="core"),
             pytest.param(True, id="pure")])


def switch(npus: int, backend: str = "fluid") -> NetworkPlan:
    return NetworkPlan(backend, (Dim(Shape.SWITCH, npus, 125.0, 100.0),))


def run(plan: Plan, pure: bool) -> Outcome:
    return execute(plan, record=True, pure=pure)


def test_the_exam_of_networks() -> None:
    exam_network(lambda: BuiltinNetwork(EXAM_FABRIC, "fluid"), latency=500_000)


@ENGINES
def test_messages_to_one_npu_share_its_link(pure: bool) -> None:
    ranks: list[list[Node]] = [[send(3, 125_000)]] * 3 + [[recv(peer, 125_000) for peer in range(3)]]
    outcome = run(plan_of(ranks, switch(4)), pure)
    assert outcome.finish.tolist() == [3 * 1_000_000 + 200_000] * 4     # a third of 125 B/ns each, then two hops
    assert outcome.use_busy.sum() == outcome.link_busy[outcome.link_from >= 0].sum() == 3 * 1_000_000


@ENGINES
def test_who_comes_later_takes_its_part_from_then_on(pure: bool) -> None:
    """1 and 2 share the link to 0 from 500 ns on; at 1500 ns 1 is done, and 2 has it alone again."""
    first, second = [send(0, 125_000)], [delay(500_000), send(0, 125_000, 0)]
    outcome = run(plan_of([[recv(1, 125_000), recv(2, 125_000)], first, second], switch(3)), pure)
    assert outcome.finish.tolist() == [2_200_000, 1_700_000, 2_200_000]


@ENGINES
def test_a_flow_draws_on_every_link_of_its_way(pure: bool) -> None:
    """On a ring of 8 rank 1 sends to 5, rank 2 to 3: half of the link from 2 to 3 each, until the first is done."""
    ring = NetworkPlan("fluid", (Dim(Shape.RING, 8, 100.0, 0.0),))
    ranks: list[list[Node]] = [[] for _ in range(8)]
    for source, to, size in (1, 5, 1_000_000), (2, 3, 4_000_000):
        ranks[source].append(send(to, size))
        ranks[to].append(recv(source, size))
    outcome = run(plan_of(ranks, ring), pure)
    assert outcome.finish.tolist() == [0, 20_000_000, 50_000_000, 50_000_000, 0, 20_000_000, 0, 0]
    assert outcome.link_bytes.tolist() == [1_000_000, 5_000_000, 1_000_000, 1_000_000]


@ENGINES
def test_where_nobody_shares_it_takes_what_ports_take(pure: bool) -> None:
    ring = native_collective("ring", CommOp.ALL_REDUCE, 8, 1 << 16)
    plan = plan_of([[collective(0)] for _ in range(8)], switch(8, Backend.PORTS), collectives=(ring,))
    ports = execute(plan, pure=pure, fold=False)
    flows = execute(replace(plan, network=switch(8)), pure=pure, fold=False)
    assert ports.makespan > 0
    assert 0 <= flows.makespan - ports.makespan <= 14       # a ps per step of the ring: a last byte ends in a whole ps


@ENGINES
def test_messages_of_an_npu_leave_one_after_the_other(pure: bool) -> None:
    ranks: list[list[Node]] = [[send(1, 125_000), send(2, 125_000)], [recv(0, 125_000)], [recv(0, 125_000)]]
    outcome = run(plan_of(ranks, switch(3), lanes=MANY), pure)
    assert outcome.finish.tolist() == [2_200_000, 1_200_000, 2_200_000]


def graph(npus: int, *links: tuple[int, int, float]) -> NetworkPlan:
    """A graph of links (from, to, bandwidth) without latency, and as fast links back."""
    rows = [*links, *((to, source, 100.0) for source, to, _ in links)]
    source, target, bandwidth = (np.array(column) for column in zip(*rows, strict=True))
    count = len(rows)
    made = Graph(int(source.max()) + 1, source.astype(np.int32), target.astype(np.int32), bandwidth, np.zeros(count),
                 np.zeros(count, np.int64), np.ones(count, np.int32))
    return NetworkPlan("fluid", (Dim(Shape.SWITCH, npus, 1.0, 0.0),), graph=made)


@ENGINES
def test_messages_of_one_source_and_destination_cross_one_after_the_other(pure: bool) -> None:
    """Behind a slow link, 0's second message waits for its first, so 1 has half of the link, not a third."""
    net = graph(3, (0, 3, 125.0), (1, 3, 125.0), (3, 2, 12.5))
    sends = [send(2, 125_000), send(2, 125_000, tag=1)], [send(2, 125_000)]
    outcome = run(plan_of([*sends, [recv(0, 125_000), recv(1, 125_000), recv(0, 125_000, tag=1)]], net,
                          lanes=MANY), pure)
    assert outcome.end.tolist()[-3:] == [20_000_000, 20_000_000, 30_000_000]


@ENGINES
def test_a_crowded_link_does_not_hold_back_messages_that_leave_later(pure: bool) -> None:
    """0 sends to 2 over a slow link, then to 3: the second has left its source at 2 us, and nobody is in its way."""
    net = graph(4, (0, 4, 100.0), (1, 4, 100.0), (4, 2, 10.0), (4, 3, 100.0))
    ranks: list[list[Node]] = [[send(2, 100_000), send(3, 100_000)], [], [recv(0, 100_000)], [recv(0, 100_000)]]
    assert run(plan_of(ranks, net, lanes=MANY), pure).finish.tolist()[2:] == [10_000_000, 2_000_000]


@ENGINES
def test_a_message_that_crosses_has_a_share_with_the_one_that_leaves(pure: bool) -> None:
    """On a line, 0's message crosses the link over which 1's leaves: half of it each, though 1's goes on slowly."""
    net = graph(4, (0, 1, 100.0), (1, 2, 100.0), (2, 3, 10.0))
    ranks: list[list[Node]] = [[send(2, 100_000)], [send(3, 100_000)], [recv(0, 100_000)], [recv(1, 100_000)]]
    assert run(plan_of(ranks, net, lanes=MANY), pure).finish.tolist()[2:] == [2_000_000, 10_000_000]


def crowd(seed: int) -> Plan:
    """Each of 12 NPUs on a ring sends a message of some size to each other: more at once than are shared exactly."""
    rng, npus = random.Random(seed), 12
    ranks: list[list[Node]] = [[] for _ in range(npus)]
    for source in range(npus):
        for to in rng.sample(range(npus), npus):
            if to != source:
                size = rng.randrange(1, 1_000_000)
                ranks[source].append(send(to, size))
                ranks[to].append(recv(source, size))
    return plan_of(ranks, NetworkPlan("fluid", (Dim(Shape.RING, npus, 100.0, 10.0),)), lanes=MANY)


@pytest.mark.skipif(not HAVE_CORE, reason="no compiled core here")
@pytest.mark.parametrize("seed", range(2))
def test_both_engines_share_crowds_alike_and_no_link_carries_more_than_it_can(seed: int) -> None:
    plan = crowd(seed)
    ours, twin = run(plan, pure=False), run(plan, pure=True)
    assert ours.end.tolist() == twin.end.tolist()
    assert (ours.link_busy <= ours.makespan).all()
    assert (ours.use_busy <= ours.use_width * 24).all()


def designed(backend: str, algorithm: str, op: str) -> float:
    dims = [ar.Switch(8, bandwidth="450 GB/s", latency="500 ns"), ar.Ring(4, bandwidth="50 GB/s", latency="1 us")]
    design = ar.Design(workload=ar.SingleCollective(op, "16 MB"), network=ar.Network(dims, backend=backend),
                       collective=ar.Collective(choice="none", **{op: [algorithm]}))
    return execute(lower(design)).makespan


@pytest.mark.skipif(not HAVE_CORE, reason="no compiled core here")
@pytest.mark.parametrize(("algorithm", "op"), [("double_binary_tree", "all_reduce"), ("binomial_tree", "broadcast"),
                                               ("ring_two_way", "all_reduce"), ("direct", "all_to_all"),
                                               ("halving_doubling", "all_gather")])
def test_collectives_take_what_packets_take(algorithm: str, op: str) -> None:
    assert designed("fluid", algorithm, op) == pytest.approx(designed("packets", algorithm, op), rel=0.03)


@ENGINES
def test_bandwidths_whose_shares_have_no_whole_numbers_are_refused(pure: bool) -> None:
    for bandwidth in (1e-7, 1e10):
        plan = plan_of([[send(1, 8)], [recv(0, 8)]], NetworkPlan("fluid", (Dim(Shape.RING, 2, bandwidth, 0.0),)))
        with pytest.raises(UnsupportedError, match="1e-6 or more than 1e9 bytes per ns"):
            execute(plan, pure=pure)


@given(st.integers(0, 2**32 - 1))
def test_no_link_is_used_more_than_all_the_time(seed: int) -> None:
    plan = random_plan(seed)
    outcome = execute(replace(plan, network=replace(plan.network, backend="fluid")), record=True, fold=False)
    assert (outcome.link_busy <= outcome.makespan).all()
    use = outcome.use_busy.reshape(len(plan.network.dims), -1)
    messages = int(outcome.link_bytes.size) + 10_000        # a ps per change of a share, and one per bin
    for number in range(len(plan.network.dims)):
        mine = (outcome.link_from >= 0) & (outcome.link_dim == number)
        assert (use[number] <= outcome.use_width * np.count_nonzero(mine)).all()
        assert abs(int(use[number].sum()) - int(outcome.link_busy[mine].sum())) <= messages


@pytest.mark.skipif(not engine.HAVE_CORE, reason="only the compiled core folds")
def test_a_design_names_it_and_nothing_folds() -> None:
    builders = [TraceBuilder() for _ in range(8)]
    for builder in builders:
        builder.coll("work", CommOp.ALL_TO_ALL, 8_000_000)
    design = ar.Design(workload=ar.Trace("in memory"), collective=ar.Collective(all_to_all=["direct"]),
                       network=ar.Network([ar.Switch(8, bandwidth="125 GB/s", latency="100 ns")], backend="fluid"))
    outcome = execute(lower(design, traces_of_bytes([builder.encode() for builder in builders])))
    assert outcome.makespan == 7 * 8_000_000 + 200_000
    assert outcome.unfolded_because == "flows share links"
