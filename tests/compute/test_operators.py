"""Calls of PyTorch's operators to kernels, and why some are none."""

from __future__ import annotations

import pytest

from astrarium.compute.operators import kernel_of
from astrarium.profile.launches import Argument, Operator, Tensor, arguments


def t(*shape: int, of: str = "BFloat16") -> Tensor:
    return Tensor(shape, of)


def call(name: str, *inputs: Argument) -> Operator:
    return Operator(f"aten::{name}", inputs, None)


@pytest.mark.parametrize(("given", "precision", "shape"), [
    (call("mm", t(64, 32), t(32, 16)), "bf16", (1, 64, 16, 32)),
    (call("mm", t(64, 32), t(32, 16), t(64, 16)), "bf16", (1, 64, 16, 32)),      # mm.out
    (call("addmm", t(16), t(64, 32, of="Half"), t(32, 16, of="Half"), 1, 1), "fp16", (1, 64, 16, 32)),
    (call("bmm", t(4, 64, 32), t(4, 32, 16)), "bf16", (4, 64, 16, 32)),
    (call("baddbmm", t(4, 64, 16), t(4, 64, 32), t(4, 32, 16), 0, 1), "bf16", (4, 64, 16, 32)),
    (call("linear", t(2, 8, 32), t(16, 32), None), "bf16", (1, 16, 16, 32)),
    (call("_scaled_mm", t(64, 32, of="Float8_e4m3fn"), t(32, 16, of="Float8_e4m3fn"), t(64, 1, of="float"),
          t(1, 16, of="float")), "fp8", (1, 64, 16, 32)),
])
def test_products(given: Operator, precision: str, shape: tuple[int, ...]) -> None:
    found = kernel_of(given, ["some_kernel"])
    assert not isinstance(found, str)
    assert (found.kind, found.precision, found.shape) == ("gemm", precision, shape)
    batch, m, n, k = shape
    assert found.flops == 2 * batch * m * n * k


def test_attention_as_kineto_prints_it() -> None:
    """No window and no ragged batch: as None, or as -1."""
    shapes: list[list[int]] = [[1, 640, 2, 64]] * 3 + [[]] * 12
    types = ["c10::BFloat16"] * 3 + [""] * 2 + ["Scalar"] * 6 + [""] * 4
    texts = [""] * 5 + ["640", "640", "0.", "False", "False", "0.125"]
    for window in ("", "-1"):
        found = kernel_of(Operator("aten::_flash_attention_forward",
                                   arguments(shapes, types, [*texts, window, window, "", ""]), None), [])
        assert not isinstance(found, str)
        assert (found.shape, found.work) == ((1, 2, 2, 640, 640, 64, 64), 1.0)


def test_attention() -> None:
    q, kv = t(2, 128, 8, 64), t(2, 256, 4, 64)      # batch, sequence, heads, length
    forward = kernel_of(call("_flash_attention_forward", q, kv, kv, None, None, 128, 256, 0.0, True, False), [])
    assert not isinstance(forward, str)
    assert forward.shape == (2, 8, 4, 128, 256, 64, 64)
    assert forward.work == pytest.approx((512 - 128 + 1) / 512)
    backward = kernel_of(call("_flash_attention_backward", q, q, kv, kv, q, q, None, None, 128, 256, 0.0, True, None,
                              None), [])
    assert not isinstance(backward, str)
    assert (backward.kind, backward.flops) == ("attention_backward", 2.5 * forward.flops)
    absent = ("nullptr (uninitialized)",) * 3
    seen = arguments([[2, 8, 128, 64]] * 5 + [[]] * 10, ["c10::BFloat16"] * 5 + ["long"] * 3 + [*absent, "Int", "Int",
                     "Double", "Bool"], [[0]] * 11 + [128, 128, 0.0, True])
    cudnn = kernel_of(Operator("aten::_cudnn_attention_backward", seen, None), [])
    assert not isinstance(cudnn, str)
    assert (cudnn.kind, cudnn.shape) == ("attention_backward", (2, 8, 8, 128, 128, 64, 64))
    heads_first = kernel_of(call("_scaled_dot_product_cudnn_attention", t(2, 8, 128, 64), t(2, 4, 256, 64),
                                 t(2, 4, 256, 32), None, True, 0.0, False), [])
    assert not isinstance(heads_first, str)
    assert (heads_first.shape, heads_first.work) == ((2, 8, 4, 128, 256, 64, 32), 1.0)


