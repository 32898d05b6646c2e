"""Experts that tokens choose at random, from rows of balanced choices."""

from __future__ import annotations

import numpy as np
import pytest

from astrarium.arrays import F64
from astrarium.compute.kernels import latency_ns, load
from astrarium.compute.kernels.experts import at_random
from astrarium.compute.kernels.machine import Machine
from astrarium.vocab import Kernel

MODEL = load("h100_sxm")


def layers(tokens: list[int], share: int = 1, skew: float = 0.0) -> F64:
    """Layers of 128 experts of 1536, 8 for a token, as a rank has them."""
    rows = np.array(tokens) * 8 / share
    rest = (np.full(len(rows), each) for each in (3072.0, 4096.0, 1536.0, float(share), skew))
    return np.array([np.full(len(rows), 128 / share), rows, *rest])


def machine() -> Machine:
    return MODEL.machine


@pytest.mark.parametrize(("tokens", "expected"), [(1, 1), (16, 1 - np.exp(-1)), (32, 1 - np.exp(-2)), (4096, 1)])
def test_choices_at_random_leave_experts_out(tokens: int, expected: float) -> None:
    """16 tokens by a stride take each of 128 experts once; at random they take 63 %, whose weights are read."""
    found = at_random(layers([tokens]), "fp8", machine())[0]
    assert found == pytest.approx(expected, abs=0.03)


def test_the_busiest_of_several_ranks_counts() -> None:
    """Of four ranks the busiest has one deviation more: 20.2 + 1.05 x 2.73 of its 32 experts at 16 tokens."""
    one, four = (at_random(layers([16], share), "fp8", machine())[0] for share in (1, 4))
    assert one < four
    assert four == pytest.approx((20.2 + 1.05 * 2.73) / 32, abs=0.03)
    assert at_random(layers([16, 64], 4, skew=1.2), "fp8", machine()).tolist() == [1, 1]


@pytest.mark.parametrize("share", [1, 4])
def test_rows_of_a_power_law_are_a_rival(share: int) -> None:
    """Measured, with an exponent of 1.01, choices leave experts out, too: within a quarter of ours, where balanced rows
    are up to 1.6 times as long."""
    def kernels(skew: int) -> list[Kernel]:
        return [Kernel("grouped_gemm", "fp8", (128 // share, rows, 3072, 4096, 1536, share, skew), 1.0,
                       2.0 * rows * 4096 * 4608, 0) for rows in (tokens * 8 // share for tokens in (8, 16, 32, 64))]

    ours, rival = (latency_ns(MODEL, kernels(skew), "trtllm") for skew in (0, 101))
    assert (np.abs(ours / rival - 1) < 0.25).all()
    assert (np.diff(ours) > 0).all()


def test_rows_of_a_layer_are_the_busiest_ranks() -> None:
    """FLOPs of the busiest rank, and of what runs beside, make no measured layer longer, but a product alone."""
    def kernels(*more: int) -> list[Kernel]:
        flops = 2.0 * 512 * 4096 * (3072 + sum(more[:1]))
        return [Kernel("grouped_gemm", "fp8", (32, 512, 3072, 4096, *more), 1.0, flops * times, 0)
                for times in (1.0, 1.25)]

    layer, product = (latency_ns(MODEL, kernels(*more), "trtllm") for more in ((1536, 4, 101), ()))
    assert layer[1] == layer[0]
    assert product[1] == pytest.approx(1.25 * product[0])
