"""`compute.model: analytic`: a device from its data sheet."""

from __future__ import annotations

import numpy as np
import pytest

import astrarium as ar
from astrarium.compute import kernels
from astrarium.compute.kernels.power import sustained
from astrarium.engine.plugins import ComputeNodes, LocalMemory
from astrarium.engine.plugins.compute import durations_of
from astrarium.errors import InputError
from astrarium.vocab import Kernel

GEMM = Kernel("gemm", "bf16", (1, 8192, 8192, 8192), 1.0, 2.0 * 8192**3, 3 * 2 * 8192**2)
NORM = Kernel("normalisation", "bf16", (), 1.0, 1e9, 2**30)


def times(compute: ar.Analytic, *some: Kernel, bandwidth: float | None = 5300.0) -> list[int]:
    nodes = ComputeNodes(np.ones(len(some)), np.ones(len(some), np.int64), np.zeros(len(some), np.int64),
                         ["n"] * len(some), np.zeros(len(some), np.bool_), 0, memory=LocalMemory(bandwidth),
                         kernel=np.arange(len(some), dtype=np.int32), kernels=some)
    return durations_of(compute, nodes).tolist()


def test_a_device_is_between_a_third_of_its_sheet_and_the_sheet() -> None:
    product, norm = times(ar.Analytic(peak="1307 TFLOP/s", units=304), GEMM, NORM)
    assert 1 < product / (2e3 * 8192**3 / 1307e3) < 3
    assert 1 < norm / (1e3 * 2**30 / 5300) < 1.4


def test_it_is_near_the_measured_devices() -> None:
    sheet = ar.Analytic(peak="989 TFLOP/s", units=132)
    measured = kernels.latency_ns(kernels.load("h100_sxm"), [GEMM])[0] * 1000
    assert times(sheet, GEMM, bandwidth=3350.0)[0] == pytest.approx(measured, rel=0.2)


def test_twice_the_peak_and_the_bandwidth_is_nearly_twice_as_fast() -> None:
    one, = times(ar.Analytic(peak="500 TFLOP/s", units=100), GEMM, bandwidth=2000.0)
    two, = times(ar.Analytic(peak="1000 TFLOP/s", units=100), GEMM, bandwidth=4000.0)
    assert 1.8 < one / two < 2.2


def test_a_precision_without_a_peak_and_a_missing_bandwidth_are_refused() -> None:
    sheet = ar.Analytic(peak="500 TFLOP/s", units=100)
    with pytest.raises(InputError, match="fp8"):
        times(sheet, GEMM._replace(precision="fp8"))
    with pytest.raises(InputError, match=r"memory\.bandwidth"):
        times(sheet, GEMM, bandwidth=None)


def test_products_run_at_what_a_power_limit_sustains() -> None:
    """L40S by its sheet: 362 TFLOP/s, of which 350 W leave 0.6; its rows have 0.57."""
    def at(**given: object) -> float:
        return times(ar.Analytic(peak="362 TFLOP/s", units=142, **given), GEMM, bandwidth=864.0)[0]  # type: ignore[arg-type]

    limited = at(power="350 W", matrix="mma")
    measured = kernels.latency_ns(kernels.load("l40s"), [GEMM])[0] * 1000
    assert limited == pytest.approx(measured, rel=0.2)
    assert at(power="700 W", matrix="mma") < at() < limited
    assert at(power="3 kW", matrix="wgmma") == at(power="1 kW", matrix="wgmma")
    assert at(power="350 W") == at()


def test_an_instruction_without_a_power_limit_is_refused() -> None:
    with pytest.raises(InputError, match="power"):
        ar.Analytic(peak="362 TFLOP/s", units=142, matrix="mma")
    with pytest.raises(InputError, match="wgmma"):
        sustained(362e3, 350.0, "wgmna")


def test_its_errors_on_devices_left_out_are_stated() -> None:
    found = kernels.generic().parts["gemm/bf16"].error["left out"]
    nvidia = {name: each for name, each in found.items() if name != "b60"}
    assert len(nvidia) >= 8
    assert all(each["data sheet"][0] <= 10 for each in nvidia.values())
    assert all(each["500 rows"][0] <= 5 for each in found.values())
