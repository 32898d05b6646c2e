"""Design -> Plan natively: lanes, durations, groups, placement, NPU types, refusals."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import astrarium as ar
from astrarium import engine
from astrarium.collective.groups import SubDim
from astrarium.engine.plan import Kind, Lane, Order
from astrarium.errors import InputError, TraceError
from astrarium.lower import lower
from astrarium.lower.collectives import shapes_of
from astrarium.network.config import LinkDim
from astrarium.trace import TraceBuilder, Traces, traces_of_bytes
from astrarium.vocab import CommOp

NETWORK = ar.Network([ar.Switch(2, bandwidth="100 GB/s", latency="1 us"),
                      ar.Ring(2, bandwidth="50 GB/s", latency="2 us")])


def design(**sections: Any) -> ar.Design:
    return ar.Design(**{"workload": ar.Trace("in memory"), "network": NETWORK, **sections})


def spmd(make: Any, ranks: int = 4) -> Traces:
    """Traces of `ranks` ranks; `make(builder, rank)` adds the nodes."""
    builders = [TraceBuilder() for _ in range(ranks)]
    for rank, builder in enumerate(builders):
        make(builder, rank)
    return traces_of_bytes([builder.encode() for builder in builders])


def every_kind(builder: TraceBuilder, rank: int) -> None:
    builder.comp("gpu", 3)
    builder.comp("host", 5, cpu=True, after=[0])
    builder.coll("sum", CommOp.ALL_REDUCE, 4096)
    builder.send("send", (rank + 1) % 4, 100)
    builder.recv("recv", (rank - 1) % 4, 100)
    builder.memory("load", 700)


def test_nodes_take_their_lanes_and_durations() -> None:
    memory = ar.Memory(remote=ar.Remote("per_npu", bandwidth="2 GB/s", latency="7 ns"))
    plan = lower(design(memory=memory, system=ar.System(comm_streams=2, cpu_threads=3)), spmd(every_kind))
    program, = plan.programs
    assert program.kind.tolist() == [Kind.DELAY, Kind.DELAY, Kind.COLLECTIVE, Kind.SEND, Kind.RECV, Kind.REMOTE]
    assert program.lane.tolist() == [Lane.COMPUTE, Lane.CPU, Lane.COMM, Lane.P2P, -1, Lane.COPY]
    assert program.duration.tolist() == [3_000_000, 5_000_000, 0, 0, 0, 0]
    assert program.busy.tolist() == [3_000_000, 0, 0, 0, 0, 0]
    assert program.size.tolist() == [0, 0, 4096, 100, 100, 700]
    assert program.slot.tolist() == [-1, -1, 0, 1, 2, -1]
    assert plan.lanes == (1, 2, 3, 1, 1)
    assert (plan.remote.latency, plan.remote.bandwidth) == (7, 2.0)
    assert plan.slot_a.reshape(4, 3)[:, 1].tolist() == [1, 2, 3, 0]


def test_memory_nodes_reach_the_only_tier_behind_the_local_memory() -> None:
    tiers = [ar.Tier("host", capacity="1 TB", bandwidth="2 GB/s", latency="7 ns")]
    outcome = engine.execute(lower(design(memory=ar.Memory(tiers=tiers)), spmd(lambda b, rank: b.memory("load", 1000))))
    assert outcome.makespan == 507_000  # 7 ns + 1000 B / 2 B/ns
    two = ar.Memory(tiers=[*tiers, ar.Tier("disk", capacity="9 TB", bandwidth="1 GB/s")])
    with pytest.raises(TraceError, match=r"memory\.tiers"):
        lower(design(memory=two), spmd(lambda b, rank: b.memory("load", 1000)))


def test_policy_and_network() -> None:
    chosen = ar.Collective(scheduling="fifo", endpoint_delay="1.5 ns", active_chunks=3)
    plan = lower(design(memory=ar.Memory(bandwidth="2 TB/s"), collective=chosen,
                        network=ar.Network(NETWORK.dims, backend="contention"),
                        workload=ar.SingleCollective("all_reduce", "1 MB")))
    assert (plan.policy.order, plan.policy.lifo, plan.policy.endpoint_delay) == (Order.CANONICAL, -1, 1500)
    assert plan.policy.reduce_bandwidth == 2e12
    assert plan.network.backend == "contention"
    assert not plan.network.whole_ns


def test_roofline_takes_the_longer_of_flops_and_bytes() -> None:
    def two(builder: TraceBuilder, rank: int) -> None:
        builder.comp("flops", num_ops=10**9, tensor_size=10)
        builder.comp("bytes", num_ops=10, tensor_size=10**9, after=[0])

    plan = lower(design(compute=ar.Roofline(peak="100 TFLOP/s"), memory=ar.Memory(bandwidth="2 TB/s")), spmd(two))
    assert plan.programs[0].duration.tolist() == [10_000_000, 500_000_000]


def test_all_communication_replays_on_request() -> None:
    def timed(builder: TraceBuilder, rank: int) -> None:
        builder.coll("sum", CommOp.ALL_REDUCE, 4096, duration=9)
        builder.recv("recv", (rank - 1) % 4, 100, duration=4, after=[0])

    plan = lower(design(compute=ar.Replay(everything=True)), spmd(timed))
    assert plan.programs[0].kind.tolist() == [Kind.DELAY] * 2
    assert plan.programs[0].duration.tolist() == [9_000_000, 4_000_000]
    assert plan.slot_a.size == 0
    assert ar.simulate(design(compute=ar.Replay(everything=True)), traces=spmd(timed)).makespan_ps == 13_000_000


def grouped(builder: TraceBuilder, rank: int) -> None:
    builder.coll("inner", CommOp.ALL_REDUCE, 4096, group=1 + rank // 2)
    builder.coll("outer", CommOp.ALL_REDUCE, 4096, group=3 + rank % 2, after=[0])


GROUPS = {"1": [0, 1], "2": [2, 3], "3": [0, 2], "4": [1, 3]}


def with_groups(folder: Path, **sections: Any) -> ar.Design:
    (folder / "groups.json").write_text(json.dumps(GROUPS))
    return design(workload=ar.Trace("in memory", groups=str(folder / "groups.json")), **sections)


def test_groups_of_one_shape_share_a_plan(tmp_path: Path) -> None:
    plan = lower(with_groups(tmp_path), spmd(grouped))
    assert [[phase.dim for phase in c.chunks[0].phases] for c in plan.collectives] == [[0], [1]]
    assert plan.slot_a.reshape(4, 2).tolist() == [[0, 1]] * 4
    assert plan.slot_b.reshape(4, 2).tolist() == [[0, 2], [0, 3], [1, 2], [1, 3]]


def test_shapes_are_those_of_npus_not_of_ranks(tmp_path: Path) -> None:
    plan = lower(with_groups(tmp_path, system=ar.System(placement=[0, 2, 1, 3])), spmd(grouped))
    assert plan.npu_of.tolist() == [0, 2, 1, 3]
    assert [[phase.dim for phase in c.chunks[0].phases] for c in plan.collectives] == [[1], [0]]


def test_shapes_of_many_groups_are_found_once_per_kind() -> None:
    groups = [np.arange(8 * i, 8 * i + 8, dtype=np.int32) for i in range(512)]
    kinds, shapes = shapes_of(groups, [str(i) for i in range(512)], np.arange(4096, dtype=np.int32), [8, 512])
    assert len(shapes) == 2
    assert set(kinds[1:].tolist()) == {1}
    assert shapes[1] == (8, (SubDim(0, 8, 1),))


@pytest.mark.parametrize("members", [[0, 1, 4, 5], [0, 2, 8, 10], [0, 2, 3, 11], [10, 0, 8, 2]])
@pytest.mark.parametrize("fold", [True, False])
@pytest.mark.parametrize("dim", [ar.Switch(16, bandwidth="100 GB/s", latency="1 us"),
                                 ar.FullyConnected(16, bandwidth="100 GB/s", latency="1 us")])
def test_any_members_of_a_dim_are_one_phase_of_it(tmp_path: Path, members: list[int], fold: bool, dim: LinkDim) -> None:
    def time_of(group: list[int]) -> int:
        (tmp_path / "groups.json").write_text(json.dumps({"1": group}))
        chosen = design(network=ar.Network([dim]), workload=ar.Trace("in memory", groups=str(tmp_path / "groups.json")),
                        collective=ar.Collective(all_reduce=["halving_doubling"], composition="baseline"))
        traces = spmd(lambda b, rank: rank in group and b.coll("sum", CommOp.ALL_REDUCE, 4096, group=1), 16)
        plan = lower(chosen, traces)
        assert [(phase.dim, phase.n) for phase in plan.collectives[0].chunks[0].phases] == [(0, 4)]
        return engine.execute(plan, fold=fold).makespan

    assert time_of(members) == time_of([0, 1, 2, 3])


def test_spare_npus_and_fewer_ranks() -> None:
    def alone(builder: TraceBuilder, rank: int) -> None:
        builder.coll("sum", CommOp.ALL_REDUCE, 4096)

    plan = lower(design(system=ar.System(placement=[3, 2])), spmd(alone, 2))
    assert (plan.npus, len(plan.program_of)) == (4, 2)
    assert plan.collectives[0].chunks[0].phases[0].dim == 0


def test_themis_has_every_chunk_under_way_or_one_per_dim() -> None:
    work = ar.SingleCollective("all_reduce", "1 MB")
    plans = [lower(design(workload=work, collective=ar.Collective(chunks=4, **chosen))).collectives[0]
             for chosen in ({"choice": "none"}, {"composition": "themis"},
                            {"composition": "themis", "active_chunks": 0},
                            {"composition": "themis", "active_chunks": 1})]
    assert [(plan.active_chunks, len(plan.turns)) for plan in plans] == [(1, 0), (0, 0), (0, 0), (1, 2)]
    with pytest.raises(InputError, match=r"active_chunks: 4 with composition themis.*expected 1, or 0 for all"):
        ar.Collective(composition="themis", active_chunks=4)


def test_a_class_splits_by_type_of_npu() -> None:
    def one(builder: TraceBuilder, rank: int) -> None:
        builder.comp("gpu", num_ops=10**9, tensor_size=10)

    kinds = [ar.NpuType(npus="2:4", compute=ar.Roofline(peak="50 TFLOP/s"))]
    plan = lower(design(compute=ar.Roofline(peak="100 TFLOP/s"), memory=ar.Memory(bandwidth="2 TB/s"), npu_types=kinds),
                 spmd(one))
    assert plan.program_of.tolist() == [0, 0, 1, 1]
    assert [int(p.duration[0]) for p in plan.programs] == [10_000_000, 20_000_000]


def test_reductions_at_the_bandwidth_of_each_npu() -> None:
    kinds = [ar.NpuType(npus=[1], memory=ar.Memory(bandwidth="1 GB/s"))]
    network = ar.Network([ar.Ring(4, bandwidth="1 GB/s", latency="0 ns")])
    times = []
    for npu_types in ([], kinds):
        chosen = ar.Design(workload=ar.SingleCollective("reduce_scatter", "4 kB"), network=network, npu_types=npu_types,
                           collective=ar.Collective(choice="none"))
        plan = lower(chosen)
        assert plan.reduce_bandwidth.tolist() == [0.0, 1e9, 0.0, 0.0][:plan.reduce_bandwidth.size]
        outcomes = [engine.execute(plan, fold=fold, pure=pure) for fold, pure in
                    ((True, False), (False, False), (False, True))]
        finish = [outcome.finish[outcome.row].tolist() for outcome in outcomes]
        assert finish[0] == finish[1] == finish[2]
        times.append(finish[0])
    # Three steps of 1,000 bytes, 1 us each. NPU 1 adds what it receives in 3 us; the block that ends at NPU 0 starts at
    # NPU 1, so that nothing is added to it there.
    assert times == [[3_000_000] * 4, [3_000_000, 6_000_000, 6_000_000, 6_000_000]]


@pytest.mark.parametrize("composition", ["blueconnect", "themis"])
def test_where_a_tree_cannot_scatter_the_design_says_what_does(composition: str) -> None:
    """A tree has no reduce_scatter: the steps of an all_reduce that need one take that operation's own algorithm."""
    def phases(**lists: list[str]) -> list[list[tuple[int, str]]]:
        found = design(workload=ar.SingleCollective(op="all_reduce", payload="1 MB"),
                       collective=ar.Collective(composition=composition, chunks=1, **lists))
        return [[(phase.op, phase.schedule.algorithm) for phase in chunk.phases if phase.schedule is not None]
                for plan in lower(found).collectives for chunk in plan.chunks]
    tree, chosen = ["double_binary_tree"] * 2, {"reduce_scatter": ["direct", "ring"], "all_gather": ["ring", "direct"]}
    made = [phase for chunk in phases(all_reduce=tree, **chosen) for phase in chunk]
    assert {name for op, name in made if op == CommOp.ALL_REDUCE} == {"double_binary_tree"}
    assert {name for op, name in made if op == CommOp.REDUCE_SCATTER} == {"direct"}
    assert {name for op, name in made if op == CommOp.ALL_GATHER} == {"ring"}
    able = phases(all_reduce=["halving_doubling"] * 2, **chosen)
    assert {name for chunk in able for _, name in chunk} == {"halving_doubling"}


