"""ASTRA-sim's rule book on small plans, against its measured closed forms and quirks (times in ns here)."""

from __future__ import annotations

from functools import partial

import pytest
from tests.plans.hand import Node, astra_ring, collective, delay, plan_of, recv, send

from astrarium import engine
from astrarium.engine.outcome import Outcome
from astrarium.engine.plan import (
    Algorithm,
    Backend,
    Chunk,
    CollectivePlan,
    Dim,
    Kind,
    Lane,
    NetworkPlan,
    Order,
    Phase,
    Policy,
    Remote,
    RemoteKind,
    Shape,
)
from astrarium.errors import StallError, UnsupportedError
from astrarium.vocab import CommOp

pytestmark = pytest.mark.skipif(not engine.HAVE_CORE, reason="no compiled core here")

execute = partial(engine.execute, fold=False)
BANDWIDTH = 50.0 * (1 << 30) / 1_000_000_000
POLICY = Policy(order=Order.ASTRA_SIM, endpoint_delay=10_000, reduce_bandwidth=1600e9)
BOTH = pytest.mark.parametrize("backend", [Backend.UNSHARED, Backend.LINKS])
MIB = 1 << 20


def network(shape: Shape, n: int, backend: str = Backend.UNSHARED, latency: float = 500.0) -> NetworkPlan:
    return NetworkPlan(backend, (Dim(shape, n, BANDWIDTH, latency),), whole_ns=True)


