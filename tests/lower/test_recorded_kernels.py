"""Recorded kernels on another device: shapes of the operators that launched them say what they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import astrarium as ar
from astrarium.compute.kernels import load
from astrarium.errors import AstrariumError
from astrarium.trace import TraceBuilder
from astrarium.trace.node import IOInfo, attribute
from astrarium.vocab import NodeKind

HALVES = "['Tensor(c10::BFloat16)', 'Tensor(c10::BFloat16)']"
DOUBLES = "['Tensor(double)', 'Tensor(double)']"


def recording(folder: Path) -> str:
    """Products of bf16 and of fp64, one that took two kernels, a kernel of no operator, in a row; 900 us each."""
    trace, last = TraceBuilder(kind="profiled"), []
    for name, types, kernels in (("aten::mm", HALVES, 1), ("aten::mm", DOUBLES, 1), ("aten::mm", HALVES, 2),
                                 ("aten::what", HALVES, 1)):
        shapes = IOInfo("[0, 0]", "[[8192, 4096], [4096, 4096]]", types)
        call = trace.node(NodeKind.COMP, name, (attribute("is_cpu_op", True),), duration=5, inputs=shapes)
        for _ in range(kernels):
            last = [trace.node(NodeKind.COMP, "nvjet", (attribute("is_cpu_op", False),), after=last, ctrl=[call],
                               duration=900)]
    trace.write(folder / "w.0.et")
    return f"{folder / 'w'}.*.et"


def design(pattern: str, **compute: object) -> ar.Design:
    return ar.Design(workload=ar.Trace(pattern), memory=ar.Memory(bandwidth="3.35 TB/s"),
                     compute=ar.Measured(device="h100_sxm", **compute),
                     network=ar.Network([ar.Switch(1, bandwidth="1 GB/s", latency="0 ns")]))


def test_kernels_of_known_shapes_take_the_device_s_time(tmp_path: Path) -> None:
    pattern = recording(tmp_path)
    result = ar.simulate(design(pattern, unknown="recorded"))
    nodes = result.nodes
    gpu = nodes.lane == nodes.lane[1]
    times = sorted((nodes.end - nodes.start)[gpu].tolist())
    shape = np.array([[1.0], [8192.0], [4096.0], [4096.0]])
    predicted = float(load("h100_sxm").latency_ns("gemm", "bf16", shape)[0])
    assert times[0] == pytest.approx(1000 * predicted, abs=1)
    assert times[1:] == [900_000_000] * 4
    assert times[0] < times[1]


def test_others_are_refused_unless_a_design_says_what_they_take(tmp_path: Path) -> None:
    with pytest.raises(AstrariumError, match=r"names no kernel.*compute\.unknown: recorded or roofline"):
        ar.simulate(design(recording(tmp_path)))
