"""PyTorch's own kernels: products in three layouts, attention's two passes; rows of one H100, PyTorch 2.11."""

import numpy as np
import pytest

from astrarium.compute import kernels
from astrarium.compute.kernels import scaled
from astrarium.compute.kernels.table import along
from astrarium.vocab import Kernel

H100, H200, A100 = map(kernels.load, ("h100_sxm", "h200_sxm", "a100_sxm"))


def product(m, n, k, op="", precision="bf16"):
    return Kernel("gemm", precision, (1, m, n, k), 1.0, 2.0 * m * n * k, 0, op=op)


def attention(kind, batch, heads, kv_heads, length, size, causal=True):
    work = (length + 1) / (2 * length) if causal else 1.0
    flops = 4.0 * batch * heads * length**2 * size * work * (2.5 if kind == "attention_backward" else 1)
    return Kernel(kind, "bf16", (batch, heads, kv_heads, length, length, size, size), work, flops, 0)


def decoding(batch, keys):
    """A layer of Llama-3-8B."""
    return Kernel("attention", "bf16", (batch, 32, 8, 1, keys, 128, 128), 1.0, 4.0 * batch * 32 * keys * 128, 0)


def us(kernel, model=H100, framework="torch"):
    return kernels.latency_ns(model, [kernel], framework)[0] / 1e3


@pytest.mark.parametrize(("kernel", "measured", "within"), [
    (product(4096, 4096, 4096), 173.6, 0.06), (product(8192, 28672, 4096), 2383.9, 0.06),
    (product(16, 8192, 8192), 47.8, 0.1), (product(8192, 8192, 512), 110.0, 0.06),
    (attention("attention", 2, 16, 4, 32768, 128), 13303.9, 0.06),
    (attention("attention", 2, 8, 8, 2048, 64), 36.9, 0.1),
    (attention("attention_backward", 1, 32, 16, 8192, 128, causal=False), 4866.4, 0.12),
    (attention("attention_backward", 1, 2, 2, 4096, 64), 105.3, 0.12),
    (attention("attention", 1, 32, 8, 4096, 64), 183.7, 0.1), (decoding(16, 1024), 29.9, 0.1),
    (attention("attention_backward", 1, 32, 8, 4096, 64), 524.4, 0.1), (product(4096, 8192, 2048), 184.4, 0.05),
    (product(4096, 2048, 8192, "dgrad"), 170.3, 0.05), (product(8192, 2048, 4096, "wgrad"), 180.7, 0.05)])
def test_kernels_take_what_they_take_in_pytorch(kernel, measured, within):
    """In no fit: rows of `short` products, and the last six, kernels of recorded steps."""
    assert us(kernel) == pytest.approx(measured, rel=within)


def test_a_product_takes_the_time_of_its_layout():
    """The gradient of a weight from one token: 304 us, where a forward product of that shape takes under 200."""
    own, forward = product(7616, 24896, 1, "wgrad"), product(7616, 24896, 1)
    assert us(own) == pytest.approx(304.1, rel=0.06)
    assert us(forward) < 0.7 * us(own)
    assert us(own, framework=None) == us(forward, framework=None)


@pytest.mark.parametrize(("framework", "one", "many"), [("torch", 90.3, 260.2), ("torch/2.11/flash", 14.3, 301.0)])
def test_decoding_reads_keys_in_blocks(framework, one, many):
    """us a layer of Llama-3-8B between two contexts, measured in steps: 1,024 and 8,192 of one sequence, 1,024 and
    4,096 of 64. cuDNN reads all keys of a key head in one block."""
    layer = {(batch, keys): us(decoding(batch, keys), framework=framework)
             for batch, keys in ((1, 1024), (1, 8192), (64, 1024), (64, 4096))}
    assert layer[1, 8192] - layer[1, 1024] == pytest.approx(one, rel=0.25)
    assert layer[64, 4096] - layer[64, 1024] == pytest.approx(many, rel=0.06)


@pytest.mark.parametrize(("shape", "measured", "within"), [
    ((5248, 640, 19840), 115.5, 0.12), ((8784, 3712, 18112), 780.7, 0.07), ((2544, 21696, 21312), 1543.2, 0.05),
    ((11840, 4864, 9280), 695.7, 0.05)])
