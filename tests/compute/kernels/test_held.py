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


def test_products_with_fp8_weights_take_vllms_rows() -> None:
    errors = [abs(us("h100_sxm", product(*shape, "fp8", "fp8")) / measured - 1) for shape, measured in ROWS.items()]
    assert sorted(errors)[2] < 0.1
    assert max(errors) < 0.15


def test_a_framework_that_is_named_keeps_its_rows() -> None:
    kernel = product(16, 4096, 4096, "fp8", "fp8")
    assert us("h100_sxm", kernel, "trtllm") > 1.3 * us("h100_sxm", kernel)      # its scaling takes kernels of its own
    assert us("h100_sxm", kernel._replace(held="")) == us("h100_sxm", kernel, "trtllm")


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
    assert us("h100_sxm", chunk) == us("h100_sxm", chunk, "vllm")
    with pytest.raises(InputError, match="cache in fp8"):
        us("h100_sxm", chunk, "sglang")


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
    assert extra_bytes(kernel) == 0
    assert extra_bytes(kernel._replace(held="")) == 4096**2
