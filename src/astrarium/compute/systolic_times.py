"""Times of nodes under `compute.model: systolic`: which products a kernel is, and what everything else takes."""

from __future__ import annotations

import functools
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from msgspec import Struct

from astrarium.arrays import F64, I64
from astrarium.compute.arrays import RATES, Arrays, Words, product_cycles
from astrarium.compute.checked import to_ps
from astrarium.compute.kernels.machine import BYTES
from astrarium.compute.kernels.predict import KINDS, STREAMS, extra_bytes
from astrarium.compute.replay import replayed
from astrarium.compute.timed import split, with_operators
from astrarium.errors import InputError, nearest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from astrarium.engine.plugins.compute import ComputeNodes
    from astrarium.vocab import Kernel

__all__ = ["Chip", "Product", "durations", "kernel_ns", "products_of"]

MATRIX = ("gemm", "grouped_gemm")


class Chip(Struct, frozen=True):
    """What times kernels: the arrays, their cycles per ns, the vector unit's flop/ns (None: not said), and (number
    format, products over those in 16 bits)."""

    arrays: Arrays
    rate: float
    vector: float | None
    speeds: tuple[tuple[str, float], ...]

    @property
    def peak(self) -> float:
        """All arrays' multiply-adds in 16 bits, flop/ns."""
        return 2.0 * self.arrays.rows * self.arrays.columns * self.arrays.count * self.rate


class Product(NamedTuple):
    """`batch` products of one shape."""

    batch: int
    m: int
    n: int
    k: int


def products_of(kernel: Kernel) -> tuple[Product, ...]:
    """The products that a kernel runs: one of a gemm; of attention the scores and what they weigh, backward five (the
    scores again, and the gradients of weights, values, queries and keys). Query heads that share a key head are rows of
    one product. Raises InputError for a shape that its kind cannot have."""
    wanted = {"gemm": (4,), "grouped_gemm": (4, 7)}.get(kernel.kind, (7,))
    if len(kernel.shape) not in wanted or min(kernel.shape[:6]) < 1:
        raise InputError("kernel.shape", f"{kernel.shape} does not describe a kernel of kind {kernel.kind}",
                         expected=" or ".join(map(str, wanted)) + " positive numbers")
    if kernel.kind == "gemm":
        return (Product(*kernel.shape),)
    if kernel.kind == "grouped_gemm":
        groups, m, n, k, *more = kernel.shape
        rows = ceil(m / groups)
        return (Product(groups, rows, n, k), *([Product(groups, rows, k, more[0])] if more else []))
    batch, heads, kv_heads, queries, keys, long, value = kernel.shape
    each, rows = batch * min(heads, kv_heads), queries * ceil(heads / kv_heads)
    scores, mixed = Product(each, rows, keys, long), Product(each, rows, value, keys)
    if kernel.kind != "attention_backward":
        return (scores, mixed) if value else (scores,)
    return (scores, Product(each, rows, keys, value), Product(each, keys, value, rows), Product(each, rows, long, keys),
            Product(each, keys, long, rows))


def kernel_ns(chip: Chip, kernels: Sequence[Kernel], bandwidth: float, latency: float = 0.0) -> F64:
    """Time of each kernel, all of its launches together, ns [kernels].

    Products of a gemm take the arrays' cycles with the stalls of their operands' traffic, and never less than the
    kernel's bytes at memory bandwidth. Attention takes its cycles or the bytes that the workload gives it, the longer,
    since its scores stay on chip. All else takes its bytes at memory bandwidth, or its flops at the vector unit's rate
    where there is one, the longer.

    Args:
        chip: The arrays and the vector unit.
        kernels: What the nodes run.
        bandwidth: Of local memory, byte/ns.
        latency: Of an access to it, ns, once a kernel that moves bytes.
    """
    moved = np.array([kernel.bytes for kernel in kernels], np.float64)
    busy, access = np.zeros(len(kernels)), moved / bandwidth
    alone = {number: _checked(chip, kernel) for number, kernel in enumerate(kernels) if kernel.kind not in STREAMS}
    for number, kernel in enumerate(kernels):
        if kernel.kind in STREAMS and chip.vector is not None:
            busy[number] = kernel.flops / chip.vector
    matrix = [number for number in alone if kernels[number].kind in MATRIX]
    fused = [number for number in alone if kernels[number].kind not in MATRIX]
    if matrix:
        busy[matrix] = _matrix_ns(chip, [kernels[at] for at in matrix], [alone[at] for at in matrix], bandwidth)
    if fused:
        busy[fused] = _fused_ns(chip, [kernels[at] for at in fused], [alone[at] for at in fused])
    found: F64 = np.maximum(busy, access) + np.where(moved > 0, latency, 0.0)
    return found


