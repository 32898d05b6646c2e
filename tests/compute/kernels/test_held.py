"""Kernels whose weights or cache memory holds in a narrower format.

Rows: aiconfigurator-core 0.12.0 (NVIDIA, Apache-2.0), of the framework and version that each test names.
"""

from __future__ import annotations

from math import prod

import pytest

from astrarium.compute import kernels
from astrarium.compute.kernels.predict import extra_bytes, no_rates
from astrarium.errors import InputError
from astrarium.vocab import Kernel


def product(m: int, n: int, k: int, precision: str, held: str) -> Kernel:
    return Kernel("gemm", precision, (1, m, n, k), 1.0, 2.0 * m * n * k, 0, 1, held)


def decoding(batch: int, heads: int, keys: int, precision: str, held: str) -> Kernel:
    return Kernel("attention", precision, (batch, heads, 8, 1, keys, 128, 128), 1.0, 4.0 * batch * heads * keys * 128,
                  0, 1, held)


def us(device: str, kernel: Kernel, framework: str | None = None) -> float:
    return float(kernels.latency_ns(kernels.load(device), [kernel], framework)[0]) / 1000


ROWS = {(16, 8192, 8192): 32.85, (64, 8192, 16384): 61.78, (16, 4096, 12288): 25.77, (1, 16384, 16384): 95.23,
        (64, 16384, 16384): 103.2}
"""vLLM 0.24.0's W8A8 products on H100, us; in bf16 the first three take 46.4, 90.1 and 43.9."""


def test_products_with_fp8_weights_take_rows() -> None:
    errors = [abs(us("h100_sxm", product(*shape, "fp8", "fp8"), "vllm") / row - 1) for shape, row in ROWS.items()]
    assert sorted(errors)[2] < 0.1
    assert max(errors) < 0.15


def test_the_fastest_framework_is_that_of_each_shape() -> None:
    """Products, whole layers of experts and attention; of quantised weights it is the default."""
    layer = Kernel("grouped_gemm", "fp8_block", (32, 256, 4096, 7168, 2048, 8, 101), 1.0, 2.0 * 256 * 7168 * 6144, 0, 1,
                   "fp8_block")
    for kernel in (product(16, 4096, 4096, "bf16", ""), product(4096, 8192, 4096, "fp8", "fp8"), layer,
                   decoding(16, 32, 4096, "bf16", "")):
        each = [us("h200_sxm", kernel, name) for name in ("sglang", "vllm", "trtllm")]
        assert us("h200_sxm", kernel, "fastest") == min(each)
        assert not kernel.held or us("h200_sxm", kernel) == min(each)


def test_rows_that_are_artefacts_are_no_servers_kernels() -> None:
    """vLLM's fp8_block rows take 59 to 85 us on H200 up to 1,024 rows; TensorRT-LLM's have 7 us of scaling."""
    model = kernels.load("h200_sxm")
    for framework, precision in (("vllm", "fp8_block"), ("trtllm", "fp8")):
        kernel = product(16, 4096, 4096, precision, precision)
        assert us("h200_sxm", kernel, framework) == us("h200_sxm", kernel, "fastest") < 12
        assert f"{framework} has no rows of gemm at {precision} on h200_sxm but artefacts" in model.stand_in(
            "gemm", precision, framework)
    assert model.stand_in("gemm", "bf16", "vllm") == model.stand_in("gemm", "fp8", "fastest") == ""
    assert "fp8 stands in" in model.stand_in("gemm", "int8", None)


def test_versions_are_numbers() -> None:
    """0.5.14 comes after 0.5.6.post2; a version that measured a few models answers for these alone."""
    model = kernels.load("h100_sxm")
    assert model.candidates("gemm", "bf16", framework="sglang") == ("sglang/0.5.14",)
    assert model.candidates("experts", "w4a16", "int4", "sglang") == ("sglang/0.5.10",)
    assert model.candidates("experts", "w4a16", "int4", "sglang", (384, 7168)) == ("sglang/0.5.14",)


@pytest.mark.parametrize(("held", "shape", "measured"), [
    ("int4", (16, 8192, 8192), 41.98), ("int4", (64, 8192, 16384), 109.57), ("int4", (16, 4096, 12288), 36.86),
    ("int8", (16, 8192, 8192), 61.44), ("int8", (64, 8192, 16384), 110.59), ("int8", (16, 4096, 12288), 47.1)])
def test_weight_only_products_take_their_rows(held: str, shape: tuple[int, int, int], measured: float) -> None:
    """TensorRT-LLM 1.0.0 on A100. Weight bytes over bandwidth would be 14 to 35 us for int4: 1.9 to 3.1 times less."""
    assert us("a100_sxm", product(*shape, "bf16", held)) == pytest.approx(measured, rel=0.08)


@pytest.mark.parametrize(("shape", "wide", "narrow"), [((64, 32, 4096), 365.3, 183.1), ((16, 64, 8192), 193.3, 100.0)])
def test_decoding_reads_an_fp8_cache(shape: tuple[int, int, int], wide: float, narrow: float) -> None:
    """TensorRT-LLM 1.3.0rc20 on H100, whose rows all have queries of 16 bits."""
    assert us("h100_sxm", decoding(*shape, "bf16", "")) == pytest.approx(wide, rel=0.08)
    assert us("h100_sxm", decoding(*shape, "bf16", "fp8")) == pytest.approx(narrow, rel=0.08)
    assert us("h100_sxm", decoding(*shape, "fp8", "")) == us("h100_sxm", decoding(*shape, "bf16", "fp8"))


