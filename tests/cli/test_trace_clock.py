"""The clock of a GPU that no longer waits for its host, from what its kernels need of the power limit."""

from __future__ import annotations

import pytest

from astrarium.cli.trace_clock import slower
from astrarium.profile.launches import Operator, Tensor
from astrarium.profile.link.unrecorded import Ran

H100 = "NVIDIA H100 80GB HBM3"


def product(m: int, n: int, k: int, us: float) -> Ran:
    return Ran(Operator("aten::mm", (Tensor((m, k), "BFloat16"), Tensor((k, n), "BFloat16")), None), ("gemm",),
               round(us * 1000))


def ran(count: int) -> list[Ran]:
    """A product of 8192 x 8192 x 8192 in 1,374 us (measured in short runs), and copies of half its time."""
    copy = Ran(Operator("aten::add", (Tensor((8192, 8192), "BFloat16"),) * 2, None), ("add",), 687_000)
    return [product(8192, 8192, 8192, 1374), copy] * count


def test_products_of_a_gpu_that_waits_no_longer() -> None:
    """Alone such products run at 1,360 to 1,410 MHz and take 1.20 to 1.23 times as long; with pauses of half a product
    between them they need less power."""
    span = 10 * 2_061_000
    found = slower(H100, ran(10), 4 * span, span)
    assert found is not None
    assert found.factor[1::2] == pytest.approx(1)
    assert 1.05 < found.factor[0] < 1.2
    assert 1.4 < found.clock < 1.98
    alone = slower(H100, ran(10)[::2], 4 * span, 10 * 1_374_000)
    assert alone is not None
    assert alone.clock == pytest.approx(1.385, abs=0.05)
    assert alone.factor.max() == pytest.approx(1.21, abs=0.02)


def test_what_keeps_its_clock() -> None:
    """A GPU that waits as long without profilers, products that wait for memory, a device that was not measured."""
    span = 10 * 2_061_000
    assert slower(H100, ran(10), 4 * span, 4 * span) is None
    assert slower(H100, [product(16, 8192, 8192, 47.8)] * 100, 20_000_000, 4_780_000) is None
    assert slower("NVIDIA V100", ran(10), 4 * span, span) is None
