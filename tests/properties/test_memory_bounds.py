"""No tier of memory is above its bandwidth or its capacity at any time, in both engines, or the result names it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import astrarium as ar
from astrarium.engine.plan import Kind
from astrarium.memory.tiers import tier_of
from astrarium.result import Result
from astrarium.trace import TraceBuilder, traces_of_bytes
from astrarium.trace.work import TraceClass
from astrarium.vocab import NodeKind

NPUS = 4
RATES = st.sampled_from([1, 3, 7, 40])


@st.composite
def _tiers(draw: st.DrawFn) -> list[ar.Tier]:
    found = []
    for name in draw(st.sampled_from([["host"], ["host", "pool"]])):
        npus = draw(st.sampled_from([1, 2, 4]))
        more: dict[str, Any] = {"total": f"{draw(RATES)} GB/s"} if npus > 1 and draw(st.booleans()) else {}
        if draw(st.booleans()):
            more["over"] = "network"
        elif draw(st.booleans()):
            more["step_bandwidth"] = f"{draw(RATES)} GB/s"
        found.append(ar.Tier(name, capacity=f"{draw(st.sampled_from([1, 20, 400]))} GB", latency=f"{draw(RATES)} us",
                             bandwidth=f"{draw(RATES)} GB/s", npus=npus, duplex=draw(st.booleans()), **more))
    return found


@st.composite
def _trained(draw: st.DrawFn) -> ar.Design:
    """A small GPT on four NPUs, its tensors anywhere that is legal."""
    tiers = draw(_tiers())
    where = st.sampled_from(["local", "local", *[tier.name for tier in tiers]])
    dp = draw(st.sampled_from([1, 2, 4]))
    zero = draw(st.sampled_from([2, 3])) if dp > 1 else draw(st.sampled_from([0, 3]))
    work = ar.Transformer("gpt2-small", dp=dp, pp=NPUS // dp, zero=zero, global_batch=4 * dp,
                          micro_batch=draw(st.sampled_from([1, 2])), seq=128)
    placement = ar.Placement(parameters=draw(where) if zero in (0, 3) else "local", gradients=draw(where),
                             states=draw(where), activations=draw(where), prefetch=draw(st.integers(0, 2)))
    return ar.Design(workload=work, compute=ar.Roofline("40 TFLOP/s"), network=_network(),
                     memory=ar.Memory(capacity="4 GB", bandwidth="1 TB/s", tiers=tiers, placement=placement))


def _network() -> ar.Network:
    return ar.Network([ar.Ring(NPUS, bandwidth="50 GB/s", latency="1 us")])


def _check_rates(result: Result, design: ar.Design) -> None:
    """At every time: the transfers of an NPU, and those of all that share a tier, go no faster than the tier."""
    for number, tier in enumerate(design.memory.tiers):
        for first in range(0, NPUS, tier.npus):
            events = [event for npu in range(first, first + tier.npus) for event in _moves(result, design, npu, number)]
            own = float(tier.bandwidth) * (2 if tier.duplex else 1)
            for npu in range(first, first + tier.npus):
                assert _most([event for event in events if event[3] == npu]) <= own * (1 + 1e-9)
            if tier.total is not None:
                ways = ((0,), (1,)) if tier.duplex else ((0, 1),)
                for way in ways:
                    assert _most([event for event in events if event[4] in way]) <= float(tier.total) * (1 + 1e-9)


def _moves(result: Result, design: ar.Design, npu: int, number: int) -> list[tuple[int, int, float, int, int]]:
    """(start, end, bytes per ns, NPU, way) of an NPU's transfers to and from a tier."""
    row = int(result.outcome.row[npu])
    trace = next(each for each in _classes(result) if npu in each.ranks)
    program = result.plan.programs[int(result.plan.program_of[npu])]
    part = slice(int(result.outcome.node_ptr[row]), int(result.outcome.node_ptr[row + 1]))
    start, end = result.outcome.start[part], result.outcome.end[part]
    found = []
    for node in np.flatnonzero((program.kind == Kind.DELAY) & (program.size > 0)).tolist():
        label = trace.tiers[trace.tier[node]]
        if tier_of(design.memory.tiers, label) == number:
            size, time = int(program.size[node]), int(end[node] - start[node])
            assert time > 0
            found.append((int(start[node]), int(end[node]), size / (time / 1000), npu,
                          int(trace.type[node] == NodeKind.MEM_STORE)))
    return found


def _classes(result: Result) -> Sequence[TraceClass]:
    from astrarium.lower.classes import trace_classes
    from astrarium.trace.columns import Traces

    assert result.traces is not None
    return trace_classes(result.traces, ()) if isinstance(result.traces, Traces) else result.traces.classes


def _most(events: list[tuple[int, int, float, int, int]]) -> float:
    """The highest sum of rates at any time."""
    changes = sorted([(start, 1, rate) for start, _, rate, _, _ in events]
                     + [(end, 0, -rate) for _, end, rate, _, _ in events])
    most = now = 0.0
    for _, _, rate in changes:
        now += rate
        most = max(most, now)
    return most


def _check_capacities(result: Result, design: ar.Design) -> None:
    """Above its capacity at some time: named. Nothing is held below 0."""
    over = []
    for tier in design.memory.tiers:
        most = 0
        for row in range(len(result.outcome.finish)):
            held = result.memory.over_time(row, tier.name)[1]
            assert (held >= 0).all()
            most = max(most, int(held.max(initial=0)))
        over += [tier.name] if most > float(tier.capacity) / tier.npus else []
    assert result.memory.overflowing == tuple(over)
    local = result.peak_memory is not None and float(result.peak_memory) > float(design.memory.capacity or np.inf)
    assert bool(result.out_of_memory) == (bool(over) or local)


@settings(max_examples=6)
@given(_trained())
def test_trained_models(design: ar.Design) -> None:
    results = [ar.simulate(design), ar.simulate(design, pure=True), ar.simulate(design, fold="off")]
    for result in results:
        _check_rates(result, design)
        _check_capacities(result, design)
    assert len({result.makespan_ps for result in results}) == 1


@st.composite
def _traced(draw: st.DrawFn) -> tuple[ar.Design, Any]:
    """Ranks with any memory nodes in any order of dependencies, ids that do not ascend with them."""
    tiers, traces = draw(_tiers()), []
    labels = st.sampled_from(["G2:dram:offload", *[tier.name for tier in tiers]])
    for _ in range(NPUS):
        trace, ids = TraceBuilder(), draw(st.permutations(range(8)))
        for place in range(8):
            after = draw(st.lists(st.sampled_from(ids[:place]), max_size=2)) if place else []
            if draw(st.booleans()):
                trace.memory("move", draw(st.integers(1, 10**7)), store=draw(st.booleans()), tier=draw(labels),
                             after=after, id=ids[place])
            else:
                trace.comp("op", draw(st.integers(1, 500)), after=after, id=ids[place])
        traces.append(trace.encode())
    design = ar.Design(workload=ar.Trace("in memory"), network=_network(), memory=ar.Memory(tiers=tiers))
    return design, traces_of_bytes(traces)


@settings(max_examples=10)
@given(_traced())
def test_traces(case: tuple[ar.Design, Any]) -> None:
    design, traces = case
    results = [ar.simulate(design, traces=traces, pure=pure) for pure in (False, True)]
    for result in results:
        _check_rates(result, design)
    assert results[0].makespan_ps == results[1].makespan_ps
