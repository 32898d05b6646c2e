"""What ran on the GPU and which operator, with which tensors, launched it: from Kineto, from a pair, from a Chakra
trace that was linked from the pair."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from astrarium.errors import InputError
from astrarium.profile.launches import COMMUNICATION, COPY, Launches, Tensor, arguments, launches_of_trace
from astrarium.profile.link import link, write_linked
from astrarium.profile.link.launches import launches
from astrarium.trace import Metadata, Node, attribute, write_trace

from .machine import node
from .paired import event, kernel

LEFT, RIGHT = Tensor((64, 32), "BFloat16"), Tensor((32, 16), "BFloat16")
SHAPES = {"Input Dims": [[64, 32], [32, 16]], "Input type": ["c10::BFloat16"] * 2, "Concrete Inputs": ["", ""]}


def device(folder: Path, shapes: bool) -> Path:
    """An aten::mm of two kernels inside an annotation, a collective, a copy, and a kernel nobody launched."""
    operator = event("cpu_op", "aten::mm", 10, 40, External_id=5, Record_function_id=3)
    operator["args"] |= SHAPES if shapes else {}
    events = [event("user_annotation", "ProfilerStep#1", 0, 200), operator,
              event("cuda_runtime", "cudaLaunchKernel", 20, 5, correlation=1),
              event("cuda_runtime", "cudaLaunchKernel", 30, 5, correlation=2),
              event("cuda_runtime", "cudaLaunchKernel", 60, 5, correlation=3),
              event("cuda_runtime", "cudaMemcpyAsync", 70, 5, correlation=4),
              kernel("gemm", 40, 30.5, 1), kernel("splitKreduce", 71, 5, 2),
              kernel("ncclDevKernel_AllReduce_Sum_bf16", 80, 20, 3), kernel("lost", 160, 5, 9),
              event("gpu_memcpy", "Memcpy HtoD", 120, 5, tid=7, pid=0, correlation=4, stream=7, device=0)]
    path = folder / "device.json"
    path.write_text(json.dumps({"traceEvents": events}))
    return path


def host(folder: Path, rf_id: int = 3) -> Path:
    mm: dict[str, Any] = node(2, "aten::mm", 1, rf_id)
    mm["inputs"] = {"values": [[1, 2, 0, 2048, 2, "cuda:0"], [3, 4, 0, 512, 2, "cuda:0"]],
                    "shapes": [[64, 32], [32, 16]], "types": ["Tensor(c10::BFloat16)"] * 2}
    path = folder / "host.json"
    path.write_text(json.dumps({"schema": "1.1.1-chakra.0.0.4", "nodes": [node(1, "root", 1, 0), mm]}))
    return path


def operators(found: Launches) -> list[Any]:
    return [found.operator(owner) if owner >= 0 else None for owner in found.owner.tolist()]


def test_kineto_alone(tmp_path: Path) -> None:
    found = launches(None, str(device(tmp_path, shapes=True)))
    assert list(found.other) == ["", "", COMMUNICATION, "", COPY]
    first, second, *rest = operators(found)
    assert first == second
    assert (first.name, first.inputs) == ("aten::mm", (LEFT, RIGHT))
    assert rest == [None, None, None]
    assert (found.end - found.start).tolist() == [30_500, 5000, 20_000, 5000, 5000]
    assert found.tick == 1
    bare = launches(None, str(device(tmp_path, shapes=False)))
    assert operators(bare)[0].inputs is None


def test_the_execution_trace_has_the_shapes(tmp_path: Path) -> None:
    found = launches(str(host(tmp_path)), str(device(tmp_path, shapes=False)))
    assert operators(found)[0].inputs == (LEFT, RIGHT)


def test_a_pair_of_two_runs_is_refused(tmp_path: Path) -> None:
    path = host(tmp_path)
    path.write_text(path.read_text().replace("aten::mm", "aten::bmm"))
    with pytest.raises(InputError, match="recordings of one run"):
        launches(str(path), str(device(tmp_path, shapes=False)))


def test_a_linked_trace_keeps_the_same(tmp_path: Path) -> None:
    path = write_linked(tmp_path / "w", link(host(tmp_path), device(tmp_path, shapes=False)))
    found = launches_of_trace(path)
    by_name = dict(zip(found.name, zip(operators(found), found.other)))
    assert by_name["gemm"][0].inputs == (LEFT, RIGHT)
    assert by_name["gemm"][0] == by_name["splitKreduce"][0]
    assert by_name["ncclDevKernel_AllReduce_Sum_bf16"][1] == COMMUNICATION
    assert by_name["Memcpy HtoD"][1] == COPY
    length = dict(zip(found.name, (found.end - found.start).tolist()))
    assert length["gemm"] == pytest.approx(30_500, abs=1000)
    assert found.tick == 1000


def test_a_trace_that_was_not_recorded_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "w.0.et"
    write_trace(path, Metadata("", (attribute("kind", "synthesised"),)), [Node(1, "x", 4, duration=5)])
    with pytest.raises(InputError, match="was not recorded"):
        launches_of_trace(str(path))


def test_arguments_of_both_profilers() -> None:
    assert arguments([[2, 3], [], [], []], ["c10::Half", "Scalar", "", "Scalar"], ["", "False", "", "0.5"]) == (
        Tensor((2, 3), "Half"), False, None, 0.5)
    assert arguments([[2, 3], [], [], []], ["Tensor(float)", "Bool", "None", "Int"], [[1, 2], True, "<None>", 4]) == (
        Tensor((2, 3), "float"), True, None, 4)
    assert arguments([[2, 3]], ["GenericList[Tensor(float)]"], [[]]) == ("GenericList[Tensor(float)]",)
    assert arguments(None, None, None) is None
    assert arguments([[1]], [], []) is None
