"""Chakra's attributes of memory tiers: what they say on read, on write, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import astrarium as ar
from astrarium.lower.placement import generated
from astrarium.result import Result
from astrarium.trace import TraceBuilder, read_traces, traces_of_bytes
from astrarium.trace.export import write_generated
from astrarium.trace.memory_ops import tier_attributes
from astrarium.trace.node import Attribute, attribute
from astrarium.vocab import NodeKind

TIERS = [ar.Tier("host", capacity="1 GB", bandwidth="10 GB/s"), ar.Tier("cxl", capacity="1 GB", bandwidth="5 GB/s")]
OP = "chakra.mem.mem_op"


def _design(**more: Any) -> ar.Design:
    return ar.Design(**{"workload": ar.Trace("in memory"), "memory": ar.Memory(bandwidth="100 GB/s", tiers=TIERS),
                        "network": ar.Network([ar.Switch(1, bandwidth="1 GB/s", latency="0 ns")]), **more})


def _run(trace: TraceBuilder, design: ar.Design | None = None) -> Result:
    results = [ar.simulate(design or _design(), traces=traces_of_bytes([trace.encode()]), pure=pure)
               for pure in (False, True)]
    assert results[0].nodes.end.tolist() == results[1].nodes.end.tolist()
    return results[0]


def test_nodes_reach_the_tier_that_they_name() -> None:
    trace = TraceBuilder()
    trace.memory("a", 1_000_000, tier="G2:dram:offload")              # 100 us
    trace.memory("b", 1_000_000, tier="G3:cxl:offload", store=True)   # 200 us
    trace.memory("c", 1_000_000, tier="cxl")                          # behind b
    trace.memory("d", 1_000_000, tier="G1:hbm:weights")               # 10 us
    result = _run(trace)
    assert (result.nodes.end // 10**6).tolist() == [100, 200, 400, 10]
    assert result.ranks.exposed_memory[0] == 400 * 10**6
    assert result.peak_memory is None       # nobody names tensors


def test_a_copy_takes_the_slower_side_and_both_their_turns() -> None:
    trace = TraceBuilder()
    trace.memory("from", 1_000_000, tier="host")
    trace.memory("copy", 1_000_000, **{OP: "COPY", "chakra.mem.src_tier": "host", "chakra.mem.dst_tier": "cxl"})
    trace.memory("to", 1_000_000, tier="cxl", store=True)
    result = _run(trace)
    assert (result.nodes.start // 10**6).tolist() == [0, 100, 300]
    assert (result.nodes.end // 10**6).tolist() == [100, 300, 500]


def test_space_of_a_tier_over_time() -> None:
    """ALLOC and FREE take no time; tensors that a store writes, or that only a load reads, are in its tier."""
    trace, host = TraceBuilder(), {"chakra.mem.tier": "host"}
    trace.memory("alloc", 600_000_000, **{OP: "ALLOC"}, **host)
    first = trace.memory("load", 1_000_000, tier="host")
    trace.memory("free", 600_000_000, store=True, after=[first], **{OP: "FREE"}, **host)
    result = _run(trace)
    time, held = result.memory.over_time(0, "host")
    assert time.tolist() == [0, 100_000_000]
    assert held.tolist() == [600_000_000, 0]
    assert result.out_of_memory is None
    small = _design(memory=ar.Memory(tiers=[ar.replace(TIERS[0], "capacity", "500 MB"), TIERS[1]]))
    overfull = _run(trace, small)
    assert overfull.out_of_memory is True
    assert overfull.memory.overflowing == ("host",)
    with pytest.raises(ar.InputError, match=r"there is no tier 'hots'.*did you mean 'host'"):
        result.memory.over_time(0, "hots")


def _lists(**each: tuple[str, ...]) -> list[Attribute]:
    return [Attribute(name, value, "string_list") for name, value in each.items()]


def test_named_tensors_are_where_their_nodes_put_them() -> None:
    """x is made here, and stored as y in the host; w is there from the start, until it is loaded."""
    trace, small = TraceBuilder(), attribute("tensor_size", 1000)
    made = trace.node(NodeKind.COMP, "op", [attribute("is_cpu_op", False), *_lists(outputs=("x", "1000"))], duration=5)
    trace.node(NodeKind.MEM_STORE, "store", [
        small, *tier_attributes(NodeKind.MEM_STORE, "host"), *_lists(inputs=("x", "1000"), outputs=("y", "1000"))],
        after=[made])
    trace.node(NodeKind.MEM_LOAD, "load", [
        small, *tier_attributes(NodeKind.MEM_LOAD, "host"), *_lists(inputs=("w", "300"))])
    result = _run(trace)
    assert result.memory.over_time(0)[1].tolist() == [1000, 0]
    # the load waits for the store before it
    assert result.memory.over_time(0, "host")[1].tolist() == [300, 1300, 1000]


@pytest.mark.parametrize(("attributes", "message"), [
    ({"tier": "G9"}, r"node 0 \(n\): reaches memory 'G9'.*expected one of local, host, cxl"),
    ({"tier": "hots"}, "did you mean 'host'"),
    ({OP: "MISS", "chakra.mem.tier": "host"}, "mem_op 'MISS' is not simulated; expected one of LOAD, STORE"),
    ({OP: "STORE", "chakra.mem.tier": "host"}, "mem_op STORE on a node of type MEM_LOAD"),
    ({OP: "COPY", "chakra.mem.dst_tier": "host"}, "mem_op COPY without chakra.mem.src_tier"),
    ({OP: "LOAD"}, "mem_op LOAD without chakra.mem.tier")])
def test_what_is_refused(attributes: dict[str, Any], message: str) -> None:
    trace = TraceBuilder()
    trace.memory("n", 5, **attributes)
    with pytest.raises(ar.TraceError, match=message):
        _run(trace)


def test_a_written_workload_reaches_the_same_tiers(tmp_path: Path) -> None:
    """Offloaded training as files runs like the generated one; what is in the local memory is the same, too."""
    placement = ar.Placement(parameters="cxl", gradients="host", states="host", activations="cxl")
    tiers = [ar.replace(TIERS[0], "step_bandwidth", "20 GB/s"), TIERS[1]]
    design = _design(workload=ar.Transformer("gpt2-small", global_batch=2, seq=256), compute=ar.Roofline("20 TFLOP/s"),
                     memory=ar.Memory(bandwidth="1 TB/s", tiers=tiers, placement=placement))
    write_generated(generated(design), tmp_path / "w", tensors=True)
    read = ar.replace_all(design, {"memory.placement": ar.Placement(), "workload": ar.Trace(str(tmp_path / "w.*.et"))})
    ours, theirs = ar.simulate(design), ar.simulate(read, traces=read_traces(str(tmp_path / "w.*.et"), 1))
    assert np.array_equal(ours.nodes.end, theirs.nodes.end)
    assert ours.peak_memory == theirs.peak_memory
