"""Ranks that would wait for each other issue their collectives in program order."""

from __future__ import annotations

import numpy as np
import pytest
from tests.plans.hand import Node, collective, delay, native_collective, plan_of, recv, send

from astrarium import engine
from astrarium.engine import Outcome, Plan, execute
from astrarium.engine.jobs import part_of
from astrarium.engine.plan import Backend, Dim, NetworkPlan, Order, Policy, Shape
from astrarium.engine.program_order import in_program_order, run_in_order
from astrarium.errors import StallError, TraceError
from astrarium.vocab import CommOp

core = pytest.mark.skipif(not engine.HAVE_CORE, reason="no compiled core here")
NETWORK = NetworkPlan(Backend.PORTS, (Dim(Shape.SWITCH, 2, 1.0, 0.0),))
BYTES = 1000


def crossed(policy: Policy | None = None, lanes: int = 1) -> Plan:
    """Two collectives on two groups of two ranks. Each rank's first one is the other's second."""
    def rank(first: int, second: int) -> list[Node]:
        return [delay(first), collective(0, 0, group=0), delay(second, lane=-1), collective(1, 2, group=1)]
    made = [native_collective("direct", CommOp.ALL_GATHER, 2, each) for each in (BYTES, BYTES)]
    return plan_of([rank(1000, 9000), rank(9000, 1000)], NETWORK, collectives=made, groups=[[0, 1], [0, 1]],
                   policy=policy, lanes=(1, lanes, 1, 1, 1))


def ran(plan: Plan, pure: bool) -> tuple[np.ndarray, Outcome]:
    return run_in_order(plan, lambda each, hurried: execute(each, record=True, pure=pure, hurried=hurried))


@pytest.mark.parametrize("pure", [True, pytest.param(False, marks=core)])
@pytest.mark.parametrize("lifo", [1, -1, 0])
def test_crossed_collectives(pure: bool, lifo: int) -> None:
    """The first collective of the program runs first on both ranks; the second waits for its end."""
    plan = crossed(Policy(lifo=lifo))
    with pytest.raises(StallError):
        execute(plan, pure=pure)
    ranks, outcome = ran(plan, pure)
    assert outcome.in_program_order
    assert ranks.tolist() == [0, 1]
    for row in range(len(outcome.finish)):
        base = int(outcome.node_ptr[row])
        start, end = outcome.start[base:base + 4], outcome.end[base:base + 4]
        assert start[3] == end[1]
    assert set(outcome.finish.tolist()) == {int(outcome.end.max())}


@pytest.mark.parametrize("pure", [True, pytest.param(False, marks=core)])
def test_ranks_that_meet_none_of_those_that_wait_stay_as_they_are(pure: bool) -> None:
    """Ranks 2 and 3 do as alone: their second collective is first, which takes less time than program order."""
    def rank(first: int, second: int, group: int) -> list[Node]:
        return [delay(first), collective(0, 0, group=group), delay(second, lane=-1), collective(1, 2, group=group + 1)]
    made = [native_collective("direct", CommOp.ALL_GATHER, 2, each) for each in (BYTES, 2 * BYTES)]
    network = NetworkPlan(Backend.PORTS, (Dim(Shape.SWITCH, 8, 1.0, 0.0),))
    crossed = [rank(1000, 9000, 0), [*rank(9000, 1000, 0), send(4, BYTES, 3)]]
    same = [rank(9000, 1000, 2)] * 2
    chain = [[recv(1, BYTES), send(5, BYTES, 0)], [recv(4, BYTES)]]     # they meet rank 1, the second through the first
    plan = plan_of([*crossed, *same, *chain], network, collectives=made, groups=[[0, 1], [0, 1], [2, 3], [2, 3]])
    ranks, outcome = ran(plan, pure)
    assert ranks.tolist() == [0, 1, 4, 5]
    _, alone = ran(part_of(plan, np.array([2, 3])), pure)
    assert not alone.in_program_order
    assert outcome.finish[outcome.row[2:4]].tolist() == alone.finish[alone.row].tolist()
    assert outcome.finish[outcome.row[2]] < outcome.finish[outcome.row[0]]


def test_a_run_that_ends_after_all() -> None:
    """What a hurried run takes for a stall, and a whole one does not, is in no other order, and does not say so."""
    network = NetworkPlan(Backend.PORTS, (Dim(Shape.SWITCH, 2, 1.0, 0.0),))
    made = [native_collective("direct", CommOp.ALL_GATHER, 2, BYTES)]

    def run(plan: Plan, hurried: bool) -> Outcome:
        if hurried:
            raise StallError([])
        return execute(plan, pure=True)
    for ranks in ([[collective(0)]] * 2, [[delay(1)]] * 2):     # one party, and two
        ordered, outcome = run_in_order(plan_of(ranks, network, collectives=made), run)
        assert not ordered.size
        assert outcome.in_program_order is False


@core
def test_engines_agree() -> None:
    """On the plan in program order as on every other."""
    plan = crossed()
    ours, theirs = ran(plan, True)[1], ran(plan, False)[1]
    np.testing.assert_array_equal(ours.finish, theirs.finish[theirs.row])


def test_with_a_stream_each() -> None:
    """Nobody waits, so nothing changes."""
    plan = crossed(lanes=2)
    ranks, outcome = ran(plan, True)
    assert not ranks.size
    assert not outcome.in_program_order
    ordered = in_program_order(plan)
    assert ordered is not None
    for before, after in zip(plan.programs, ordered.programs, strict=True):
        np.testing.assert_array_equal(before.child, after.child)    # each group has a stream of its own


def test_one_group_in_different_orders() -> None:
    """A communicator runs its collectives in program order, too."""
    def rank(first: int, second: int) -> list[Node]:
        return [delay(first), collective(0, 0), delay(second, lane=-1), collective(1, 2)]
    made = [native_collective("direct", CommOp.ALL_GATHER, 2, size) for size in (BYTES, 2 * BYTES)]
    plan = plan_of([rank(1000, 9000), rank(9000, 1000)], NETWORK, collectives=made, lanes=(1, 2, 1, 1, 1))
    with pytest.raises(TraceError):
        execute(plan, pure=True)
    assert ran(plan, True)[1].in_program_order


def test_what_program_order_does_not_help() -> None:
    """The error is that of the run as it was asked for: all ranks, with sentences."""
    made = [native_collective("direct", CommOp.ALL_GATHER, 2, BYTES)]
    plan = plan_of([[collective(0)], [delay(1)]], NETWORK, collectives=made)
    with pytest.raises(StallError, match="rank 0"):
        ran(plan, not engine.HAVE_CORE)


def test_plans_without_a_program_order() -> None:
    """A node that waits for a later one; and ASTRA-sim's rules."""
    made = [native_collective("direct", CommOp.ALL_GATHER, 2, BYTES)]
    late = [collective(0, 1), delay(1)]
    assert in_program_order(plan_of([late, late], NETWORK, collectives=made)) is None
    assert in_program_order(crossed(Policy(order=Order.ASTRA_SIM))) is None