@pytest.mark.parametrize(("given", "moved"), [
    (call("add", t(4, 8), t(4, 8), 1), 3 * 64), (call("mul", t(4, 8), 0.5), 2 * 64),
    (call("add", t(4, 8), t(4, 8, of="float"), 1), 64 + 128 + 128), (call("gelu", t(4, 8), "none"), 2 * 64),
    (call("mul", t(4, 8), t(4, 8), t(4, 8)), 3 * 64),                        # mul.out
    (call("zero_", t(4, 8)), 64), (call("_softmax", t(4, 8), -1, False), 2 * 64),
    (call("native_layer_norm", t(4, 8), "[8]", t(8), t(8), 1e-5), 2 * 64 + 32),
])
def test_streams(given: Operator, moved: int) -> None:
    found = kernel_of(given, [])
    assert not isinstance(found, str)
    assert (found.kind, found.bytes) == ("pointwise", moved)
    assert found.op == {"native_layer_norm": "layer_norm"}.get(given.name[6:], given.name[6:].rstrip("_"))


@pytest.mark.parametrize(("given", "why"), [
    (call("cat", t(4, 8)), "no rule makes a kernel"),
    (call("ca\nt"), r"operator aten::ca\nt, which"),      # it becomes a comment of a TOML file
    (Operator("aten::mm", None, None), "shapes were not recorded"),
    (call("mm", t(64, 32), 3), "no two matrices"),
    (call("mm", t(64, 32), t(31, 16)), "do not fit"),
    (call("mm", t(64, 32), t(32, 16, of="float")), "on BFloat16 and float"),
    (call("mm", t(64, 32, of="float"), t(32, 16, of="float")), "in TF32 or not"),
    (call("_scaled_mm", t(64, 256, of="Float8_e4m3fn"), t(256, 16, of="Float8_e4m3fn"), t(64, 2, of="float"),
          t(2, 16, of="float")), "parts of a row"),
    (call("_flash_attention_forward", t(256, 8, 64), t(256, 8, 64), t(256, 8, 64), t(3, of="int"), t(3, of="int"),
          128, 128, 0.0, True, False), "4 dims"),
    (call("_efficient_attention_forward", *[t(2, 8, 4, 16)] * 4, None, None, None, None, 0.0, 1), "with a bias"),
    (call("_efficient_attention_forward", t(2, 8, 4, 16), *[t(2, 16, 4, 16)] * 2, None, None, None, None, None, 0.0, 1),
     "ends at the last query"),
    (call("_flash_attention_forward", *[t(2, 8, 4, 16)] * 3, None, None, 8, 8, 0.0, None, False),
     "does not say its mask"),
    (call("_flash_attention_forward", *[t(2, 8, 4, 16)] * 3, None, None, 8, 8, 0.0, True, False, 0.1, 4.0, 0.0),
     "a window"),
    (call("_softmax", t(4, 8), -1, True), "type of its result"),
    (call("add", t(0, 8), t(0, 8), 1), "nothing to do"),
])
def test_what_is_no_kernel_says_why(given: Operator, why: str) -> None:
    found = kernel_of(given, ["nvjet_kernel"])
    assert isinstance(found, str)
    assert why in found


def test_fp32_products_are_known_by_their_kernels() -> None:
    given = call("mm", t(64, 32, of="float"), t(32, 16, of="float"))
    found = kernel_of(given, ["ampere_sgemm_128x64_tn"])
    assert not isinstance(found, str)
    assert found.precision == "fp32"