def test_latent_decoding_and_chunks_of_a_prompt_read_an_fp8_cache() -> None:
    """TensorRT-LLM 1.3.0rc20 on H100, decoding; of the default framework of prompts (SGLang) there are no such rows."""
    latent = Kernel("mla", "bf16", (64, 16, 1, 1, 4096, 576, 512), 1.0, 2.0 * 64 * 16 * 4096 * 1088, 0, 1)
    assert us("h100_sxm", latent) == pytest.approx(119.2, rel=0.06)
    assert us("h100_sxm", latent._replace(held="fp8")) == pytest.approx(75.3, rel=0.06)
    shape = (4, 32, 8, 4096, 4096, 128, 128)
    chunk = Kernel("attention", "bf16", shape, 0.5, float(prod(shape[:2])) * 4096**2 * 256, 0, 1, "fp8")
    assert us("h100_sxm", chunk) == min(us("h100_sxm", chunk, name) for name in ("vllm", "trtllm"))
    assert us("h100_sxm", chunk, "sglang") == us("h100_sxm", chunk)


@pytest.mark.parametrize(("precision", "held", "measured"), [("bf16", "int4", 50.68), ("bf16", "mxfp4", 47.0)])
def test_experts_take_rows_of_their_weights(precision: str, held: str, measured: float) -> None:
    """One row of both products of an expert layer: int4 by SGLang 0.5.10, mxfp4 by vLLM 0.24.0, on H100."""
    groups, m, n, k, second = (8, 64, 2048, 6144, 1024) if held == "int4" else (32, 64, 360, 2880, 180)
    both = [Kernel("grouped_gemm", precision, (groups, m, *shape), 1.0, 2.0 * m * shape[0] * shape[1], 0, 1, held)
            for shape in ((n, k), (k, second))]
    assert sum(us("h100_sxm", each) for each in both) == pytest.approx(measured, rel=0.25)


@pytest.mark.parametrize(("device", "kernel", "message"), [
    ("h100_sxm", product(8, 4096, 4096, "bf16", "int4"), "gemm at w4a16"),
    ("h100_sxm", product(8, 4096, 4096, "bf16", "int8"), "gemm at w8a16"),      # SGLang 0.5.6's rows are left out
    ("a100_sxm", product(8, 4096, 4096, "fp8", "fp8"), "gemm at fp8"),
    ("h100_sxm", product(8, 4096, 4096, "bf16", "fp8"), "held in fp8"),
    ("h100_sxm", product(8, 4096, 4096, "bf16", "bf16 2:4"), "held in bf16 2:4"),
    ("a100_sxm", decoding(8, 32, 1024, "bf16", "fp8"), "cache in fp8"),
    ("h100_sxm", decoding(8, 32, 1024, "bf16", "int8"), "cache in int8")])
def test_formats_without_rows_are_refused(device: str, kernel: Kernel, message: str) -> None:
    with pytest.raises(InputError, match=message):
        us(device, kernel)
    assert "has no rates for" in no_rates(kernels.load(device), kernel)


def test_rows_of_quantised_weights_have_all_that_their_kernel_moves() -> None:
    kernel = product(4096, 4096, 4096, "fp8", "fp8")._replace(bytes=4096**2 * 5)       # activations of 16 bits
    assert extra_bytes([kernel]).tolist() == [0]
    assert extra_bytes([kernel._replace(held="")]).tolist() == [4096**2]


@pytest.mark.parametrize(("heads", "queries", "measured"), [(16, 4096, 205.9), (128, 2048, 379.8), (16, 1024, 34.1)])
def test_prompts_of_latent_attention_take_their_rows(heads: int, queries: int, measured: float) -> None:
    """TensorRT-LLM 1.3.0rc20 on H200, keys of 192 and values of 128; the only framework with such rows there, whatever
    is asked (SGLang's have absorbed matrices, vLLM has none)."""
    flops = float(heads) * queries**2 * 320
    kernel = Kernel("attention", "bf16", (1, heads, heads, queries, queries, 192, 128), 0.5, flops, 0)
    for framework in (None, "fastest", "vllm", "sglang"):
        assert us("h200_sxm", kernel, framework) == pytest.approx(measured, rel=0.06)


@pytest.mark.parametrize(("heads", "rows", "n", "k", "measured"), [
    (16, 64, 512, 128, 4.4), (64, 256, 512, 128, 9.5), (128, 1024, 128, 512, 53.0)])
def test_absorbed_products_take_their_rows(heads: int, rows: int, n: int, k: int, measured: float) -> None:
    """A product for each head: SGLang's, vLLM's and TensorRT-LLM's rows on H200 are within 5 %."""
    kernel = Kernel("gemm", "bf16", (heads, rows, n, k), 1.0, 2.0 * heads * rows * n * k, 0)
    for framework in (None, "fastest", "vllm"):
        assert us("h200_sxm", kernel, framework) == pytest.approx(measured, rel=0.12)
