"""Communication: names of every library, bytes, groups, and messages between two ranks."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import astrarium as ar
from astrarium.cli.dispatch import dispatch
from astrarium.compute.config import Replay
from astrarium.profile.link import link, write_linked
from astrarium.profile.link.comm import annotated, by_kernel, element_bytes, is_comm_kernel, operation
from astrarium.report.tables.collectives import collective_table
from astrarium.trace import Node, check, groups_of, read_traces
from astrarium.trace.counts import statistics
from astrarium.vocab import CommOp, NodeKind

from .machine import Machine, node
from .paired import columns_of, event, kernel, nodes_of, of_events

KERNELS = {
    "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)": "all_reduce",
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)": "all_reduce",
    "ncclDevKernel_AllGather_RING_LL(ncclDevComm*, unsigned long, ncclWork*)": "all_gather",
    "ncclKernel_ReduceScatter_RING_SIMPLE_Sum_half(ncclWorkElem)": "reduce_scatter",
    "ncclDevKernel_Broadcast_RING_LL(ncclDevComm*, unsigned long, ncclWork*)": "broadcast",
    "ncclDevKernel_Reduce_Sum_bf16_RING_LL(ncclDevComm*, unsigned long, ncclWork*)": "reduce",
    "void ncclAllReduceRingLLKernel_sum_f32(ncclColl)": "all_reduce",
    "ncclSymkDevKernel_AllGather_LL(ncclSymkDevWorkArgs)": "all_gather",
    "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)": None,
    "ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)": None,
}
NAMES = {"allreduce": "all_reduce", "all_reduce": "all_reduce", "allreduce_coalesced": "all_reduce",
         "_allgather_base": "all_gather", "allgather_into_tensor_coalesced": "all_gather", "AllGather": "all_gather",
         "_reduce_scatter_base": "reduce_scatter", "reduce_scatter_tensor_coalesced": "reduce_scatter",
         "all_to_all": "all_to_all", "alltoallv": "all_to_all", "alltoall_base": "all_to_all",
         "broadcast": "broadcast", "_broadcast_oop": "broadcast", "reduce": "reduce", "gather": "gather",
         "scatter": "scatter", "barrier": "barrier", "send": "send", "recv": "recv", "recvAnysource": "recv",
         "wait": None, "init": None, "coalesced": None}


@pytest.mark.parametrize(("name", "op"), KERNELS.items())
def test_kernels(name: str, op: str | None) -> None:
    assert is_comm_kernel(name)
    assert by_kernel(name) == op


@pytest.mark.parametrize("name", ["void at::native::reduce_kernel<512, 1>()", "Memcpy DtoD", "vectorized_gather_kernel",
                                  "void nccl_like()", "triton_red_fused_add",
                                  "void cudnn::bn_bw_1C11_kernel_new<float>"])
def test_kernels_that_do_not_communicate(name: str) -> None:
    assert not is_comm_kernel(name)


@pytest.mark.parametrize(("name", "op"), NAMES.items())
def test_names(name: str, op: str | None) -> None:
    assert operation(name) == op
    assert annotated(f"nccl:{name}") == annotated(f"gloo:{name}") == op
    assert annotated(name) is None


@pytest.mark.parametrize(("dtype", "width"), {"Float": 4, "BFloat16": 2, "Half": 2, "Double": 8, "Long": 8, "Byte": 1,
                                              "Float8_e4m3fn": 1, "ComplexFloat": 8, "torch.int32": 4,
                                              "x": None}.items())
def test_element_bytes(dtype: str, width: int | None) -> None:
    assert element_bytes(dtype) == width


def said(op: str, into: int, out: int, **more: Any) -> dict[str, Any]:
    """What Kineto says of an NCCL kernel."""
    return {"Collective name": op, "In msg nelems": into, "Out msg nelems": out, "dtype": "Half", "Group size": 4,
            "Process Group Name": "1", "Process Group Ranks": "[0, 2, 4, 6]", **more}


def comm_of(folder: Path, name: str, args: dict[str, Any]) -> Node:
    """The node of one kernel with those arguments."""
    made = kernel(name, 20, 30, 5)
    made["args"] |= args
    of_events(folder, [event("cuda_runtime", "cudaLaunchKernel", 5, 5, correlation=5), made])
    return next(each for each in nodes_of(folder) if each.name == name)


def value(found: Node, name: str) -> Any:
    attr = found.attr(name)
    return None if attr is None else attr.value


@pytest.mark.parametrize(("op", "into", "out", "comm", "size"), [
    ("allreduce", 100, 100, CommOp.ALL_REDUCE, 200), ("_allgather_base", 100, 400, CommOp.ALL_GATHER, 200),
    ("_reduce_scatter_base", 400, 100, CommOp.REDUCE_SCATTER, 800), ("all_to_allv", 100, 120, CommOp.ALL_TO_ALL, 200),
    ("broadcast", 100, 100, CommOp.BROADCAST, 200), ("reduce", 100, 100, CommOp.REDUCE, 200),
    ("gather", 100, 400, CommOp.GATHER, 200), ("scatter", 0, 100, CommOp.SCATTER, 800)])
def test_bytes_of_collectives(tmp_path: Path, op: str, into: int, out: int, comm: CommOp, size: int) -> None:
    """`comm_size` is the rank's buffer, of an all_gather or gather its own shard."""
    found = comm_of(tmp_path, "ncclDevKernel_SendRecv(x)", said(op, into, out))
    assert found.type == NodeKind.COMM_COLL
    assert (value(found, "comm_type"), value(found, "comm_size"), value(found, "pg_name")) == (comm, size, "1")
    assert value(found, "is_cpu_op") is False


