"""The native rule book in closed form: every expected time is worked out by hand from design/0001-engine.md."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.plans.draw import random_plan
from tests.plans.hand import (
    Node,
    collective,
    delay,
    native_collective,
    plan_of,
    recv,
    schedule_phase,
    send,
    two_level,
)

from astrarium.engine.plan import (
    Backend,
    Chunk,
    CollectivePlan,
    Dim,
    Kind,
    Lane,
    NetworkPlan,
    Policy,
    Remote,
    RemoteKind,
    Shape,
)
from astrarium.errors import StallError, TraceError, UnsupportedError, Wait
from astrarium.oracle import execute
from astrarium.vocab import CommOp

BOTH = pytest.mark.parametrize("backend", [Backend.PORTS, "contention"])
BANDWIDTH, LATENCY, ENDPOINT, REDUCE = 50.0, 500.0, 10_000, 1.6e12


def one_dim(shape: Shape, n: int, backend: str = Backend.PORTS) -> NetworkPlan:
    return NetworkPlan(backend, (Dim(shape, n, BANDWIDTH, LATENCY),))


def ps(ns: float) -> int:
    return round(ns * 1000)


@BOTH
@pytest.mark.parametrize("n", [2, 3, 5, 8])
@pytest.mark.parametrize("chunks", [1, 3])
def test_ring_all_reduce(backend: str, n: int, chunks: int) -> None:
    """endpoint + 2 (n-1) (latency + serialisation + endpoint) + (n-1) reductions, chunk after chunk."""
    size = n * 1000 * chunks
    plan = native_collective("ring", CommOp.ALL_REDUCE, n, size, chunks=chunks, active=1)
    policy = Policy(endpoint_delay=ENDPOINT, reduce_bandwidth=REDUCE)
    ranks = [[collective(0)]] * n
    outcome = execute(plan_of(ranks, one_dim(Shape.RING, n, backend), policy=policy, collectives=[plan]))
    step = ps(LATENCY) + ps(1000 / BANDWIDTH) + ENDPOINT
    expected = ENDPOINT + 2 * (n - 1) * step + (n - 1) * ps(3 * (1000 / REDUCE * 1e9))
    assert outcome.finish.tolist() == [chunks * expected] * n


def test_two_chunks_in_flight_share_the_ring() -> None:
    """Without latency two chunks at once take as long as their bytes: the link never carries two messages."""
    n, size = 4, 80_000
    network = NetworkPlan(Backend.PORTS, (Dim(Shape.RING, n, BANDWIDTH, 0.0),))
    times = []
    for active in (1, 2, 0):
        plan = native_collective("ring", CommOp.ALL_REDUCE, n, size, chunks=2, active=active)
        times.append(execute(plan_of([[collective(0)]] * n, network, collectives=[plan])).makespan)
    assert times[0] == 2 * (n - 1) * 2 * ps(10_000 / BANDWIDTH)
    assert times[1] == times[2] == times[0]


@pytest.mark.parametrize("shape", [Shape.SWITCH, Shape.FULLY_CONNECTED])
def test_direct_all_gather(shape: Shape) -> None:
    """Behind a switch an NPU has one port for its n-1 messages; fully connected it has one per peer."""
    n = 8
    plan = native_collective("direct", CommOp.ALL_GATHER, n, n * 5000)
    outcome = execute(plan_of([[collective(0)]] * n, one_dim(shape, n), policy=Policy(endpoint_delay=ENDPOINT),
                              collectives=[plan]))
    hops, one_after_the_other = (2, n - 1) if shape == Shape.SWITCH else (1, 1)
    expected = 2 * ENDPOINT + ps(hops * LATENCY) + one_after_the_other * ps(5000 / BANDWIDTH)
    assert outcome.finish.tolist() == [expected] * n


def test_two_way_ring_charges_every_hop() -> None:
    """A message that rides 3 hops keeps its out port 3 times as long: the one after it waits."""
    ranks: list[list[Node]] = [[] for _ in range(8)]
    ranks[0] = [Node(Kind.SEND, size=1000, args=(to, tag, 0), lane=-1) for tag, to in enumerate((3, 1, 7))]
    wire = ps(1000 / BANDWIDTH)
    outcome = execute(plan_of(ranks, one_dim(Shape.RING, 8)), record=True)
    assert outcome.end.tolist() == [3 * (ps(LATENCY) + wire), 3 * wire + ps(LATENCY) + wire, ps(LATENCY) + wire]


@BOTH
def test_path_over_two_dims(backend: str) -> None:
    """Ports: cut through, heads add up, the slowest dim serialises. Links: stored and forwarded at every device."""
    dims = (Dim(Shape.RING, 4, 10.0, 7.0), Dim(Shape.SWITCH, 2, 4.0, 30.0))
    ranks: list[list[Node]] = [[] for _ in range(8)]
    ranks[0], ranks[6] = [send(6, 1000)], [recv(0, 1000)]
    outcome = execute(plan_of(ranks, NetworkPlan(backend, dims)))
    cut_through = ps(2 * 7.0) + ps(1000 / 10.0) + ps(2 * 30.0) + ps(1000 / 4.0)  # the ring charges its second hop
    forwarded = 2 * (ps(7.0) + ps(1000 / 10.0)) + 2 * (ps(30.0) + ps(1000 / 4.0))
    assert outcome.makespan == (cut_through if backend == Backend.PORTS else forwarded)


@pytest.mark.parametrize(("shape", "n", "to", "hops"), [
    (Shape.MESH, 8, 7, 7), (Shape.RING, 8, 5, 3), (Shape.RING_ONE_WAY, 8, 5, 5), (Shape.HYPERCUBE, 8, 7, 3),
    (Shape.SWITCH, 8, 5, 2), (Shape.FULLY_CONNECTED, 8, 5, 1)])
def test_hops_of_each_shape(shape: Shape, n: int, to: int, hops: int) -> None:
    ranks: list[list[Node]] = [[] for _ in range(n)]
    ranks[0] = [send(to, 1000)]
    wire = ps(1000 / BANDWIDTH)
    charged = hops if shape in (Shape.RING, Shape.RING_ONE_WAY, Shape.MESH) else 1
    assert execute(plan_of(ranks, one_dim(shape, n))).makespan == hops * ps(LATENCY) + charged * wire
    routed = execute(plan_of(ranks, one_dim(shape, n, "contention")), record=True)
    assert routed.makespan == hops * (ps(LATENCY) + wire)
    assert routed.link_bytes.tolist() == [1000] * hops


def test_in_port_takes_one_message_at_a_time() -> None:
    """Three ranks behind a switch send to the fourth: its port delivers one after the other, lowest rank first."""
    ranks = [[send(3, 5000)], [send(3, 5000)], [send(3, 5000)], [recv(r, 5000) for r in range(3)]]
    outcome = execute(plan_of(ranks, one_dim(Shape.SWITCH, 4)), record=True)
    wire = ps(5000 / BANDWIDTH)
    assert outcome.end.tolist()[:3] == [2 * ps(LATENCY) + (k + 1) * wire for k in range(3)]
    assert outcome.link_bytes[outcome.link_to == 3].tolist() == [15_000]


@BOTH
def test_barrier_costs_latency_only(backend: str) -> None:
    plan = native_collective("direct", CommOp.BARRIER, 4, 0)
    plan = CollectivePlan(plan.op, 0, plan.chunks)
    outcome = execute(plan_of([[collective(0)]] * 4, one_dim(Shape.FULLY_CONNECTED, 4, backend), collectives=[plan]))
    assert outcome.finish.tolist() == [ps(LATENCY)] * 4


def test_two_dims_pipeline_their_chunks() -> None:
    """With room for every chunk the slower dim works while the other one does: less than chunk after chunk."""
    dims = (Dim(Shape.RING, 4, 50.0, 100.0), Dim(Shape.SWITCH, 2, 25.0, 100.0))
    plans = [two_level(CommOp.ALL_REDUCE, (4, 2), 800_000, ("ring", "direct"), 4, active) for active in (1, 0)]
    one, alone = (execute(plan_of([[collective(0)]] * 8, NetworkPlan(Backend.PORTS, dims), collectives=[plan])).makespan
                  for plan in (plans[0], two_level(CommOp.ALL_REDUCE, (4, 2), 200_000, ("ring", "direct"), 1, 1)))
    assert alone < one < 4 * alone


def test_chunks_with_fewer_phases_are_passed_over() -> None:
    n = 4
    short = schedule_phase("ring", CommOp.ALL_REDUCE, n, 4000)
    plan = CollectivePlan(CommOp.ALL_REDUCE, 12_000, (Chunk(1, (short,)), Chunk(1, (short, short)), Chunk(1, ())), 1)
    outcome = execute(plan_of([[collective(0)]] * n, one_dim(Shape.RING, n), collectives=[plan]))
    assert outcome.makespan == 3 * 2 * (n - 1) * (ps(LATENCY) + ps(1000 / BANDWIDTH))


@pytest.mark.parametrize(("lifo", "order"), [(1, [0, 3, 2, 1]), (-1, [0, 1, 2, 3]), (0, [0, 2, 1, 3])])
def test_comm_lane_prefers(lifo: int, order: list[int]) -> None:
    """LIFO: latest ready; FIFO: earliest; explicit: highest priority, then node id."""
    plan = native_collective("ring", CommOp.ALL_REDUCE, 2, 1_000_000)
    nodes = [collective(0, priority=9), collective(0, 4, priority=1), collective(0, 5, priority=5),
             collective(0, 6, priority=1), delay(1000), delay(1000, 4), delay(1000, 5)]
    outcome = execute(plan_of([nodes] * 2, one_dim(Shape.RING, 2), policy=Policy(lifo=lifo), collectives=[plan]),
                      record=True)
    assert np.argsort(outcome.start[:4], kind="stable").tolist() == order


def test_lanes_and_busy() -> None:
    """One compute at a time, two where the lane has room for two; a lane of its own runs beside it."""
    nodes = [delay(5000), delay(7000), delay(2000, lane=int(Lane.CPU))]
    network = one_dim(Shape.RING, 2)
    assert execute(plan_of([nodes, []], network)).finish.tolist() == [12_000, 0]
    both = execute(plan_of([nodes, []], network, lanes=(2, 1, 1, 1, 1)))
    assert both.finish.tolist() == [7000, 0]
    assert both.busy.tolist() == [12_000, 0]


def test_receive_ends_at_delivery_or_at_issue() -> None:
    late, early = [delay(9_000_000), recv(0, 1000, 0)], [recv(0, 1000, tag=1)]
    outcome = execute(plan_of([[send(1, 1000), send(1, 1000, tag=1)], [*early, *late[:1], recv(0, 1000, 1)]],
                              one_dim(Shape.RING, 2)), record=True)
    wire = ps(LATENCY) + ps(1000 / BANDWIDTH)
    assert outcome.end.tolist() == [wire, 2 * wire, 2 * wire, 9_000_000, 9_000_000]


@pytest.mark.parametrize(("kind", "ends"), [
    (RemoteKind.PER_NPU, [200, 200, 200, 200]), (RemoteKind.PER_NODE, [200, 400, 200, 400]),
    (RemoteKind.POOL, [200, 400, 600, 800])])
def test_remote_memory(kind: RemoteKind, ends: list[int]) -> None:
    """latency 100 ns + 1000 bytes at 10 bytes/ns, shared by two NPUs of a node or by all."""
    remote = Remote(kind, 100, 10.0, 2)
    ranks = [[Node(Kind.REMOTE, size=1000)]] * 4
    outcome = execute(plan_of(ranks, one_dim(Shape.RING, 4), remote=remote))
    assert outcome.finish.tolist() == [end * 1000 for end in ends]
    with pytest.raises(UnsupportedError, match=r"memory\.remote.*rank 0"):
        execute(plan_of(ranks, one_dim(Shape.RING, 4)))


def test_zero_delays_and_skips_take_no_time() -> None:
    nodes = [delay(0), Node(Kind.SKIP, after=(0,)), delay(0, 1), Node(Kind.SKIP, after=(2,))]
    outcome = execute(plan_of([nodes, []], one_dim(Shape.RING, 2)), record=True)
    assert outcome.end.tolist() == [0, 0, 0, 0]


def test_stall_says_who_waits_for_what() -> None:
    plan = native_collective("ring", CommOp.ALL_REDUCE, 2, 1000)
    with pytest.raises(StallError) as stall:
        execute(plan_of([[recv(1, 64, tag=5)], [collective(0)]], one_dim(Shape.RING, 2), collectives=[plan]))
    assert stall.value.waits == (
        Wait("rank 0: node 0 (recv from 1, tag 5, 64 bytes) waits for a send that never comes", 0, 0),
        Wait("rank 1: node 0 (all_reduce of 1000 bytes, number 1 on all ranks; waits for rank 0)", 1, 0))


def test_cycle_is_a_stall() -> None:
    with pytest.raises(StallError, match="rank 0: node 0 waits for node 1, which never starts"):
        execute(plan_of([[delay(5, 1), delay(5, 0)], []], one_dim(Shape.RING, 2)))


def test_different_collectives_on_one_group_are_refused() -> None:
    plans = [native_collective("ring", op, 2, 1000) for op in (CommOp.ALL_REDUCE, CommOp.ALL_GATHER)]
    with pytest.raises(TraceError, match=r"rank 1, node 0: all_gather.*rank 0 issued all_reduce of 1000 bytes"):
        execute(plan_of([[collective(0)], [collective(1)]], one_dim(Shape.RING, 2), collectives=plans))


def test_outsiders_and_selves_are_refused() -> None:
    plan = native_collective("ring", CommOp.ALL_REDUCE, 2, 1000)
    with pytest.raises(TraceError, match="rank 2, node 0: a collective on group 0, of which the rank is not a member"):
        execute(plan_of([[], [], [collective(0, group=0)]], one_dim(Shape.RING, 3), collectives=[plan],
                        groups=[[0, 1]]))
    with pytest.raises(TraceError, match="its peer is rank 0, the rank itself"):
        execute(plan_of([[send(0, 8)], []], one_dim(Shape.RING, 2)))


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_no_port_or_link_is_used_more_than_all_the_time(seed: int) -> None:
    """Physics: what is busy for t ps needs t ps, and each byte needs its share of bandwidth."""
    plan = random_plan(seed)
    outcome = execute(plan, record=True)
    last = int(outcome.end.max(initial=0))
    assert (outcome.link_bytes > 0).all()
    dims = plan.network.dims
    slack = 1 + max((dim.npus for dim in dims), default=1)  # an out port of a ring is held for hops that lie ahead
    for dim, size, busy in zip(outcome.link_dim, outcome.link_bytes, outcome.link_busy, strict=True):
        assert busy <= last * (slack if plan.network.backend == Backend.PORTS else 1)
        assert busy >= int(size / dims[dim].bandwidth * 1000) - len(outcome.end) * 1000
