"""Several collectives at once under ASTRA-sim's rule book: they share the queues of the dims."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import astrarium as ar
from astrarium.engine import execute
from astrarium.engine.plan import Plan
from astrarium.lower import lower
from astrarium.trace.compose import ClassBuilder
from astrarium.trace.work import Generated
from astrarium.vocab import CommOp

RANKS = 8
OPS = st.sampled_from([CommOp.ALL_REDUCE, CommOp.ALL_GATHER, CommOp.REDUCE_SCATTER])
STEPS = st.lists(st.tuples(st.integers(1, 40), OPS, st.integers(1, 2**22)), min_size=2, max_size=4)


def plan_of(steps: list[tuple[int, CommOp, int]], algorithm: str, scheduling: str, streams: int, chunks: int) -> Plan:
    """Computes one after the other; each starts a collective that nothing waits for."""
    builder = ClassBuilder(np.arange(RANKS, dtype=np.int32))
    chain: list[int] = []
    for time, op, size in steps:
        chain = [builder.comp("compute", time, after=chain)]
        builder.coll("collective", op, size, after=chain)
    chosen: dict[str, Any] = {op: [algorithm] * 2 for op in ("all_reduce", "all_gather", "reduce_scatter")}
    design = ar.Design(
        workload=ar.Trace("given"), compat="astra_sim", system=ar.System(comm_streams=streams),
        network=ar.Network([ar.Switch(4, bandwidth="20 GB/s", latency="1 us"),
                            ar.Switch(2, bandwidth="5 GB/s", latency="2 us")]),
        collective=ar.Collective(**chosen, chunks=chunks, composition="blueconnect", scheduling=scheduling,
                                 choice="none"))
    return lower(design, Generated((builder.build(),), (), (), (None,)))


@settings(max_examples=6, deadline=None)
@given(STEPS, st.sampled_from(["ring", "direct", "halving_doubling"]), st.sampled_from(["lifo", "fifo"]),
       st.integers(2, 9), st.integers(1, 3))
def test_nothing_is_folded(steps: list[tuple[int, CommOp, int]], algorithm: str,
                                                  scheduling: str, streams: int, chunks: int) -> None:
    plan = plan_of(steps, algorithm, scheduling, streams, chunks)
    first = execute(plan)
    assert not first.folded
    assert execute(plan, fold=False).finish.tolist() == first.finish[first.row].tolist()


def test_the_newest_goes_first() -> None:
    """Three all_reduces that are ready 1 us after one another, the last a small one; with one at a time the two orders
    are the same, and runs are folded."""
    steps = [(1, CommOp.ALL_REDUCE, 2**22), (1, CommOp.ALL_REDUCE, 2**22), (1, CommOp.ALL_REDUCE, 2**12)]
    ends = {}
    for order in ("lifo", "fifo"):
        found = execute(plan_of(steps, "ring", order, 9, 2), record=True)
        assert found.unfolded_because
        ends[order] = found.end[1:6:2].tolist()
    assert ends["lifo"][2] < ends["lifo"][1] < ends["lifo"][0]
    assert ends["fifo"][0] < ends["fifo"][1] < ends["fifo"][2]
    alone = [execute(plan_of(steps, "ring", order, 1, 2), record=True) for order in ("lifo", "fifo")]
    assert all(each.folded for each in alone)
    assert alone[0].end.tolist() == alone[1].end.tolist()
