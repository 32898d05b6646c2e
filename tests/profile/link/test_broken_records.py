"""Records of GPU operations that are broken: no correlation id, a duration that cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from astrarium.errors import InputError
from astrarium.vocab import CommOp, NodeKind

from .machine import Json
from .paired import event, kernel, nodes_of, of_events

GENERIC = "ncclDevKernel_Generic(ncclDevComm*, channelMasks, ncclWork*)"


def recorded(ts: float, op: str, elements: int, dtype: str = "Float") -> list[Json]:
    return [event("cpu_op", "record_param_comms", ts, 20, Collective_name=op, In_msg_nelems=elements,
                  Out_msg_nelems=elements, Group_size=8, dtype=dtype, Process_Group_Name="0",
                  Process_Group_Ranks="[0, 1, 2, 3, 4, 5, 6, 7]"),
            event("hip_runtime", "hipExtLaunchKernel", ts + 5, 5, correlation=29000 + round(ts))]


def test_kernels_of_rccl_without_a_correlation_id(tmp_path: Path) -> None:
    """roctracer #100: all of RCCL's kernels have id 0 and one name. They match the records in order."""
    found = of_events(tmp_path, [
        event("cpu_op", "aten::mm", 0, 20), event("hip_runtime", "hipExtLaunchKernel", 5, 5, correlation=1),
        kernel("Cijk_gemm", 12, 40, 1), *recorded(30, "allreduce", 1 << 20), *recorded(60, "_allgather_base", 1024),
        kernel(GENERIC, 60, 100, 0, stream=9), kernel(GENERIC, 165, 50, 0, stream=9),
        event("hip_runtime", "hipDeviceSynchronize", 85, 135, correlation=2)]).report
    assert found.communications == {"all_reduce": 1, "all_gather": 1}
    assert found.launched == 3
    assert "2 communication kernels without a correlation id, matched to record_param_comms in order" in found.missing
    sizes = [(each.attr("comm_type").value, each.attr("comm_size").value, each.duration)
             for each in nodes_of(tmp_path) if each.type == NodeKind.COMM_COLL]
    assert sizes == [(CommOp.ALL_REDUCE, 4 << 20, 100), (CommOp.ALL_GATHER, 4096, 50)]


@pytest.mark.parametrize("events", [
    [*recorded(30, "allreduce", 8), kernel(GENERIC, 60, 10, 0), kernel(GENERIC, 80, 10, 0)],       # one record too few
    [*recorded(30, "allreduce", 8), kernel(GENERIC, 20, 10, 0)],                                   # before its record
    [*recorded(30, "allreduce", 8), kernel("ncclDevKernel_Broadcast(x)", 60, 10, 0)],              # another operation
], ids=["count", "time", "name"])
def test_kernels_that_may_be_others_are_not_matched(tmp_path: Path, events: list[Json]) -> None:
    assert "matched" not in "".join(of_events(tmp_path, events).report.missing)


def test_a_duration_that_runs_over_the_next_kernel(tmp_path: Path) -> None:
    """Hyperloom #1116: 3.4 s of an elementwise kernel whose stream goes on after 33 us."""
    found = of_events(tmp_path, [
        event("cpu_op", "aten::add", 0, 20), event("cuda_runtime", "cudaLaunchKernel", 5, 5, correlation=3),
        event("cpu_op", "aten::mm", 30, 20), event("cuda_runtime", "cudaLaunchKernel", 35, 5, correlation=4),
        kernel("elementwise", 12, 3_400_000, 3), kernel("gemm", 45, 40, 4),
        event("cuda_runtime", "cudaDeviceSynchronize", 55, 32, correlation=5)]).report
    assert found.measured_us == 87
    assert any(line.startswith("1 GPU operations that outlast the next one of their stream") for line in found.missing)
    assert [each.duration for each in nodes_of(tmp_path) if each.name in ("elementwise", "gemm")] == [33, 40]


def test_branches_of_a_graph_may_outlast_each_other(tmp_path: Path) -> None:
    found = of_events(tmp_path, [
        event("cuda_runtime", "cudaGraphLaunch", 0, 5, correlation=3),
        kernel("long", 10, 100, 3), kernel("short", 20, 10, 3)]).report
    assert found.measured_us == 110


def test_a_profile_of_jax_is_refused(tmp_path: Path) -> None:
    """Its events have no categories: nothing of it was read, and the trace was empty."""
    events = [{"ph": "X", "pid": 701, "tid": number, "ts": number, "dur": 5.5, "name": "PjitFunction(f)"}
              for number in range(3)]
    with pytest.raises(InputError, match=r"device\.json: 3 events, none with a category.*StableHLO"):
        of_events(tmp_path, events)
