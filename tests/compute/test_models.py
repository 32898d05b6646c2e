"""The one protocol of compute models: what they are told of nodes, kernels and memory, and how they refuse a node."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import astrarium as ar
from astrarium.compute.config import Compute
from astrarium.engine.plugins import ComputeNode, ComputeNodes, LocalMemory, PerNode, Plugins
from astrarium.engine.plugins.compute import durations_of
from astrarium.errors import InputError, PluginError
from astrarium.registry import names
from astrarium.vocab import Kernel

GEMM = Kernel("gemm", "bf16", (1, 4096, 4096, 4096), 1.0, 2.0 * 4096**3, 3 * 2 * 4096**2)


def rows(ops: list[float], recorded: list[int], host: list[bool], **more: Any) -> ComputeNodes:
    return ComputeNodes(np.array(ops), np.full(len(ops), 1000, np.int64), np.array(recorded, np.int64),
                        [f"n{i}" for i in range(len(ops))], np.array(host, np.bool_), 0, **more)


def test_the_roofline_times_devices_and_replays_hosts() -> None:
    nodes = rows([1e6, np.nan, 0.0], [0, 7_000_000, 0], [False, True, False], memory=LocalMemory(10.0, 5.0))
    assert durations_of(ar.Roofline(peak="1 TFLOP/s"), nodes).tolist() == [1_000_000, 7_000_000, 105_000]


def test_models_refuse_a_node_by_its_number() -> None:
    nodes = rows([1.0, np.nan], [1_000_000, 0], [False, False], memory=LocalMemory(1.0))
    with pytest.raises(InputError, match="compute node 1: no num_ops, which the roofline needs"):
        durations_of(ar.Roofline(peak="1 TFLOP/s"), nodes)
    with pytest.raises(InputError, match="compute node 1: the trace recorded no duration for it"):
        durations_of(ar.Replay(), nodes)
    assert durations_of(ar.Replay(missing="3 ns"), nodes).tolist() == [1_000_000, 3000]
    host = rows([np.nan, np.nan, 1.0], [1_000_000, 0, 0], [True, True, False], memory=LocalMemory(1.0))
    with pytest.raises(InputError, match="compute node 1: the trace recorded no duration"):
        durations_of(ar.Roofline(peak="1 TFLOP/s"), host)


def test_a_refusal_of_a_model_is_no_fault_of_the_plug_in() -> None:
    class Picky:
        def durations(self, nodes: ComputeNodes) -> Any:
            raise nodes.refusal(0, "no row for it", "a kernel of the table")

    class Broken:
        def durations(self, nodes: ComputeNodes) -> Any:
            return nodes.kernels[10**6]

    with pytest.raises(InputError, match="no row for it; expected a kernel of the table"):
        durations_of(Picky(), rows([1.0], [0], [False]))
    with pytest.raises(PluginError, match=r"Broken: raised .*IndexError"):
        durations_of(Broken(), rows([1.0], [0], [False]))


def test_a_row_knows_its_kernel() -> None:
    nodes = rows([1.0, 1.0], [0, 0], [False, False], kernel=np.array([-1, 0], np.int32), kernels=(GEMM,))
    assert [nodes.node(i).kernel for i in range(2)] == [None, GEMM]
    assert rows([1.0], [0], [False]).node(0).kernel is None


def test_every_model_of_the_registry_has_the_protocol() -> None:
    from astrarium.registry import load

    for name in names("compute"):
        model = load("compute", name)
        assert issubclass(model, Compute)
        assert model.durations is not Compute.durations, name


def _design() -> ar.Design:
    return ar.Design(
        workload=ar.Transformer(model="gpt2-small", tp=2, dp=2, global_batch=4, seq=1024),
        compute=ar.Roofline(peak="312 TFLOP/s"),
        memory=ar.Memory(bandwidth="2039 GB/s", latency="20 ns", capacity="80 GB"),
        network=ar.Network([ar.Switch(4, bandwidth="300 GB/s", latency="500 ns")]))


def test_a_run_tells_a_model_kernels_and_memory() -> None:
    seen: list[ComputeNode] = []

    class Watching:
        def durations(self, nodes: ComputeNodes) -> Any:
            assert nodes.memory == LocalMemory(2039.0, 20.0, 80e9)
            seen.extend(nodes.node(i) for i in range(len(nodes)))
            return np.full(len(nodes), 1000, np.int64)

    ar.simulate(_design(), plugins=Plugins(compute=Watching()))
    assert seen
    for node in seen:
        assert node.kernel is not None
        assert (node.kernel.flops, node.kernel.bytes) == (node.num_ops, node.tensor_bytes)


def test_the_roofline_as_a_plug_in_gives_the_same_integers() -> None:
    def duration(node: ComputeNode) -> int:
        access = 20 + node.tensor_bytes / 2039.0 if node.tensor_bytes else 0.0
        return int(np.rint(max(node.num_ops / 312_000.0, access) * 1000))

    assert (ar.simulate(_design()).makespan_ps
            == ar.simulate(_design(), plugins=Plugins(compute=PerNode(duration))).makespan_ps)


def test_lowering_and_the_engine_name_no_model() -> None:
    """But for ASTRA-sim's rule book, which knows two and has a table of its own."""
    root = Path(ar.__file__).parent
    for path in (*sorted((root / "lower").glob("*.py")), *sorted((root / "engine").rglob("*.py"))):
        if path.name != "native_astra.py":
            assert not re.search(r"import .*\b(Replay|Roofline|DURATIONS)\b", path.read_text()), path
