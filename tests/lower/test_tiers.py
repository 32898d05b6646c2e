"""Nodes that name tiers, as programs: durations, lanes, and the order of a tier's transfers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import astrarium as ar
from astrarium.engine.plan import Kind, Lane
from astrarium.lower import lower
from astrarium.result import Result
from astrarium.trace import TraceBuilder, traces_of_bytes
from astrarium.vocab import CommOp

HOST = ar.Tier("host", capacity="1 GB", bandwidth="10 GB/s", latency="1 ns")
POOL = ar.Tier("pool", capacity="1 GB", bandwidth="4 GB/s", npus=2, total="4 GB/s", over="network")


def _design(*tiers: ar.Tier, ranks: int = 2, **more: Any) -> ar.Design:
    return ar.Design(**{"workload": ar.Trace("in memory"), "memory": ar.Memory(bandwidth="1 TB/s", tiers=tiers),
                        "network": ar.Network([ar.Ring(ranks, bandwidth="1 GB/s", latency="0 ns")]), **more})


def _traces(make: Any, ranks: int = 2) -> Any:
    found = []
    for rank in range(ranks):
        trace = TraceBuilder()
        make(trace, rank)
        found.append(trace.encode())
    return traces_of_bytes(found)


def _both(design: ar.Design, traces: Any) -> Result:
    results = [ar.simulate(design, traces=traces, pure=pure) for pure in (False, True)]
    finish = [result.outcome.finish[result.outcome.row].tolist() for result in results]
    assert finish[0] == finish[1]
    return results[0]


def test_programs() -> None:
    def make(trace: TraceBuilder, rank: int) -> None:
        trace.memory("a", 1001, tier="host")
        trace.memory("b", 1000, tier="pool", store=True)
        trace.comp("op", 1)

    program, = lower(_design(HOST, POOL), _traces(make)).programs
    assert program.kind.tolist() == [Kind.DELAY] * 3
    assert program.lane.tolist() == [-1, Lane.COMM, Lane.COMPUTE]
    assert program.duration.tolist() == [101_100, 500_000, 1_000_000]   # half of 4 GB/s
    assert program.size.tolist() == [1001, 1000, 0]
    assert program.busy.tolist() == [0, 0, 1_000_000]


def test_a_pool_over_the_network_takes_turns_with_collectives() -> None:
    def make(trace: TraceBuilder, rank: int) -> None:
        trace.memory("a", 1_000_000, tier="pool")
        trace.coll("sum", CommOp.ALL_REDUCE, 1_000_000)

    apart = ar.replace(POOL, "over", "own")
    times = {tier.over: _both(_design(tier), _traces(make)).makespan_ps for tier in (POOL, apart)}
    alone = _both(_design(POOL), _traces(lambda trace, _: trace.coll("sum", CommOp.ALL_REDUCE, 1_000_000))).makespan_ps
    assert times == {"network": alone + 500_000_000, "own": max(alone, 500_000_000)}


def test_transfers_go_in_the_order_of_the_program() -> None:
    """Not in that in which they become ready; where ids do not ascend with dependencies, in one that obeys these."""
    def make(trace: TraceBuilder, rank: int) -> None:
        slow = trace.comp("slow", 10)
        trace.memory("first", 1000, tier="host", after=[slow])
        trace.memory("second", 1000, tier="host")

    assert _both(_design(HOST), _traces(make)).nodes.start.tolist()[:3] == [0, 10_000_000, 10_101_000]

    def back(trace: TraceBuilder, rank: int) -> None:
        trace.memory("late", 1000, tier="host", after=[7], id=1)
        trace.memory("early", 1000, tier="host", id=7)

    assert _both(_design(HOST), _traces(back)).nodes.start.tolist()[:2] == [101_000, 0]


def test_nodes_without_a_name_mean_the_only_tier() -> None:
    """And keep its bandwidth together with those that name it; in traces without names nothing changes."""
    def make(trace: TraceBuilder, rank: int) -> None:
        trace.memory("a", 10_000)
        trace.memory("b", 10_000, tier="host")

    assert _both(_design(HOST), _traces(make)).makespan_ps == 2 * 1_001_000
    with pytest.raises(ar.TraceError, match="the design has none"):
        lower(_design(HOST, POOL), _traces(make))
    unnamed = _traces(lambda trace, _: [trace.memory(name, 10_000) for name in "ab"])
    assert [program.kind.tolist() for program in lower(_design(HOST), unnamed).programs] == [[Kind.REMOTE] * 2]
    assert _both(_design(HOST, system=ar.System(copy_streams=2)), unnamed).makespan_ps == 1_001_000


def test_a_transfer_that_takes_for_ever_is_named() -> None:
    def make(trace: TraceBuilder, rank: int) -> None:
        trace.memory("a", 1000, tier="host")
        trace.memory("b", 2**62, tier="host")

    with pytest.raises(ar.TraceError, match=r"rank 0, node 1 \(b\): a node that takes 4\.6.*e\+08 s is impossible"):
        lower(_design(HOST), _traces(make))


def test_work_beside_a_tier_needs_a_processor() -> None:
    def make(trace: TraceBuilder, rank: int) -> None:
        trace.comp("step", tensor_size=10_000, cpu=True, **{"astrarium.step_tier": "host"})

    stepping = ar.replace_all(HOST, {"step_bandwidth": "20 GB/s", "npus": 2})
    assert _both(_design(stepping), _traces(make)).makespan_ps == 1_000_000
    with pytest.raises(ar.TraceError, match=r"no processor; expected memory\.tiers\[0\]\.step_bandwidth"):
        lower(_design(HOST), _traces(make))


def test_types_of_npu_may_have_tiers_of_other_rates() -> None:
    memory = ar.Memory(bandwidth="1 TB/s", tiers=[HOST], remote=ar.Remote("per_npu", bandwidth="1 GB/s"))
    slow = ar.replace(memory, "tiers[0].bandwidth", "5 GB/s")
    design = _design(memory=memory, npu_types=[ar.NpuType(npus=[1], memory=slow)])
    result = _both(design, _traces(lambda trace, _: trace.memory("a", 1000, tier="host")))
    assert np.diff(result.outcome.finish[result.outcome.row]).tolist() == [100_000]
