"""Rows of measured kernels of PyTorch: which kernel each is, and the group that it is judged in.

Columns: kind (gemm, grouped_gemm, attention, attention_backward, stream), op, layout, precision, the kernel's sizes,
us, and of products that ran for long their mean clock (MHz). A weight's gradient is stated with its outputs along m.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from msgspec import Struct

from astrarium.errors import InputError, nearest
from astrarium.vocab import Kernel

__all__ = ["COUNTS", "NEEDED", "NUMBERS", "Asked", "asked_of", "identity", "stated"]

Value = int | float | str
NEEDED = ("kind", "op", "layout", "precision", "us")
COUNTS = frozenset({"m", "n", "k", "groups", "batch", "heads", "kv_heads", "queries", "keys", "head_length", "elements",
                    "bytes", "vocab"})
NUMBERS = frozenset({"us", "clock", "watt", "causal"})
PRODUCT, ATTENTION = ("m", "n", "k"), ("batch", "heads", "kv_heads", "queries", "keys", "head_length")
SIZES: Mapping[str, tuple[str, ...]] = MappingProxyType({
    "gemm": PRODUCT, "grouped_gemm": ("groups", *PRODUCT), "attention": ATTENTION, "attention_backward": ATTENTION,
    "stream": ("bytes",)})
"""Kind -> columns of its sizes."""
FEW = 64        # tokens below which products are judged apart
SHORT, SUSTAINED = "short", "sustained"
LAYOUTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    dict.fromkeys(("gemm", "grouped_gemm"), ("NT", "dgrad", "wgrad")) |
    dict.fromkeys(("attention", "attention_backward"), ("cudnn", "flash")))
OPS: Mapping[str, tuple[str, ...]] = MappingProxyType({
    "gemm": (SHORT, SUSTAINED, "tensor", "row"), "grouped_gemm": (), "attention": ("decode",),
    "attention_backward": ()})
"""Kind -> what `layout` says, and what `op` says beside nothing."""


class Asked(Struct, frozen=True):
    """The `kernel` of a row, its `framework`, the `group` that it is judged in, and whether it is a `sustained` one."""

    kernel: Kernel
    framework: str
    group: str
    sustained: bool = False


def stated(values: Mapping[str, Value], file: str, device: str = "") -> Mapping[str, Value]:
    """The columns of a row with its source, device and case; source and device of a row that states none are the name
    of the file's folder, or the `device` that the file says."""
    folder = Path(file).resolve().parent.name
    sizes = [str(values[name]) for name in SIZES.get(str(values.get("kind")), ()) if name in values]
    if values.get("kind") == "stream":
        sizes = [*(str(values[name]) for name in ("m", "n") if name in values), *sizes]
    words = [str(values[name]) for name in ("kind", "op", "layout", "precision") if name in values]
    mask = ["causal"] if values.get("causal") else []
    case = " ".join([*words, "x".join(sizes), *mask])
    return MappingProxyType({"source": folder, "gpu": device or folder, **values, "case": case})


def identity(values: Mapping[str, Value]) -> int:
    """A number of 32 bits for a row's case."""
    return zlib.crc32(str(values["case"]).encode())


def asked_of(values: Mapping[str, Value]) -> Asked:
    """The kernel that a row measures. Raises InputError for a kind, a layout or an op that is not known, and for sizes
    and times that are missing."""
    kind = str(values.get("kind", ""))
    _known("kind", kind, tuple(SIZES))
    for name in SIZES[kind]:
        if name not in values:
            raise InputError(name, "is not stated", expected=", ".join(SIZES[kind]))
    if not values.get("us"):
        raise InputError("us", "is not stated", expected="the time of one call, above 0")
    if kind in LAYOUTS:
        _known("layout", str(values.get("layout", "")), LAYOUTS[kind])
        _known("op", str(values.get("op", "")), ("", *OPS[kind]))
    if kind == "stream":
        return _stream(values)
    return _attention(kind, values) if kind.startswith("attention") else _product(kind, values)


def _known(column: str, given: str, known: tuple[str, ...]) -> None:
    if given not in known:
        words = [each or "nothing" for each in known]
        raise InputError(column, f"{given[:60]!r} is not known", expected="one of " + ", ".join(words),
                         did_you_mean=nearest(given, known))


def _size(values: Mapping[str, Value], name: str) -> int:
    return int(values.get(name, 0))


def _stream(values: Mapping[str, Value]) -> Asked:
    shape = (_size(values, "m"), _size(values, "n")) if {"m", "n"} <= set(values) else (_size(values, "elements"), 1)
    kernel = Kernel("pointwise", "bf16", shape, 1.0, 0.0, _size(values, "bytes"), op=str(values.get("op", "")))
    return Asked(kernel, "torch", "streams")


def _product(kind: str, values: Mapping[str, Value]) -> Asked:
    m, n, k, groups = (_size(values, name) for name in (*PRODUCT, "groups"))
    layout, op, precision = (str(values.get(name, "")) for name in ("layout", "op", "precision"))
    flops = 2.0 * m * n * k
    if kind == "grouped_gemm":
        grouped = Kernel(kind, precision, (groups, m, n, k), 1.0, flops, 0)
        return Asked(grouped, "torch", f"grouped products {precision}")
    shape = (1, n, m, k) if layout == "wgrad" else (1, m, n, k)
    kernel = Kernel(kind, precision, shape, 1.0, flops, 0, op="" if layout == "NT" else layout)
    if op in (SHORT, SUSTAINED):
        return Asked(kernel, "torch", f"products {op}", op == SUSTAINED)
    few = f", below {FEW} tokens" if (k if layout == "wgrad" else m) < FEW else ""
    return Asked(kernel, "torch/2.11/row" if op == "row" else "torch", f"products {precision} {layout}{few}")


def _attention(kind: str, values: Mapping[str, Value]) -> Asked:
    batch, heads, kv_heads, queries, keys, size = (_size(values, name) for name in ATTENTION)
    decode, backend = values.get("op") == "decode", str(values.get("layout", ""))
    queries = 1 if decode else queries
    if heads % kv_heads:
        raise InputError("kv_heads", f"{kv_heads} does not divide {heads} heads", expected="a divisor of heads")
    if values.get("causal") and queries > keys:
        raise InputError("causal", f"{queries} queries have only {keys} keys", expected="at least as many keys")
    work = (2 * keys - queries + 1) / (2 * keys) if values.get("causal") else 1.0
    flops = 4.0 * batch * heads * queries * keys * size * work * (2.5 if kind == "attention_backward" else 1.0)
    shape = batch, heads, kv_heads, queries, keys, size, size
    kernel = Kernel(kind, str(values.get("precision", "bf16")), shape, work, flops, 0)
    name = "decode attention" if decode else kind.replace("attention_backward", "attention backward")
    return Asked(kernel, f"torch/2.11/{backend}", f"{name} {backend}")
