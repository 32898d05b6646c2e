"""Rotary positions as programs write them in eager PyTorch: the kernels of each, forward and backward.

| form | forward | backward | whose |
|---|---|---|---|
| `halves` | mul, mul, sub, mul, mul, add, cat | mul, mul, neg, mul, add, mul, add, cat, copy | the measured steps |
| `whole` | mul, neg, cat, mul, add | mul, mul, neg, two zeros with a copy, two adds | Hugging Face (rotate_half) |
| `complex` | to_fp32, mul, to_bf16 | the same | Meta's Llama, torchtitan (view_as_complex) |

`cat` leaves heads, then tokens; the others leave tensors as the product gave them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from astrarium.workload.graph.ir import Op, Use

__all__ = ["BACKWARD", "FORWARD", "HALF", "STRIDED", "WIDE", "Kernels", "kernel"]

Kernels = Callable[[Op], tuple[Op, ...]]

HALF = ".half"          # the dim of half a head
STRIDED = "transpose_copy"      # what an elementwise kernel over tensors whose last dims are no rows takes
WIDE = ".wide"          # ends the names of tensors in fp32


def kernel(op: Op, name: str, inputs: Sequence[Use], outputs: Sequence[Use], stream: str, flops: float = 1.0) -> Op:
    """One kernel of an operator; `stream`: see Op."""
    return op._replace(name=f"{op.name}.{name}", kind="point", inputs=tuple(inputs), outputs=tuple(outputs),
                       factor=flops, saves="nothing", per="", stream=stream)


def _half(use: Use, tensor: str = "") -> Use:
    return Use(tensor or use.tensor, (*use.dims[:-1], use.dims[-1] + HALF))


def _angles(op: Op, use: Use, half: str = "") -> tuple[Use, Use]:
    """Cosines and sines of a sequence."""
    dims = use.dims[1], use.dims[-1] + half
    return Use(f"{op.name}.cos", dims), Use(f"{op.name}.sin", dims)


def _halves(op: Op) -> tuple[Op, ...]:
    """(a cos - b sin, b cos + a sin) of halves a and b."""
    x, y = op.inputs[0], op.outputs[0]
    (cos, sin), part = _angles(op, x, HALF), _half(x)
    a, b, c, d, low, high = (_half(x, f"{op.name}.{each}") for each in ("ac", "bs", "bc", "as", "low", "high"))
    return (kernel(op, "mul", (part, cos), (a,), STRIDED), kernel(op, "mul", (part, sin), (b,), STRIDED),
            kernel(op, "sub", (a, b), (low,), "add"), kernel(op, "mul", (part, cos), (c,), STRIDED),
            kernel(op, "mul", (part, sin), (d,), STRIDED), kernel(op, "add", (c, d), (high,), "add"),
            kernel(op, "cat", (low, high), (y,), "cat", 0.0))


def _halves_back(op: Op) -> tuple[Op, ...]:
    dy, dx = op.inputs[0], op.outputs[0]
    (cos, sin), part = _angles(op, dy, HALF), _half(dy)
    b, a, n, s, c = (_half(dy, f"{op.name}.{each}") for each in ("as", "bc", "neg", "bs", "ac"))
    heads = Use(f"{op.name}.heads", dx.dims)
    return (kernel(op, "mul", (part, sin), (b,), STRIDED), kernel(op, "mul", (part, cos), (a,), STRIDED),
            kernel(op, "neg", (part,), (n,), STRIDED), kernel(op, "mul", (n, sin), (s,), STRIDED),
            kernel(op, "add", (a, s), (a,), "add"), kernel(op, "mul", (part, cos), (c,), STRIDED),
            kernel(op, "add", (b, c), (b,), "add"), kernel(op, "cat", (a, b), (heads,), "cat", 0.0),
            kernel(op, "copy", (heads,), (dx,), "transpose_copy", 0.0))


def _whole(op: Op) -> tuple[Op, ...]:
    """x cos + (-b, a) sin."""
    x, y = op.inputs[0], op.outputs[0]
    cos, sin = _angles(op, x)
    first, other, second = (Use(f"{op.name}.{each}", x.dims) for each in ("xc", "rotated", "rs"))
    minus = _half(x, f"{op.name}.neg")
    return (kernel(op, "mul", (x, cos), (first,), "mul"), kernel(op, "neg", (_half(x),), (minus,), STRIDED),
            kernel(op, "cat", (minus, _half(x)), (other,), "cat", 0.0),
            kernel(op, "mul", (other, sin), (second,), "mul"), kernel(op, "add", (first, second), (y,), "add"))


def _whole_back(op: Op) -> tuple[Op, ...]:
    """Gradients of both terms; a slice's is zeros with a part written over them."""
    dy, dx = op.inputs[0], op.outputs[0]
    cos, sin = _angles(op, dy)
    first, rotated, low, high = (Use(f"{op.name}.{each}", dx.dims) for each in ("xc", "rotated", "low", "high"))
    minus = _half(dx, f"{op.name}.neg")
    return (kernel(op, "mul", (dy, sin), (rotated,), "mul"), kernel(op, "mul", (dy, cos), (first,), "mul"),
            kernel(op, "neg", (_half(rotated),), (minus,), STRIDED), kernel(op, "zero", (), (low,), "", 0.0),
            kernel(op, "copy", (minus,), (_half(low),), STRIDED, 0.0), kernel(op, "zero", (), (high,), "", 0.0),
            kernel(op, "copy", (_half(rotated),), (_half(high),), STRIDED, 0.0),
            kernel(op, "add", (low, high), (high,), "add"), kernel(op, "add", (first, high), (dx,), "add"))


def _complex(op: Op) -> tuple[Op, ...]:
    """A product of complex numbers in fp32, forward and backward."""
    x, y = op.inputs[0], op.outputs[0]
    angles = _angles(op, x, HALF)
    wide, done = Use(f"{op.name}.x{WIDE}", x.dims), Use(f"{op.name}.y{WIDE}", x.dims)
    return (kernel(op, "to_fp32", (x,), (wide,), "to_fp32", 0.0),
            kernel(op, "mul", (wide, *angles), (done,), "mul", 6.0),
            kernel(op, "to_bf16", (done,), (y,), "to_bf16", 0.0))


FORWARD: Mapping[str, Kernels] = MappingProxyType({"halves": _halves, "whole": _whole, "complex": _complex})
BACKWARD: Mapping[str, Kernels] = MappingProxyType({"halves": _halves_back, "whole": _whole_back, "complex": _complex})
"""Form -> kernels of its gradient."""
