"""`compute.model: measured` in a design: which nodes take what, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import astrarium as ar
from astrarium.compute import kernels
from astrarium.compute.measured import Measured
from astrarium.engine.plugins import ComputeNodes, LocalMemory
from astrarium.engine.plugins.compute import durations_of
from astrarium.engine.plugins.exam_others import exam_compute
from astrarium.errors import InputError
from astrarium.vocab import Kernel

GEMM = Kernel("gemm", "bf16", (1, 8192, 8192, 8192), 1.0, 2.0 * 8192**3, 3 * 2 * 8192**2)
NORM = Kernel("normalisation", "bf16", (), 1.0, 1e9, 2**30)
HOST = Kernel("host", "fp32", (), 1.0, 0.0, 0)


def rows(numbers: list[int], recorded: int = 0, **more: Any) -> ComputeNodes:
    size = len(numbers)
    return ComputeNodes(np.full(size, 1e12), np.full(size, 1000, np.int64), np.full(size, recorded, np.int64),
                        [f"n{i}" for i in range(size)], np.zeros(size, np.bool_), 0,
                        kernel=np.array(numbers, np.int32), kernels=(GEMM, NORM, HOST), **more)


def times(nodes: ComputeNodes, **settings: Any) -> list[int]:
    return durations_of(Measured(device="h100_sxm", **settings), nodes).tolist()


def test_nodes_take_their_kernel_s_time() -> None:
    product, norm = (kernels.latency_ns(kernels.load("h100_sxm"), [each])[0] for each in (GEMM, NORM))
    assert times(rows([1, 0, 1])) == [round(norm * 1000), round(product * 1000), round(norm * 1000)]


def test_it_sits_the_exam() -> None:
    exam_compute(Measured(device="a100_sxm", unknown="roofline"))


def test_a_lower_clock_slows_products_and_leaves_streams() -> None:
    (product, norm), (slow, same) = times(rows([0, 1])), times(rows([0, 1]), clock=0.8)
    assert slow / product == pytest.approx(1.25, rel=1e-6)
    assert same == norm


def test_a_gap_is_added_to_every_launch() -> None:
    (product, ), (later, ) = times(rows([0])), times(rows([0]), launch_gap="3 us")
    assert later - product == 3_000_000


def test_nodes_without_a_kernel_are_refused_or_take_the_roofline() -> None:
    with pytest.raises(InputError, match="names no kernel"):
        times(rows([0, -1]))
    assert times(rows([-1]), unknown="roofline")[0] == pytest.approx(1e12 / 989e3 * 1000, rel=1e-3)


def test_host_kernels_replay() -> None:
    assert times(rows([2], recorded=7_000_000)) == [7_000_000]
    with pytest.raises(InputError, match="recorded no duration"):
        times(rows([2]))


def test_another_memory_than_the_device_s_is_refused() -> None:
    assert times(rows([1], memory=LocalMemory(3350.0))) == times(rows([1]))
    with pytest.raises(InputError, match="memory of h100_sxm"):
        times(rows([1], memory=LocalMemory(8000.0)))


def test_unknown_devices_and_frameworks_are_refused() -> None:
    with pytest.raises(InputError, match="did you mean 'h100_sxm'"):
        Measured(device="h100_sxn")
    with pytest.raises(InputError, match="did you mean 'vllm'"):
        Measured(device="h100_sxm", framework="vlm")


def test_a_training_step_is_slower_than_its_roofline() -> None:
    def step(compute: Any) -> int:
        workload = ar.Transformer("llama3-8b", tp=2, dp=2, global_batch=4)
        network = ar.Network([ar.Switch(4, bandwidth="450 GB/s", latency="500 ns")])
        design = ar.Design(workload=workload, compute=compute, memory="h100_sxm", network=network)
        return int(ar.simulate(design).makespan)

    assert 1.15 < step("h100_sxm") / step({"like": "h100_sxm", "model": "roofline"}) < 1.8


def test_exact_rows_take_the_place_of_the_fit() -> None:
    pytest.importorskip("aiconfigurator_core")
    from astrarium.compute.kernels.rows import read

    rows = read("h100_sxm", "gemm")
    at = (rows.precision == "bf16") & (rows.variant == "vllm/0.24.0") & (rows.shape[1:] == 8192).all(0)
    assert times(rows_of := rows_with(8192), framework="vllm", rows="exact")[0] == round(rows.ns[at][0] * 1000)
    assert times(rows_of, framework="vllm")[0] != times(rows_of, framework="vllm", rows="exact")[0]
    unmeasured = rows_with(8191)
    assert times(unmeasured, framework="vllm") == times(unmeasured, framework="vllm", rows="exact")


def rows_with(m: int) -> ComputeNodes:
    kernel = Kernel("gemm", "bf16", (1, m, 8192, 8192), 1.0, 2.0 * m * 8192**2, 0)
    return ComputeNodes(np.ones(1), np.ones(1, np.int64), np.zeros(1, np.int64), ["n"], np.zeros(1, np.bool_), 0,
                        kernel=np.zeros(1, np.int32), kernels=(kernel,))