def test_fp8_products_have_no_cast_unless_their_weights_are_quantised(shape, measured, within):
    """Measured: `torch._scaled_mm`. TensorRT-LLM's rows have two kernels of the cast, which a linear layer of an engine
    keeps and a product of training, whose casts the workload counts, has not."""
    alone = product(*shape, precision="fp8")
    for framework in ("torch", None):
        assert us(alone, framework=framework) == pytest.approx(measured, rel=within)
    cast = H100.parts["gemm/fp8"].casts["trtllm/1.3.0rc20"]
    linear = us(alone._replace(held="fp8"), framework="trtllm/1.3.0rc20")
    taken, = along(cast, np.array([shape[0] * shape[2]])) / 1e3
    assert linear - us(alone, framework=None) == pytest.approx(taken)


def test_a_product_of_one_expert_is_a_product():
    one = product(16384, 4096, 28672, precision="fp8")
    alone, two = one._replace(kind="grouped_gemm"), one._replace(kind="grouped_gemm", shape=(2, 32768, 4096, 28672))
    assert kernels.latency_ns(H100, [alone, two]).tolist() == [1e3 * us(each, framework=None) for each in (one, two)]


@pytest.mark.parametrize(("m", "n", "k", "measured"), [(16, 1088, 23040, 56.4), (256, 1024, 10496, 35.2)])
def test_fp8_products_with_a_scale_a_row_never_divide_the_inner_length(m, n, k, measured):
    """18 and 32 tiles on 132 multiprocessors, as RowwiseScaledMM.cu chooses them: cuBLAS takes under half as long."""
    small, tiles = scaled.tiling(np.array([float(m)]), np.array([float(n)]), 132)
    assert (small[0], tiles[0]) == (True, {16: 18, 256: 32}[m])
    base = scaled.base_ns(np.array([[1.0], [m], [n], [k]]), "fp8", H100.machine)[0]
    assert base / 1e3 == pytest.approx(measured, rel=0.2)
    own, other = (us(product(m, n, k, precision="fp8"), framework=name) for name in ("torch/2.11/row", "torch"))
    assert own == pytest.approx(measured, rel=0.15)
    assert other < 0.5 * own


@pytest.mark.parametrize(("op", "kind", "moved", "measured"), [
    ("rms_norm_backward", "normalisation", 3 * 2 * 4096 * 2048, 42.4), ("to_fp8", "quantisation", 3 * 2**26, 712.8),
    ("transpose_copy", "pointwise", 4 * 2**28, 751.1), ("cross_entropy", "normalisation", 8405385216, 5612.8)])
def test_operators_that_move_bytes_take_curves_of_their_own(op, kind, moved, measured):
    """The backward pass of a norm (of a recorded step, in no fit) takes four times its forward pass, an eager cast to
    fp8 nine times one of the tables."""
    kernel = Kernel(kind, "bf16", (), 1.0, 0.0, moved, op=op)
    assert us(kernel) == pytest.approx(measured, rel=0.15)
    assert us(kernel, framework=None) == us(kernel._replace(op=""))
    assert us(kernel, framework=None) < 0.7 * us(kernel)


@pytest.mark.parametrize(("op", "rows", "columns", "moved", "measured"), [
    ("rms_norm", 4096, 2048, 4 * 2**23, 10.8), ("rms_norm_backward", 4096, 2048, 6 * 2**23, 42.4),
    ("rms_norm", 16, 4096, 2**18, 6.3), ("rms_norm", 32768, 8192, 4 * 2**28, 555.1),
    ("embedding_backward", 8192, 4096, 329252864, 645.6), ("embedding_backward", 1024, 4096, 420478976, 188.4)])
def test_operators_that_reduce_rows_take_the_time_of_rows_and_columns(op, rows, columns, moved, measured):
    """The first two are kernels of a recorded step, in no fit. The last two move bytes in the ratio 3 to 4, and
    take three times as long and a third: up to 3,072 tokens PyTorch sorts none."""
    kernel = Kernel("normalisation", "bf16", (rows, columns), 1.0, 0.0, moved, op=op)
    assert us(kernel) == pytest.approx(measured, rel=0.12)
    assert us(kernel, H200) <= us(kernel)
    assert us(kernel, framework=None) == us(kernel._replace(op="", shape=()), framework=None)


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
