"""Themis with one chunk per dim: ranks that come at different times never wait for each other in a circle."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.draws import draws

import astrarium as ar
from astrarium import engine
from astrarium.engine import Outcome, Plan
from astrarium.lower import lower
from astrarium.trace import TraceBuilder, traces_of_bytes
from astrarium.vocab import CommOp

MAKERS = (ar.Ring, ar.Switch, ar.FullyConnected)
needs_core = pytest.mark.skipif(not engine.HAVE_CORE, reason="no compiled core here")


@st.composite
def in_turns(draw: st.DrawFn) -> Plan:
    """One to three collectives of all ranks, one after the other or overlapping, on two or three dims."""
    dims = [draw(st.sampled_from(MAKERS))(draw(st.sampled_from([2, 3, 4])) if number < 2 else 2,
                                          bandwidth=f"{draw(st.sampled_from([1, 10, 12.5]))} GB/s",
                                          latency=f"{draw(st.sampled_from([0, 1, 500]))} ns")
            for number in range(draw(st.integers(2, 3)))]
    network = ar.Network(dims, backend=draw(st.sampled_from(["closed_form", "contention"])))
    names = ["ring", "direct", "halving_doubling"]
    collective = ar.Collective(
        composition="themis", active_chunks=1, chunks=draw(st.sampled_from([2, 3, 8])), scheduling="fifo",
        all_reduce=[draw(st.sampled_from(names)) for _ in dims],
        endpoint_delay=draw(st.sampled_from(["0 ns", "10 ns"])))
    late = draw(st.sampled_from([0, 0, 1, 20]))
    builders = [TraceBuilder() for _ in range(network.npus)]
    for op in draw(st.lists(st.sampled_from([CommOp.ALL_REDUCE, CommOp.REDUCE_SCATTER, CommOp.ALL_GATHER]),
                            min_size=1, max_size=3)):
        size, overlaps = draw(st.sampled_from([1000, 65_536, 1_000_003])), draw(st.booleans())
        for rank, builder in enumerate(builders):
            before = [len(builder.nodes) - (2 if overlaps else 1)] if builder.nodes else []
            work = builder.comp("compute", max(1, late * (rank * 7 % network.npus)), after=before)
            builder.coll(op.name, op, size, after=[work])
    design = ar.Design(workload=ar.Trace("in memory"), network=network, collective=collective,
                       system=ar.System(comm_streams=draw(st.sampled_from([1, 3]))))
    return lower(design, traces_of_bytes([builder.encode() for builder in builders]))


def carried(outcome: Outcome) -> Counter[tuple[int, int, int]]:
    """Bytes per link or port."""
    found = Counter[tuple[int, int, int]]()
    names = ("link_dim", "link_from", "link_to", "link_bytes")
    for dim, start, end, size in zip(*(getattr(outcome, name).tolist() for name in names), strict=True):
        found[dim, start, end] += size
    return found


@given(in_turns())
def test_turns_never_stall_and_move_all_bytes(plan: Plan) -> None:
    assert any(collective.turns for collective in plan.collectives)
    every = engine.execute(plan, record=True, fold=False)
    free = replace(plan, collectives=tuple(replace(c, turns=(), active_chunks=0) for c in plan.collectives))
    assert carried(every) == carried(engine.execute(free, record=True, fold=False))


@needs_core
@draws(25)
@given(in_turns())
def test_turns_folded_and_in_pure_python(plan: Plan) -> None:
    every = engine.execute(plan, record=True, fold=False)
    folded, pure = engine.execute(plan, record=True, fold=True), engine.execute(plan, record=True, pure=True)
    np.testing.assert_array_equal(folded.finish[folded.row], every.finish)
    for name in ("finish", "start", "end", "use_busy"):
        np.testing.assert_array_equal(getattr(pure, name), getattr(every, name), err_msg=name)
    assert carried(pure) == carried(every)
