"""Periods that are counted, on programs that look as if they repeated."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from msgspec.structs import replace
from tests.plans.hand import Node, collective, delay, native_collective, plan_of, program

from astrarium import engine
from astrarium.engine.outcome import Outcome
from astrarium.engine.plan import Backend, Dim, Lane, NetworkPlan, Plan, Shape
from astrarium.errors import AstrariumError
from astrarium.vocab import CommOp

pytestmark = pytest.mark.skipif(not engine.HAVE_CORE, reason="only the compiled core counts periods")

NETWORK = NetworkPlan(Backend.PORTS, (Dim(Shape.SWITCH, 2, 50.0, 10.0),))
OPS = [native_collective("ring", op, 2, 1000) for op in (CommOp.ALL_GATHER, CommOp.ALL_REDUCE)]
LAYERS = 200


def chain(last: int = LAYERS) -> list[Node]:
    return [delay(10, *range(max(0, i - 1), i)) for i in range(last)]


def run(plan: Plan, fold: bool) -> Outcome | tuple[str, str]:
    try:
        return engine.execute(plan, fold=fold)
    except AstrariumError as error:
        return type(error).__name__, str(error)


def recorded(plan: Plan) -> Outcome:
    """A recorded run that counts; it must be that of running all."""
    ours, whole = (engine.execute(plan, record=True, fold=fold) for fold in (True, False))
    for name in ("finish", "busy", "start", "end", "link_bytes", "link_busy", "use_busy"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(whole, name))
    return ours


def said(plan: Plan) -> str:
    """The error of a run that counts."""
    found = run(plan, True)
    assert isinstance(found, tuple)
    return found[1]


def counted(ranks: Sequence[Sequence[Node]]) -> int:
    """How many events are counted; the integers, or the error, must be those of running all."""
    return compared(plan_of(ranks, NETWORK, collectives=OPS))


def compared(plan: Plan) -> int:
    ours, whole = run(plan, True), run(plan, False)
    if isinstance(ours, tuple) or isinstance(whole, tuple):
        assert ours == whole
        return 0
    for name in ("finish", "busy"):
        np.testing.assert_array_equal(getattr(ours, name)[ours.row], getattr(whole, name)[whole.row])
    return ours.counted


def test_a_chain_is_counted() -> None:
    assert counted([chain(), chain()]) > LAYERS


def test_one_sink_after_another() -> None:
    """A sink takes the first 50 layers; of the others each has one of its own, as far apart as layers are."""
    end, others = LAYERS - 1, 150
    more = [delay(1, end) for _ in range(others)]
    nodes = [*chain(), *more, delay(1, *range(50), *range(LAYERS, LAYERS + others))]
    nodes += [delay(10_000, layer, lane=Lane.CPU) for layer in range(50, LAYERS)]
    counted([nodes, nodes])


def test_nodes_that_stand_before_what_they_wait_for() -> None:
    """The last layer has the lowest number."""
    whole = program([delay(10, *range(max(1, i - 1), i)) if i else delay(10, LAYERS - 1) for i in range(LAYERS)])
    plan = plan_of([chain(), chain()], NETWORK)
    assert compared(replace(plan, programs=(whole, whole))) == 0


def test_collectives_have_the_numbers_that_they_have_in_a_whole_run() -> None:
    layers = [collective(0, *range(max(0, i - 1), i)) for i in range(LAYERS)]
    plan = plan_of([[*layers, collective(rank, LAYERS - 1)] for rank in (0, 1)], NETWORK, collectives=OPS)
    same = replace(plan.programs[0], slot=np.array([0] * LAYERS + [1], np.int32))    # of layers: one
    plan = replace(plan, programs=(same, same), slot_ptr=np.array([0, 2, 4], np.int64),
                   slot_a=np.array([0, 0, 0, 1], np.int32), slot_b=np.full(4, -1, np.int32),
                   slot_c=np.zeros(4, np.int32))
    assert f"collective number {LAYERS + 1} of its group" in said(plan)
    compared(plan)


def test_time_ends_where_it_ends_in_a_whole_run() -> None:
    """2^63 ps are reached within what would be counted."""
    nodes = [delay(10**17, *range(max(0, i - 1), i)) for i in range(LAYERS)]
    assert "2^63 ps" in said(plan_of([nodes, nodes], NETWORK))
    counted([nodes, nodes])


def test_nodes_of_one_rank_that_stand_before_what_they_wait_for() -> None:
    """The periods of the other rank are not counted either: they would take nodes of both away."""
    last_first = [delay(10, *range(max(1, i - 1), i)) if i else delay(10, LAYERS - 1) for i in range(LAYERS)]
    plan = plan_of([chain(), chain()], NETWORK)
    assert compared(replace(plan, programs=(program(chain()), program(last_first)))) == 0


def test_a_stall_is_told_as_after_a_whole_run() -> None:
    """Three collectives wait for one lane from the start; the ranks begin with different ones, and layers go on."""
    def waits(first: int, second: int) -> list[Node]:
        return [*chain(), *(collective(0, group=group) for group in (first, second, second))]

    plan = plan_of([waits(0, 1), waits(1, 0)], NETWORK, collectives=OPS, groups=[(0, 1), (0, 1)])
    assert f"node {LAYERS + 1} (collective) waits for its lane" in said(plan)
    compared(plan)


RING = NetworkPlan("contention", (Dim(Shape.RING, 4, 50.0, 10.0),))
PAIRS = [(0, 2), (1, 3)]        # their messages pass the NPUs of each other


def micro_batches(count: int, layers: int, uneven: int = 0) -> list[list[Node]]:
    """Each is a pause and layers: a delay, and a collective of each pair, which goes on beside the next delay."""
    ranks: list[list[Node]] = []
    for _ in range(4):
        nodes: list[Node] = []
        for _ in range(count):
            nodes.append(delay(500_000, *range(max(len(nodes) - 2, 0), len(nodes))))
            for layer in range(layers):
                at = len(nodes)
                before = [at - 1, at - 2, at - 3][min(layer, 1):1 + layer]
                nodes += [delay(300_000 + uneven * (layer % 2), *before), collective(0, at)]
        ranks.append(nodes)
    return ranks


def on_a_ring(ranks: Sequence[Sequence[Node]], first: Sequence[int] = (0, 0, 0, 0)) -> Plan:
    """Each rank has the program of the first, begins with collective `first`, and has one slot for all layers."""
    ops = [native_collective("ring", CommOp.ALL_REDUCE, 2, size, chunks=2, active=2, dim=-1)
           for size in (4000, 800_000)]
    plan = plan_of(ranks, RING, collectives=ops, groups=PAIRS)
    same = replace(plan.programs[0], slot=np.minimum(plan.programs[0].slot, 1))
    pairs = [[begin, 0] for begin in first]
    return replace(plan, programs=(same,), program_of=np.zeros(4, np.int32), slot_ptr=2 * np.arange(5, dtype=np.int64),
                   slot_a=np.array(pairs, np.int32).reshape(-1), slot_b=np.array([0, 0, 1, 1] * 2, np.int32),
                   slot_c=np.zeros(8, np.int32))


@pytest.mark.parametrize("uneven", [0, 7], ids=["every layer", "every other layer"])
def test_layers_within_micro_batches_are_counted(uneven: int) -> None:
    """Of 8 times 40 layers hardly more than one micro-batch runs, whose layers are counted, too."""
    found = recorded(on_a_ring(micro_batches(8, 40, uneven)))
    assert found.counted > 0.9 * found.events


def test_ranks_of_one_program_go_on_at_different_times() -> None:
    """The first collective of one pair takes longer than the other pair's layers."""
    found = recorded(on_a_ring(micro_batches(2, 80), first=(0, 1, 0, 1)))
    assert found.counted > 0.5 * found.events
