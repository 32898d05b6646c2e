"""PyTorch's operators, with the tensors of a call, to kernels; and why a call has none.

Positions of arguments: PyTorch's aten/src/ATen/native/native_functions.yaml. A name that ends in `_` writes to its
first argument.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from astrarium.errors import short_name
from astrarium.profile.launches import ELEMENT_BYTES, Argument, Operator, Tensor
from astrarium.vocab import Kernel

__all__ = ["kernel_of"]

PRECISION = {"float": "fp32", "Half": "fp16", "BFloat16": "bf16", "signed char": "int8", "Float8_e4m3fn": "fp8",
             "Float8_e5m2": "fp8", "Float8_e4m3fnuz": "fp8", "Float8_e5m2fnuz": "fp8"}

PRODUCTS = {"aten::mm": 0, "aten::bmm": 0, "aten::matmul": 0, "aten::linear": 0, "aten::_int_mm": 0,
            "aten::_scaled_mm": 0, "aten::addmm": 1, "aten::baddbmm": 1, "aten::_addmm_activation": 1}
"""Operator -> where its two operands begin."""


class Attention(NamedTuple):
    """`first`: position of the queries, before keys and values; `length`: dim of a tensor along the sequence;
    `absent`: positions that describe ragged batches, windows, or add a bias; `causal`: position of the mask; `low`: a
    causal mask ends at the last key, not at the last query."""

    first: int
    length: int
    absent: tuple[int, ...]
    causal: int
    low: bool = False
    kind: str = "attention"


ATTENTION = {
    "aten::_flash_attention_forward": Attention(0, 1, (3, 4, 11, 12, 13, 14), 8, True),
    "aten::_flash_attention_backward": Attention(1, 1, (6, 7, 15, 16), 11, True, "attention_backward"),
    "aten::_efficient_attention_forward": Attention(0, 1, (3, 4, 5, 12, 13), 9),
    "aten::_efficient_attention_backward": Attention(1, 1, (4, 6, 7, 18), 14, kind="attention_backward"),
    "aten::_cudnn_attention_forward": Attention(0, 2, (3, 4, 5, 13, 14), 10),
    "aten::_cudnn_attention_backward": Attention(1, 2, (8, 9, 10), 14, kind="attention_backward"),
    "aten::_scaled_dot_product_cudnn_attention": Attention(0, 2, (3,), 6),
    "aten::_scaled_dot_product_cudnn_attention_backward": Attention(1, 2, (8, 9, 10), 14, kind="attention_backward"),
}

STREAMS = {f"aten::{name}": operands for operands, names in {
    0: ("fill_", "zero_"),
    1: ("neg", "exp", "log", "sqrt", "rsqrt", "pow", "relu", "relu_", "clamp_min", "clamp_min_", "sigmoid", "tanh",
        "gelu", "silu", "silu_", "_softmax", "_log_softmax"),
    2: ("add", "add_", "sub", "sub_", "mul", "mul_", "div", "div_", "threshold_backward", "sigmoid_backward",
        "tanh_backward", "gelu_backward", "silu_backward", "_softmax_backward_data", "_fused_rms_norm"),
    3: ("native_layer_norm", "addcmul", "addcmul_", "addcdiv", "addcdiv_")}.items() for name in names}
"""Operators that write one result as large as their largest tensor -> how many tensors they read at most, each once."""
NAMED = {"_fused_rms_norm": "rms_norm", "native_layer_norm": "layer_norm"}
"""Operators whose measured rows have another name."""
WIDENING = ("aten::_softmax", "aten::_log_softmax")     # may write fp32: their third argument says so


def kernel_of(call: Operator, launched: Sequence[str]) -> Kernel | str:
    """The kernel that a call is, or why it is none that is known; `launched`: names of what ran on the GPU for it."""
    if call.name not in PRODUCTS and call.name not in ATTENTION and call.name not in STREAMS:
        return f"operator {short_name(call.name)}, which no rule makes a kernel of"
    if call.inputs is None:
        return f"operator {call.name}, whose shapes were not recorded"
    if call.name in STREAMS:
        return _stream(call)
    if call.name in PRODUCTS:
        return _product(call, launched)
    return _attention(call.name, call.inputs, ATTENTION[call.name])


def _product(call: Operator, launched: Sequence[str]) -> Kernel | str:
    given = call.inputs or ()
    left, right = _tensors(given[PRODUCTS[call.name]:PRODUCTS[call.name] + 2]) or (None, None)
    if left is None or right is None or len(left.shape) < 2 or len(right.shape) < 2:
        return f"operator {call.name}, whose operands are no two matrices"
    precision = PRECISION.get(left.type)
    if precision is None or precision != PRECISION.get(right.type):
        return f"operator {call.name} on {left.type} and {right.type}"
    if precision == "fp32" and not any("sgemm" in name for name in launched):
        return f"operator {call.name} on fp32 operands, in TF32 or not: their kernels do not say"
    if call.name == "aten::_scaled_mm" and not _scales(given[2:4]):
        return f"operator {call.name} with scales for parts of a row"
    k, n = right.shape[-2:] if call.name != "aten::linear" else right.shape[::-1]
    batch = prod(right.shape[:-2])
    rows = prod(left.shape[:-1])
    if left.shape[-1] != k or (batch > 1 and left.shape[:-2] != right.shape[:-2]) or not rows * n * k * batch:
        return f"operator {call.name}, whose operands' shapes do not fit"
    return Kernel("gemm", precision, (batch, rows // batch, n, k), 1.0, 2.0 * rows * n * k, 0)


def _scales(given: Sequence[Argument]) -> bool:
    """Whether fp8 operands have one scale each, or one for each row and column."""
    return all(isinstance(each, Tensor) and prod(each.shape) in (1, max(each.shape, default=1)) for each in given)


def _attention(name: str, given: tuple[Argument, ...], form: Attention) -> Kernel | str:
    parts = _tensors(given[form.first:form.first + 3])
    if len(given) <= form.causal or parts is None or any(len(each.shape) != 4 for each in parts):
        return f"operator {name}, whose queries, keys and values are not recorded as tensors of 4 dims"
    if any(given[place] not in (None, -1) for place in form.absent if place < len(given)):
        return f"operator {name} with a bias, a window or sequences of several lengths"
    q, k, v = parts
    mask, precision, along = given[form.causal], PRECISION.get(q.type), form.length
    if mask not in (0, 1, 2) or precision is None:
        return f"operator {name}, " + (f"on {q.type}" if precision is None else "which does not say its mask")
    batch, heads, queries, keys = q.shape[0], q.shape[3 - along], q.shape[along], k.shape[along]
    if mask and queries != keys and not (form.low or mask == 2):
        return f"operator {name} with a causal mask that ends at the last query"
    work = (2 * keys - queries + 1) / (2 * keys) if mask else 1.0
    flops = 2.0 * batch * heads * queries * keys * (q.shape[3] + v.shape[3]) * work
    shape = (batch, heads, k.shape[3 - along], queries, keys, q.shape[3], v.shape[3])
    if not prod(shape):
        return f"operator {name}, which has nothing to do"
    return Kernel(form.kind, precision, shape, work, flops * (2.5 if form.kind != "attention" else 1.0), 0)


def _stream(call: Operator) -> Kernel | str:
    given = call.inputs or ()
    if call.name in WIDENING and given[2:3] != (False,):
        return f"operator {call.name}, which does not say the type of its result"
    parts = [each for each in given if isinstance(each, Tensor)][:max(1, STREAMS[call.name])]
    if not parts or any(each.type not in ELEMENT_BYTES for each in parts):
        return f"operator {call.name}, whose operands have types that are not known"
    sizes = [prod(each.shape) for each in parts]
    widths = [ELEMENT_BYTES[each.type] for each in parts]
    read = sum(size * width for size, width in zip(sizes, widths)) if STREAMS[call.name] else 0
    if not max(sizes):
        return f"operator {call.name}, which has nothing to do"
    name = call.name.removeprefix("aten::").rstrip("_")
    return Kernel("pointwise", "bf16", (), 1.0, 0.0, read + max(sizes) * max(widths), op=NAMED.get(name, name))


def _tensors(given: Sequence[Argument]) -> tuple[Tensor, ...] | None:
    found = tuple(each for each in given if isinstance(each, Tensor))
    return found if len(found) == len(given) else None
