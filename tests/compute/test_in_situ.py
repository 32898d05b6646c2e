"""Factors on kernels in a long run."""

from __future__ import annotations

import numpy as np
import pytest

from astrarium.compute.in_situ import InSitu, factors_of
from astrarium.compute.measured import Measured
from astrarium.engine.plugins.compute import ComputeNodes
from astrarium.engine.plugins.kernels import tabled
from astrarium.vocab import Kernel

KERNELS = (Kernel("gemm", "bf16", (1, 4096, 4096, 4096), 1.0, 2 * 4096.0**3, 3 * 2 * 4096**2),
           Kernel("gemm", "fp8", (1, 4096, 4096, 4096), 1.0, 2 * 4096.0**3, 4 * 4096**2),
           Kernel("pointwise", "bf16", (), 1.0, 1e6, 10**8),
           Kernel("attention", "bf16", (1, 16, 16, 2048, 2048, 128, 128), 0.5, 0.5 * 4 * 16 * 2048**2 * 128, 10**7))
SETTINGS = InSitu(gemm=1.5, gemm_narrow=1.25, vector=2.0, attention=3.0)


def durations(settings: InSitu) -> np.ndarray:
    count = len(KERNELS)
    nodes = ComputeNodes(np.array([each.flops for each in KERNELS]), np.array([each.bytes for each in KERNELS]),
                         np.zeros(count, np.int64), [""] * count, np.zeros(count, bool), 0,
                         np.arange(count, dtype=np.int32), KERNELS)
    return Measured(device="h100_sxm", in_situ=settings).durations(nodes)


def test_every_class_has_its_factor() -> None:
    assert factors_of(tabled(KERNELS), SETTINGS).tolist() == [1.5, 1.25, 2.0, 3.0]
    assert (durations(SETTINGS) / durations(InSitu())).tolist() == pytest.approx([1.5, 1.25, 2.0, 3.0], rel=1e-6)


def test_a_product_that_adds_to_fp32_takes_the_time_of_its_bytes() -> None:
    from astrarium.compute import kernels

    model, plain = kernels.load("h100_sxm"), KERNELS[0]
    more = plain._replace(bytes=plain.bytes + 6 * 4096**2)
    first, second = kernels.latency_ns(model, [plain, more])
    assert second - first == pytest.approx(6 * 4096**2 / model.machine.bandwidth)