@pytest.mark.parametrize("name", [op.name.lower() for op in CommOp if op != CommOp.REDUCE_SCATTER_BLOCK])
def test_every_operation_runs_without_traces(name: str) -> None:
    result = ar.simulate(design(workload=ar.SingleCollective(name, "1 MB")))
    assert result.makespan_ps > 0
    assert result.collectives.payload.tolist() == [0 if name == "barrier" else 1_000_000]


def test_a_million_npus_are_a_few_arrays() -> None:
    network = ar.Network([ar.Ring(32, bandwidth="100 GB/s", latency="500 ns")] * 4)
    start = time.process_time()
    plan = lower(design(workload=ar.SingleCollective("all_reduce", "1 GB"), network=network))
    assert time.process_time() - start < 1
    assert len(plan.program_of) == 2**20
    assert len(plan.programs) == len(plan.collectives) == 1


def test_direct_takes_its_window_per_dim() -> None:
    plan = lower(design(workload=ar.SingleCollective("all_to_all", "1 MB"),
                        collective=ar.Collective(all_to_all=["direct:1", "ring"])))
    names = [phase.schedule.algorithm for phase in plan.collectives[0].chunks[0].phases if phase.schedule]
    assert names == ["direct", "ring"]


class TestRefusals:
    def refused(self, make: Any, error: type[InputError], words: str, **sections: Any) -> None:
        with pytest.raises(error, match=words):
            lower(design(**sections), spmd(make))

    def test_a_node_without_a_duration(self) -> None:
        self.refused(lambda b, rank: b.comp("gemm"), TraceError, r"rank 0, node 0 \(gemm\).*no duration")

    def test_a_node_without_operations(self) -> None:
        self.refused(lambda b, rank: b.comp("gemm", tensor_size=4), TraceError, "no num_ops",
                     compute=ar.Roofline(peak="1 TFLOP/s"), memory=ar.Memory(bandwidth="1 TB/s"))

    def test_remote_memory_that_is_not_there(self) -> None:
        self.refused(lambda b, rank: b.memory("load", 4), TraceError, "memory.remote.kind")

    def test_too_few_traces(self) -> None:
        with pytest.raises(InputError, match="traces of 2 ranks; expected 4"):
            lower(design(), spmd(every_kind, 2))

    def test_a_group_beyond_the_ranks(self, tmp_path: Path) -> None:
        chosen = with_groups(tmp_path)
        (tmp_path / "groups.json").write_text('{"1": [0, 9]}')
        with pytest.raises(InputError, match="there is no rank 9"):
            lower(chosen, spmd(grouped))


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [2, 3, 0, 1], [3, 0, 1, 2]])
def test_the_first_of_a_groups_list_is_the_root(order: list[int], tmp_path: Path) -> None:
    """The root of a scatter sends three quarters, and what reaches it of a gather is the same."""
    groups = tmp_path / "groups.json"
    groups.write_text(json.dumps({"1": order}))
    for op, size in ((CommOp.SCATTER, 4000), (CommOp.GATHER, 1000)):
        traces = []
        for _ in range(4):
            builder = TraceBuilder()
            builder.coll("rooted", op, size, group=1)
            traces.append(builder.encode())
        design = ar.Design(workload=ar.Trace("in memory", groups=str(groups)),
                           collective=ar.Collective(scatter=["direct"], gather=["direct"]),
                           network=ar.Network([ar.Switch(4, bandwidth="100 GB/s", latency="1 us")]))
        links = ar.simulate(design, traces=traces_of_bytes(traces)).links
        ends = links.source if op == CommOp.SCATTER else links.target
        assert {int(npu): int(size) for npu, size in zip(ends, links.size, strict=True) if npu >= 0} == {order[0]: 3000}
