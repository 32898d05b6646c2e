"""PyTorch's own kernels: products in three layouts, attention's two passes; rows of one H100, PyTorch 2.11."""

import numpy as np
import pytest

from astrarium.compute import kernels
from astrarium.vocab import Kernel

H100, H200, A100 = map(kernels.load, ("h100_sxm", "h200_sxm", "a100_sxm"))


def product(m, n, k, op="", precision="bf16"):
    return Kernel("gemm", precision, (1, m, n, k), 1.0, 2.0 * m * n * k, 0, op=op)


def attention(kind, batch, heads, kv_heads, length, size, causal=True):
    work = (length + 1) / (2 * length) if causal else 1.0
    flops = 4.0 * batch * heads * length**2 * size * work * (2.5 if kind == "attention_backward" else 1)
    return Kernel(kind, "bf16", (batch, heads, kv_heads, length, length, size, size), work, flops, 0)


def us(kernel, model=H100, framework="torch"):
    return kernels.latency_ns(model, [kernel], framework)[0] / 1e3


@pytest.mark.parametrize(("kernel", "measured", "within"), [
    (product(4096, 4096, 4096), 173.6, 0.06), (product(8192, 28672, 4096), 2383.9, 0.06),
    (product(16, 8192, 8192), 47.8, 0.1), (product(8192, 8192, 512), 110.0, 0.06),
    (attention("attention", 2, 16, 4, 32768, 128), 13303.9, 0.06),
    (attention("attention", 2, 8, 8, 2048, 64), 36.9, 0.1),
    (attention("attention_backward", 1, 32, 16, 8192, 128, causal=False), 4866.4, 0.12),
    (attention("attention_backward", 1, 2, 2, 4096, 64), 105.3, 0.12)])
def test_kernels_take_what_they_take_in_pytorch(kernel, measured, within):
    """Rows of `short` products were in no fit."""
    assert us(kernel) == pytest.approx(measured, rel=within)


def test_a_product_takes_the_time_of_its_layout():
    """The gradient of a weight from one token: 304 us, where a forward product of that shape takes under 200."""
    own, forward = product(7616, 24896, 1, "wgrad"), product(7616, 24896, 1)
    assert us(own) == pytest.approx(304.1, rel=0.06)
    assert us(forward) < 0.7 * us(own)
    assert us(own, framework=None) == us(forward, framework=None)


def test_fp8_products_of_pytorch_have_no_cast():
    with_cast, alone = (us(product(4096, 4096, 4096, precision="fp8"), framework=name) for name in ("trtllm", "torch"))
    assert alone < 0.9 * with_cast


def test_a_device_without_rows_says_whose_it_takes():
    kernel = product(8192, 8192, 8192)
    assert us(kernel, H200) == pytest.approx(us(kernel), rel=0.05)         # one chip, another memory
    assert "those of h100_sxm stand in" in H200.stand_in("gemm", "bf16", "torch")
    assert "the fastest others stand in" in A100.stand_in("gemm", "bf16", "torch")
    assert us(kernel, A100) == us(kernel, A100, "fastest")
    assert not H100.stand_in("gemm", "bf16", "torch")


def test_times_grow_with_the_work():
    """From 16 rows on, in every layout."""
    rows = 2 ** np.arange(4, 15)
    for op in ("", "dgrad", "wgrad"):
        shapes = [(4096, 4096, each) if op == "wgrad" else (each, 4096, 4096) for each in rows.tolist()]
        ns = kernels.latency_ns(H100, [product(*shape, op) for shape in shapes], "torch")
        assert (ns[1:] > 0.8 * ns[:-1]).all()
        assert 2 * 4096**2 * rows[-1] / ns[-1] < 1.1 * H100.machine.peak("bf16")