def ns(outcome: Outcome) -> list[int]:
    assert all(time % 1000 == 0 for time in outcome.finish.tolist())
    return [time // 1000 for time in outcome.finish.tolist()]


def phase(algorithm: Algorithm, op: CommOp, size: int, n: int, window: int = -1) -> CollectivePlan:
    return CollectivePlan(op, size, (Chunk(1, (Phase(0, op, algorithm, size, n, 1, window=window),)),))


@BOTH
@pytest.mark.parametrize("chunks", [1, 4])
def test_ring_all_reduce(backend: str, chunks: int) -> None:
    """10 + 2 (n-1) (trunc(latency + message / bandwidth) + 10) + (n-1) * 3 * trunc(message / memory) per chunk."""
    n, message = 8, MIB // chunks // 8
    plan = plan_of([[collective(0)]] * n, network(Shape.RING, n, backend), policy=POLICY,
                   collectives=[astra_ring(CommOp.ALL_REDUCE, n, MIB, chunks=chunks)])
    chunk = 10 + 2 * (n - 1) * (int(500 + message / BANDWIDTH) + 10) + (n - 1) * 3 * int(message / 1600)
    assert ns(execute(plan)) == [chunks * chunk] * n
    if chunks == 4:
        assert chunks * chunk == 64_440  # measured


def test_unshared_messages_never_meet() -> None:
    """Direct all_to_all costs one message; k chunks at once are k times as fast."""
    n, size = 16, MIB
    plan = phase(Algorithm.DIRECT, CommOp.ALL_TO_ALL, size, n)
    outcome = execute(plan_of([[collective(0)]] * n, network(Shape.SWITCH, n), policy=POLICY, collectives=[plan]))
    assert ns(outcome) == [10 + int(2 * 500 + size // n / BANDWIDTH) + 10] * n
    times = []
    for active in (1, 2, 4):
        policy = Policy(order=Order.ASTRA_SIM, endpoint_delay=10_000, reduce_bandwidth=1600e9, active_chunks=active)
        chunked = astra_ring(CommOp.ALL_REDUCE, 8, MIB, chunks=4)
        times.append(execute(plan_of([[collective(0)]] * 8, network(Shape.RING, 8), policy=policy,
                                     collectives=[chunked])).makespan)
    assert times == [times[0], times[0] // 2, times[0] // 4]


@pytest.mark.parametrize("window", [1, 2, 3, 7])
def test_direct_window(window: int) -> None:
    """n-1 messages, `window` in flight."""
    n, size = 8, 8000
    plan = phase(Algorithm.DIRECT, CommOp.REDUCE_SCATTER, size, n, window)
    policy = Policy(order=Order.ASTRA_SIM, endpoint_delay=10_000)
    outcome = execute(plan_of([[collective(0)]] * n, network(Shape.FULLY_CONNECTED, n), policy=policy,
                              collectives=[plan]))
    rounds = -(-(n - 1) // window)
    assert ns(outcome) == [10 + rounds * (int(500 + 1000 / BANDWIDTH) + 10)] * n


def test_halving_doubling() -> None:
    """Messages S/2, S/4, S/8 and back; the halves of the way down are added, but the last comes in plain."""
    n, size = 8, MIB
    plan = phase(Algorithm.HALVING_DOUBLING, CommOp.ALL_REDUCE, size, n)
    policy = Policy(order=Order.ASTRA_SIM, endpoint_delay=10_000)
    outcome = execute(plan_of([[collective(0)]] * n, network(Shape.SWITCH, n), policy=policy, collectives=[plan]))
    steps = [int(1000 + size / share / BANDWIDTH) + 10 for share in (2, 4, 8, 8, 4, 2)]
    assert ns(outcome) == [10 + sum(steps)] * n


@pytest.mark.parametrize("algorithm", [Algorithm.HALVING_DOUBLING, Algorithm.DOUBLE_BINARY_TREE])
@pytest.mark.parametrize("n", [3, 6])
def test_powers_of_two_only(algorithm: Algorithm, n: int) -> None:
    plan = phase(algorithm, CommOp.ALL_REDUCE, MIB, n)
    with pytest.raises(UnsupportedError, match=f"over {n} NPUs: .* a power of two"):
        execute(plan_of([[collective(0)]] * n, network(Shape.SWITCH, n), policy=POLICY, collectives=[plan]))


def test_links_store_and_forward() -> None:
    """Switch: up and down each take the whole message; two messages to one NPU queue on its down link."""
    size = 53_687
    wire = int(500 + size / BANDWIDTH)
    ranks: list[list[Node]] = [[send(2, size)], [send(2, size)], [recv(0, size), recv(1, size)], []]
    outcome = execute(plan_of(ranks, network(Shape.SWITCH, 4, Backend.LINKS), policy=POLICY), record=True)
    assert ns(outcome) == [2 * wire, 2 * wire + int(size / BANDWIDTH), 2 * wire + int(size / BANDWIDTH), 0]
    carried = zip(outcome.link_from.tolist(), outcome.link_to.tolist(), outcome.link_bytes.tolist(), strict=True)
    assert sorted(carried) == [(-1, 2, 2 * size), (0, -1, size), (1, -1, size)]


def test_only_the_lowest_differing_dim_is_paid() -> None:
    dims = (Dim(Shape.RING, 4, BANDWIDTH, 500.0), Dim(Shape.SWITCH, 2, BANDWIDTH / 100, 9000.0))
    ranks: list[list[Node]] = [[send(6, 1000)]] + [[] for _ in range(7)]
    outcome = execute(plan_of(ranks, NetworkPlan(Backend.UNSHARED, dims, True), policy=POLICY))
    assert ns(outcome)[0] == int(2 * 500 + 1000 / BANDWIDTH)


def test_send_holds_the_comm_lane_and_receive_none() -> None:
    time = int(500 + 1000 / BANDWIDTH)
    ranks = [[send(1, 1000), send(1, 1000, tag=1), recv(1, 1000, tag=2)],
             [recv(0, 1000), recv(0, 1000, tag=1), send(0, 1000, tag=2)]]
    outcome = execute(plan_of(ranks, network(Shape.FULLY_CONNECTED, 2), policy=POLICY), record=True)
    assert [t // 1000 for t in outcome.start.tolist()] == [0, time, 0, 0, 0, 0]
    assert ns(outcome) == [2 * time, 2 * time]


def test_rendezvous_adds_a_request() -> None:
    """8,192 bytes from the receiver first; the message starts when they are there."""
    policy = Policy(order=Order.ASTRA_SIM, rendezvous=True)
    outcome = execute(plan_of([[send(1, 1000)], [delay(7_000_000), recv(0, 1000, 0)]],
                              network(Shape.FULLY_CONNECTED, 2), policy=policy))
    assert ns(outcome) == [7000 + int(500 + 8192 / BANDWIDTH) + int(500 + 1000 / BANDWIDTH)] * 2


def test_what_a_skip_frees_waits_for_the_next_event() -> None:
    """Node 2, freed by the skipped node 0, starts when node 1 ends; alone it would start at once."""
    nodes = [Node(Kind.SKIP, lane=int(Lane.COMM)), delay(5000, lane=int(Lane.CPU)), delay(1000, 0)]
    both = execute(plan_of([nodes, []], network(Shape.RING, 2), policy=POLICY), record=True)
    assert both.start.tolist() == [0, 0, 5000]
    alone = execute(plan_of([[nodes[0], delay(1000, 0)], []], network(Shape.RING, 2), policy=POLICY), record=True)
    assert alone.start.tolist() == [0, 0]


def test_ready_nodes_go_in_ascending_id() -> None:
    nodes = [delay(3000, 3), delay(3000), delay(3000), delay(1000, lane=int(Lane.CPU))]
    outcome = execute(plan_of([nodes, []], network(Shape.RING, 2), policy=POLICY), record=True)
    assert outcome.start.tolist() == [3000, 0, 6000, 0]


@pytest.mark.parametrize(("kind", "ends"), [
    (RemoteKind.PER_NPU, [200, 200, 200, 200]), (RemoteKind.PER_NODE, [200, 400, 200, 400]),
    (RemoteKind.POOL, [200, 400, 600, 800])])
def test_remote_memory(kind: RemoteKind, ends: list[int]) -> None:
    remote = Remote(kind, 100, 9.99, 2)
    ranks = [[Node(Kind.REMOTE, size=1000)]] * 4
    outcome = execute(plan_of(ranks, network(Shape.RING, 4), policy=POLICY, remote=remote))
    assert ns(outcome) == ends


def test_zero_delays_at_time_zero() -> None:
    """ASTRA-sim aborts; here an endpoint delay of 0 is just no delay."""
    policy = Policy(order=Order.ASTRA_SIM)
    plan = plan_of([[collective(0)]] * 2, network(Shape.RING, 2, latency=0.0), policy=policy,
                   collectives=[astra_ring(CommOp.ALL_GATHER, 2, 1)])
    assert ns(execute(plan)) == [0, 0]


def test_collective_without_phases_ends_at_once() -> None:
    plan = plan_of([[collective(0), delay(1000, 0)]] * 2, network(Shape.RING, 2), policy=POLICY,
                   collectives=[CollectivePlan(CommOp.ALL_REDUCE, 64, ())])
    assert ns(execute(plan)) == [1, 1]


def test_stall() -> None:
    with pytest.raises(StallError, match=r"rank 1: node 0 \(recv from 0, tag 7, 64 bytes\) waits for a send"):
        execute(plan_of([[send(1, 64, tag=8)], [recv(0, 64, tag=7)]], network(Shape.RING, 2), policy=POLICY))


def test_links_have_one_dim() -> None:
    two = NetworkPlan(Backend.LINKS, (Dim(Shape.RING, 2, 1.0, 1.0),) * 2, True)
    with pytest.raises(UnsupportedError, match="this network has 2"):
        execute(plan_of([[]] * 4, two, policy=POLICY))


def test_the_pure_python_engine_refuses_these_rules() -> None:
    plan = plan_of([[delay(1000)]] * 2, network(Shape.RING, 2), policy=POLICY)
    with pytest.raises(UnsupportedError, match="compat: ASTRA-sim's rules run in the compiled core only"):
        execute(plan, pure=True)