def test_groups_are_defined(tmp_path: Path) -> None:
    comm_of(tmp_path, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", said("allreduce", 1, 1))
    assert groups_of(read_traces([tmp_path / "w.0.et"])) == {"1": (0, 2, 4, 6)}


@pytest.mark.parametrize(("inputs", "group"), [
    (([[[7, 8, 0, 100, 4, "cuda:0"]], 3, ["5", "mesh_tp"], 0, "allreduce", [], [], 0, 1, 4]), "5"),
    (([[[7, 8, 0, 100, 4, "cuda:0"]], 3, 94058, 0, "allreduce", [], []]), None)])
def test_bytes_and_group_from_the_host_trace(tmp_path: Path, inputs: list[Any], group: str | None) -> None:
    """Old Kineto says nothing of its NCCL kernels; `record_param_comms` around the launch does."""
    nodes = [node(2, "c10d::allreduce_", 1, 2), node(3, "record_param_comms", 2, 3, inputs)]
    name = "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)"
    of_events(tmp_path, [event("cpu_op", "c10d::allreduce_", 0, 20, Record_function_id=2),
                         event("cpu_op", "record_param_comms", 2, 16, Record_function_id=3),
                         event("cuda_runtime", "cudaLaunchKernel", 5, 5, correlation=5), kernel(name, 20, 30, 5)],
              nodes)
    found = next(each for each in nodes_of(tmp_path) if each.name == name)
    assert (value(found, "comm_size"), value(found, "pg_name")) == (400, group)


def rank_of_two(folder: Path, rank: int) -> None:
    """Rank `rank` sends twice to the other and receives twice; the group of the messages is ranks 0 and 1 of 2."""
    m = Machine()
    for turn in range(2):
        for op in ("send", "recv") if rank == 0 else ("recv", "send"):
            peer = {"Dst Rank" if op == "send" else "Src Rank": 1 - rank}
            args = {**said(op, 100 + turn, 100 + turn), "Process Group Name": "0", "Process Group Ranks": "[0, 1]"}
            args |= peer
            m.op(f"nccl:{op}", lambda args=args: m.launch("ncclDevKernel_SendRecv(x)", 10.0, 20, args=args))
    (folder / "h.json").write_bytes(m.host_json())
    info = {"rank": rank, "world_size": 2, "pg_config": [{"pg_name": "0", "ranks": [0, 1]}]}
    (folder / "d.json").write_bytes(m.device_json(distributedInfo=info))
    write_linked(folder / "p", link(folder / "h.json", folder / "d.json"))


def test_messages_meet_across_ranks(tmp_path: Path) -> None:
    for rank in range(2):
        rank_of_two(tmp_path, rank)
    traces = read_traces(tmp_path / "p")
    assert traces.ranks == 2
    assert not [each for each in check(traces) if each.severity == "error"]
    columns, _ = traces.of(0)
    assert columns.tag.tolist() == [[0, 0, 1, 1]]


def test_messages_of_a_group_are_as_many_nodes(tmp_path: Path) -> None:
    """`batch_isend_irecv`: a send and a receive recorded one after the other, one kernel when the group ends."""
    nodes = [node(2, "record_param_comms", 1, 2, ([[7, 8, 0, 100, 4, "cuda:0"]], 3, ["0", "default_pg"], 1, "send")),
             node(3, "record_param_comms", 1, 3, ([[9, 8, 0, 60, 4, "cuda:0"]], 3, ["0", "default_pg"], 2, "recv")),
             node(4, "nccl:coalesced", 1, 4), node(5, "aten::mm", 1, 5)]
    report = of_events(tmp_path, [
        event("cpu_op", "record_param_comms", 0, 5, Record_function_id=2),
        event("cpu_op", "record_param_comms", 6, 5, Record_function_id=3),
        event("user_annotation", "nccl:coalesced", 12, 20, Record_function_id=4),
        event("cuda_runtime", "cudaLaunchKernel", 15, 5, correlation=1), kernel("ncclDevKernel_SendRecv(x)", 30, 10, 1),
        event("cpu_op", "aten::mm", 33, 20, Record_function_id=5),
        event("cuda_runtime", "cudaLaunchKernel", 35, 5, correlation=2), kernel("mm", 50, 10, 2)], nodes).report
    assert report.communications == {"recv": 1, "send": 1}
    assert report.gpu_operations == 2
    found = nodes_of(tmp_path)
    send = next(each for each in found if each.type == NodeKind.COMM_SEND)
    recv = next(each for each in found if each.type == NodeKind.COMM_RECV)
    assert (value(send, "comm_dst"), value(send, "comm_size")) == (1, 400)
    assert (value(recv, "comm_src"), value(recv, "comm_size"), value(recv, "part_of")) == (2, 240, send.id)
    assert send.data_deps == recv.data_deps
    assert {send.id, recv.id} <= set(next(each for each in found if each.name == "mm").data_deps)
    assert statistics(columns_of(tmp_path)).gpu_operations == 2


def test_grouped_collectives_are_one_of_all_bytes(tmp_path: Path) -> None:
    recorded = [node(number, "record_param_comms", 1, number, ([[7, 8, 0, 100, 4, "cuda:0"]], 3, ["1", ""], 0,
                                                               "_allgather_base")) for number in (2, 3)]
    of_events(tmp_path, [
        event("cpu_op", "record_param_comms", 0, 5, Record_function_id=2),
        event("cpu_op", "record_param_comms", 6, 5, Record_function_id=3),
        event("cuda_runtime", "cudaLaunchKernel", 15, 5, correlation=1),
        kernel("ncclDevKernel_AllGather_RING_LL(x)", 30, 10, 1)], recorded)
    found = next(each for each in nodes_of(tmp_path) if each.type == NodeKind.COMM_COLL)
    assert (value(found, "comm_size"), value(found, "pg_name")) == (800, "1")


def test_a_message_whose_other_end_is_unknown_stays_compute(tmp_path: Path) -> None:
    found = comm_of(tmp_path, "ncclDevKernel_SendRecv(x)", said("send", 100, 100))
    assert found.type == NodeKind.COMP
    report = link(None, tmp_path / "device.json").report
    assert any("other rank is not known" in what for what in report.missing)


def test_gloo_on_a_thread_of_its_own(tmp_path: Path) -> None:
    """The main thread posts, waits without an operator, and goes on; the work is on gloo's thread."""
    nodes = [node(2, "c10d::allreduce_", 1, 2, ([[[1, 2, 0, 50, 8, "cpu"]]],)),
             node(3, "gloo:all_reduce", 1, 3, ([1, 2, 0, 50, 8, "cpu"],)), node(4, "aten::add", 1, 4)]
    report = of_events(tmp_path, [
        event("cpu_op", "c10d::allreduce_", 0, 20, Record_function_id=2),
        event("user_annotation", "gloo:all_reduce", 30, 500, tid=2, Record_function_id=3),
        event("cpu_op", "aten::add", 545, 10, Record_function_id=4)], nodes).report
    assert report.communications == {"all_reduce": 1}
    assert report.thread_waits == 1
    found = {each.name: each for each in nodes_of(tmp_path)}
    reduced = found["gloo:all_reduce"]
    assert (reduced.type, value(reduced, "comm_size"), reduced.duration) == (NodeKind.COMM_COLL, 400, 500)
    gap = [each for each in nodes_of(tmp_path) if each.name == "host time outside operators"]
    assert [each.duration for each in gap] == [10, 15]
    assert reduced.data_deps == (gap[0].id,)
    assert reduced.id in gap[1].data_deps
    assert found["aten::add"].data_deps == (gap[1].id,)


def test_what_gloo_runs_for_another_operation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """gloo runs a reduce-scatter as an all-reduce: both are named; on any thread, without times too."""
    tensor = ([1, 2, 0, 50, 8, "cpu"],)
    nodes = [node(2, "c10d::_reduce_scatter_base_", 1, 2, tensor), node(3, "gloo:all_reduce", 2, 3, tensor),
             node(4, "c10d::allreduce_", 1, 4, tensor), node(5, "gloo:all_reduce", 4, 5, tensor)]
    events = [event("cpu_op", "c10d::_reduce_scatter_base_", 0, 20, Record_function_id=2),
              event("user_annotation", "gloo:all_reduce", 30, 500, tid=2, Record_function_id=3),
              event("cpu_op", "c10d::allreduce_", 545, 30, Record_function_id=4),
              event("user_annotation", "gloo:all_reduce", 550, 20, Record_function_id=5)]
    named = {"all_reduce (reduce_scatter)": 1, "all_reduce": 1}
    assert of_events(tmp_path, events, nodes).report.communications == named
    found = [each for each in nodes_of(tmp_path) if each.name == "gloo:all_reduce"]
    assert [value(each, "comm_type") for each in found] == [CommOp.ALL_REDUCE] * 2      # what ran
    assert sorted(each.attr("logical_op") is not None for each in found) == [False, True]
    assert statistics(columns_of(tmp_path)).collective_bytes == dict.fromkeys(named, 400)
    assert link(tmp_path / "host.json", None).report.communications == named
    for verb, words in ((["trace", "show"], "all_reduce (reduce_scatter)"),
                        (["show", "--nodes"], "(reduce_scatter) 400 B")):
        assert dispatch([*verb, str(tmp_path / "w.0.et")]) == 0, verb
        assert words in capsys.readouterr().out, verb
    shutil.copy(tmp_path / "w.0.et", tmp_path / "w.1.et")
    result = ar.simulate(ar.Design(
        workload=ar.Trace(str(tmp_path / "w")), compute=Replay(missing="0 ns"),
        network=ar.Network([ar.Switch(2, bandwidth="1 GB/s", latency="1 us")])))
    assert "all_reduce ran for reduce_scatter" in collective_table(result).title


def test_two_ranks_of_gloo_from_json_without_devices(tmp_path: Path) -> None:
    """A trace without any device event, or any step, links."""
    (tmp_path / "d.json").write_text(json.dumps({"traceEvents": [event("cpu_op", "aten::add", 0, 10)]}))
    report = link(None, tmp_path / "d.json").report
    assert (report.nodes, report.gpu_operations, report.measured_us) == (1, 0, 10.0)


def test_a_host_trace_alone_takes_the_rank_from_the_caller(tmp_path: Path) -> None:
    """`gloo:send` has the tensor, `c10d::send` the other rank."""
    nodes = [node(1, "root", 1, 0), node(2, "c10d::send", 1, 2, ([[[1, 2, 0, 50, 8, "cpu"]]], "<Object>", 1, 0)),
             node(3, "gloo:send", 2, 3, ([1, 2, 0, 50, 8, "cpu"],))]
    (tmp_path / "h.json").write_text(json.dumps({"schema": "1.1.1-chakra.0.0.4", "nodes": nodes}))
    write_linked(tmp_path / "w", link(tmp_path / "h.json", None))
    found = next(each for each in nodes_of(tmp_path) if each.name == "gloo:send")
    assert (found.type, value(found, "comm_dst"), value(found, "comm_size")) == (NodeKind.COMM_SEND, 1, 400)


def test_a_group_that_nobody_recorded_is_said(tmp_path: Path) -> None:
    info = {"rank": 0, "world_size": 4, "pg_config": [{"pg_name": "0", "ranks": [0, 1, 2, 3]},
                                                      {"pg_name": "1", "ranks": [0, 2]}]}
    report = of_events(tmp_path, [event("cpu_op", "gloo:all_reduce", 0, 10)], distributedInfo=info).report
    assert any("1 collectives whose group is not recorded" in what for what in report.missing)


@pytest.mark.parametrize(("name", "expected"), [
    ("void dpsk::ep::internode::dispatch<false, 8, true, 8>(int4*, float*)", "all_to_all"),
    ("void deep_ep::intranode::combine<__nv_bfloat16, (int)8, (int)768>(T1 *)", "all_to_all"),
    ("void deep_ep::internode_ll::dispatch<true, 3, 10, 7168>(void*)", "all_to_all"),
    ("void primus_turbo::deep_ep::intranode::cached_notify_dispatch<8>(int const*)", "barrier"),
    ("void deep_ep::internode::notify_dispatch<false, 8>(int const*)", "barrier"),
    ("void deep_ep::layout::get_dispatch_layout<256>(long const*)", None),
    ("void deep_ep::internode_ll::update_mask_buffer(int*)", None),
    ("void gather<deep_ep::internode::dispatch>(int)", None), ("void step::internode::dispatch<8>(int)", None),
    ("", None)])
def test_kernels_of_expert_parallelism(name: str, expected: str | None) -> None:
    assert by_kernel(name) == expected
    assert is_comm_kernel(name) == (expected is not None)
