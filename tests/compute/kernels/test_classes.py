"""Every operator class that a step has: its own rule, the precision that it has a peak for, on every device."""

import numpy as np
import pytest

from astrarium.compute import kernels
from astrarium.compute.kernels.machine import BYTES
from astrarium.compute.kernels.predict import KINDS, STREAMS
from astrarium.errors import InputError
from astrarium.vocab import KERNELS, Kernel

DEVICES = kernels.names()
HEADS = (2, 32, 32, 4096, 4096, 128, 128)
LATENT = (64, 128, 128, 1, 4096, 576, 512)


def attend(kind, shape, work=1.0):
    batch, heads, _, queries, keys, long, value = shape
    passes = 2.5 if kind == "attention_backward" else 1.0
    return Kernel(kind, "bf16", shape, work, passes * 2.0 * batch * heads * queries * keys * (long + value) * work, 0)


def product(precision, kind="gemm", groups=1, m=8192, n=8192, k=8192):
    return Kernel(kind, precision, (groups, m, n, k), 1.0, 2.0 * m * n * k, 0)


def test_no_class_of_kernels_is_without_a_time():
    assert set(KINDS) | {"host"} == set(KERNELS)


@pytest.mark.parametrize("device", DEVICES)
def test_narrow_products_are_faster_and_below_their_own_peak(device):
    model = kernels.load(device)
    wide, = kernels.latency_ns(model, [product("bf16")])
    for precision in {"fp8", "fp4", "int8"} & set(model.machine.peaks):
        peak = model.machine.peak(precision)
        if peak < model.machine.peak("bf16"):
            continue        # int8 on B300 and GB300
        ns, = kernels.latency_ns(model, [product(precision)])
        assert 0.2 < 2 * 8192**3 / ns / peak < 1.1, precision
        assert ns < 1.02 * wide, precision


@pytest.mark.parametrize("device", DEVICES)
def test_experts_read_their_weights_and_stay_below_the_peak(device):
    model = kernels.load(device)
    one = product("bf16", "grouped_gemm", groups=8, m=32768, n=4096, k=4096)
    few = product("bf16", "grouped_gemm", groups=64, m=128, n=4096, k=4096)
    long, short = kernels.latency_ns(model, [one, few])
    assert 0.15 < one.flops / long / model.machine.peak("bf16") < 1.1
    read = 64 * -np.expm1(-128 / 64) * 2 * 4096 * 4096 / model.machine.bandwidth
    assert 0.9 * read < short < 5 * read


@pytest.mark.parametrize("device", DEVICES)
def test_attention_backward_costs_more_and_a_latent_cache_is_read_once(device):
    model = kernels.load(device)
    forward, backward = kernels.latency_ns(model, [attend("attention", HEADS, 0.5),
                                                   attend("attention_backward", HEADS, 0.5)])
    assert 2.5 < backward / forward < 2.5 * 1.5
    if "mla/bf16" in model.parts:
        ns, = kernels.latency_ns(model, [attend("mla", LATENT)])
        cache, work = 64 * 4096 * 576 * 2 / model.machine.bandwidth, attend("mla", LATENT).flops
        least = max(cache, work / model.machine.peak("bf16"))
        assert least < ns < 10 * least


@pytest.mark.parametrize("device", DEVICES)
def test_streams_of_every_kind_cost_bytes_and_launches_and_no_peak(device):
    model = kernels.load(device)
    for kind in STREAMS:
        one, many, fp32 = kernels.latency_ns(model, [Kernel(kind, precision, (), 1.0, 0.0, 2**28, launches=count)
                                                     for precision, count in (("bf16", 1), ("bf16", 256), ("fp32", 1))])
        assert 0.4 < 2**28 / one / model.machine.bandwidth < 1, kind
        assert one < many, kind
        assert fp32 == one, kind


def test_an_fp8_product_makes_no_fp8_softmax():
    """Kernels have precisions of their own; a device without a peak for one refuses it."""
    a100 = kernels.load("a100_sxm")
    with pytest.raises(InputError, match="fp8"):
        kernels.latency_ns(a100, [product("fp8")])
    assert set(kernels.load("b200_sxm").machine.peaks) < set(BYTES)


@pytest.mark.parametrize(("shape", "measured"), [((256, 32, 1), 267.3), ((64, 8, 1), 16.6), ((1, 32, 4096), 309.1)])
def test_delta_nets_take_their_rows(shape, measured):
    """H200, keys and values of 128: vLLM 0.24.0 decoding, SGLang 0.5.14 in chunks."""
    kernel = Kernel("scan", "bf16", (*shape, 128, 128), 1.0, 1e9, 10**7)
    framework = "vllm" if shape[2] == 1 else "sglang"
    ns, = kernels.latency_ns(kernels.load("h200_sxm"), [kernel], framework)
    assert ns / 1000 == pytest.approx(measured, rel=0.1)
    bytes_alone, = kernels.latency_ns(kernels.load("h200_sxm"), [kernel._replace(shape=())])
    assert bytes_alone < 10_000


def test_sparse_attention_of_prompts_takes_its_rows():
    """SGLang 0.5.14 on H200: GLM-5's 64 heads over 2,048 keys for each query, and its indexer's 32 heads over all."""
    model = kernels.load("h200_sxm")
    few, many, padded = (Kernel("mla", "bf16", (1, heads, 1, queries, 8192, 576, 512), 0.25,
                                2.0 * heads * queries * 2048 * 1088, 0)
                         for heads, queries in ((64, 2048), (64, 8192), (8, 2048)))
    index = Kernel("attention", "bf16", (1, 32, 1, 8192, 8192, 128, 0), 0.5, 8192.0**2 * 32 * 128, 0)
    ns = kernels.latency_ns(model, [few, many, padded, index, index._replace(held="fp8")])
    assert ns[:2] / 1000 == pytest.approx([957.1, 3957.8], rel=0.06)
    assert ns[2] == ns[0]
    assert ns[3:] / 1000 == pytest.approx([289.7, 289.7], rel=0.1)
    assert not kernels.predict.no_rates(kernels.load("a100_sxm"), index)