def _checked(chip: Chip, kernel: Kernel) -> float:
    """Cycles per ns at a kernel's number format."""
    if kernel.kind not in KINDS:
        raise InputError("kernel.kind", f"{kernel.kind[:60]!r} has no time on systolic arrays",
                         expected="one of " + ", ".join(KINDS), did_you_mean=nearest(kernel.kind, KINDS))
    speed = dict(chip.speeds).get(kernel.precision)
    if speed is None:
        raise InputError(f"compute.{RATES.get(kernel.precision, 'model')}",
                         f"{kernel.precision} products have no rate on these arrays",
                         expected="their speed over bf16" if kernel.precision in RATES else
                         "a workload with products in bf16, fp16, fp8, int8 or fp32")
    return chip.rate * speed


def _matrix_ns(chip: Chip, kernels: Sequence[Kernel], rate: Sequence[float], bandwidth: float) -> F64:
    shapes = [products_of(kernel)[0] for kernel in kernels]
    rates, widths = np.array(rate), np.array([BYTES[kernel.precision] for kernel in kernels])
    batch, m, n, k = np.array(shapes, np.float64).T
    found = product_cycles(chip.arrays, batch, m, n, k, Words(widths), bandwidth / rates) / rates
    whole = np.array([2.0 * np.prod(each, dtype=np.float64) for each in shapes])
    flops = np.array([kernel.flops for kernel in kernels])
    times: F64 = found * flops / whole + extra_bytes(kernels) / bandwidth
    return times


def _fused_ns(chip: Chip, kernels: Sequence[Kernel], rate: Sequence[float]) -> F64:
    shapes = [products_of(kernel) for kernel in kernels]
    flat = np.array([each for shape in shapes for each in shape], np.float64)
    owner = np.repeat(np.arange(len(kernels)), [len(shape) for shape in shapes])
    batch, m, n, k = flat.T
    cycles = np.bincount(owner, product_cycles(chip.arrays, batch, m, n, k), len(kernels))
    whole = np.bincount(owner, 2.0 * np.prod(flat, axis=1), len(kernels))
    found: F64 = cycles / np.array(rate) * np.array([kernel.flops for kernel in kernels]) / whole
    return found


@functools.lru_cache(maxsize=64)
def _times(chip: Chip, kernels: tuple[Kernel, ...], bandwidth: float, latency: float) -> F64:
    """`kernel_ns` of kernels that several classes of ranks share; read-only."""
    found = kernel_ns(chip, kernels, bandwidth, latency)
    found.flags.writeable = False
    return found


def durations(chip: Chip, nodes: ComputeNodes, roofline: bool, missing: float | None) -> I64:
    """ps [nodes]: kernels as `kernel_ns` has them, the hosts' nodes as recorded or `missing` ns; nodes without a kernel
    by a `roofline`, else they are refused."""
    bandwidth = nodes.memory.bandwidth
    if bandwidth is None:
        raise InputError("memory.bandwidth", "is missing", expected="what the arrays need: the local bandwidth")
    nodes = with_operators(nodes)
    work, ns = split(nodes, np.zeros(len(nodes.kernels), np.bool_)), np.zeros(len(nodes))
    timed = np.array([kernel.kind != "host" for kernel in nodes.kernels], np.bool_)
    each = np.zeros(len(nodes.kernels))
    if timed.any():
        kernels = tuple(kernel for kernel, known in zip(nodes.kernels, timed, strict=True) if known)
        each[timed] = _times(chip, kernels, bandwidth, nodes.memory.latency)
    ns[work.known] = each[work.number]
    ns[work.unknown] = _unknown_ns(chip, nodes, work.unknown, roofline)
    found = to_ps(ns)
    found[work.host] = replayed(nodes, missing, work.host)
    return found


def _unknown_ns(chip: Chip, nodes: ComputeNodes, chosen: I64, roofline: bool) -> F64:
    if not roofline:
        for node in chosen[:1].tolist():
            raise nodes.refusal(node, "names no kernel, so no shape is known that arrays could run",
                                "a workload that Astrarium makes, compute.unknown: roofline, or another compute.model")
    moved = np.asarray(nodes.tensor_bytes[chosen], np.float64)
    access = moved / (nodes.memory.bandwidth or 1.0) + np.where(moved > 0, nodes.memory.latency, 0.0)
    found: F64 = np.maximum(np.nan_to_num(nodes.num_ops[chosen]) / chip.peak, access)
    return found
