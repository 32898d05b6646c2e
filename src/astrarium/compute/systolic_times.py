"""Times of nodes under `compute.model: systolic`: which products a kernel is, and what everything else takes."""

from __future__ import annotations

import functools
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from astrarium.compute.arrays import Words, product_cycles
from astrarium.compute.checked import to_ps
from astrarium.compute.kernels.machine import BYTES
from astrarium.compute.kernels.predict import KINDS, STREAMS, extra_bytes
from astrarium.compute.replay import replayed
from astrarium.compute.timed import Work, split, with_operators
from astrarium.errors import InputError, nearest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from astrarium.compute.systolic import Systolic
    from astrarium.engine.plugins.compute import ComputeNodes
    from astrarium.vocab import Kernel

__all__ = ["Product", "durations", "kernel_ns", "products_of"]

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
MATRIX = ("gemm", "grouped_gemm")
KNOBS = {"fp8": "fp8_rate", "fp8_block": "fp8_rate", "int8": "int8_rate", "fp32": "fp32_rate"}


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
    if len(kernel.shape) != (4 if kernel.kind in MATRIX else 7) or min(kernel.shape) < 1:
        raise InputError("kernel.shape", f"{kernel.shape} does not describe a kernel of kind {kernel.kind}",
                         expected=f"{4 if kernel.kind in MATRIX else 7} positive numbers")
    if kernel.kind == "gemm":
        return (Product(*kernel.shape),)
    if kernel.kind == "grouped_gemm":
        groups, m, n, k = kernel.shape
        return (Product(groups, ceil(m / groups), n, k),)
    batch, heads, kv_heads, queries, keys, long, value = kernel.shape
    each, rows = batch * min(heads, kv_heads), queries * ceil(heads / kv_heads)
    scores, mixed = Product(each, rows, keys, long), Product(each, rows, value, keys)
    if kernel.kind != "attention_backward":
        return scores, mixed
    return (scores, Product(each, rows, keys, value), Product(each, keys, value, rows), Product(each, rows, long, keys),
            Product(each, keys, long, rows))


def kernel_ns(setting: Systolic, kernels: Sequence[Kernel], bandwidth: float, latency: float = 0.0) -> F64:
    """Time of each kernel, all of its launches together, ns [kernels].

    Products of a gemm take the arrays' cycles with the stalls of their operands' traffic; attention takes its cycles or
    the bytes that the workload gives it, the longer, since its scores stay on chip; all else its bytes at memory
    bandwidth, or its flops at the vector unit's rate where there is one, the longer.

    Args:
        setting: The model.
        kernels: What the nodes run.
        bandwidth: Of local memory, byte/ns.
        latency: Of an access to it, ns, once a kernel that moves bytes.
    """
    moved = np.array([kernel.bytes for kernel in kernels], np.float64)
    busy, access = np.zeros(len(kernels)), moved / bandwidth
    alone = {number: _checked(setting, kernel) for number, kernel in enumerate(kernels) if kernel.kind not in STREAMS}
    for number, kernel in enumerate(kernels):
        if kernel.kind in STREAMS and setting.vector is not None:
            busy[number] = kernel.flops / float(setting.vector)
    matrix = [number for number in alone if kernels[number].kind in MATRIX]
    fused = [number for number in alone if kernels[number].kind not in MATRIX]
    if matrix:
        busy[matrix] = _matrix_ns(setting, [kernels[at] for at in matrix], [alone[at] for at in matrix], bandwidth)
        access[matrix] = 0.0
    if fused:
        busy[fused] = _fused_ns(setting, [kernels[at] for at in fused], [alone[at] for at in fused])
    found: F64 = np.maximum(busy, access) + np.where(moved > 0, latency, 0.0)
    return found


def _checked(setting: Systolic, kernel: Kernel) -> float:
    """Cycles per ns at a kernel's number format."""
    if kernel.kind not in KINDS:
        raise InputError("kernel.kind", f"{kernel.kind[:60]!r} has no time on systolic arrays",
                         expected="one of " + ", ".join(KINDS), did_you_mean=nearest(kernel.kind, KINDS))
    speed = setting.speed(kernel.precision)
    if speed is None:
        raise InputError(f"compute.{KNOBS.get(kernel.precision, 'model')}",
                         f"{kernel.precision} products have no rate on these arrays",
                         expected="their speed over bf16" if kernel.precision in KNOBS else
                         "a workload with products in bf16, fp16, fp8, int8 or fp32")
    return setting.rate * speed


def _matrix_ns(setting: Systolic, kernels: Sequence[Kernel], rate: Sequence[float], bandwidth: float) -> F64:
    shapes = [products_of(kernel)[0] for kernel in kernels]
    rates, widths = np.array(rate), np.array([BYTES.get(kernel.precision, 2.0) for kernel in kernels])
    batch, m, n, k = np.array(shapes, np.float64).T
    found = product_cycles(setting.geometry, batch, m, n, k, Words(widths), bandwidth / rates) / rates
    whole = np.array([2.0 * np.prod(each, dtype=np.float64) for each in shapes])
    flops = np.array([kernel.flops for kernel in kernels])
    more = np.array([max(0.0, extra_bytes(kernel)) for kernel in kernels])
    times: F64 = found * flops / whole + more / bandwidth
    return times


def _fused_ns(setting: Systolic, kernels: Sequence[Kernel], rate: Sequence[float]) -> F64:
    shapes = [products_of(kernel) for kernel in kernels]
    flat = np.array([each for shape in shapes for each in shape], np.float64)
    owner = np.repeat(np.arange(len(kernels)), [len(shape) for shape in shapes])
    batch, m, n, k = flat.T
    cycles = np.bincount(owner, product_cycles(setting.geometry, batch, m, n, k), len(kernels))
    whole = np.bincount(owner, 2.0 * np.prod(flat, axis=1), len(kernels))
    found: F64 = cycles / np.array(rate) * np.array([kernel.flops for kernel in kernels]) / whole
    return found


@functools.lru_cache(maxsize=64)
def _times(setting: Systolic, kernels: tuple[Kernel, ...], bandwidth: float, latency: float) -> F64:
    """`kernel_ns` of kernels that several classes of ranks share; read-only."""
    found = kernel_ns(setting, kernels, bandwidth, latency)
    found.flags.writeable = False
    return found


def durations(setting: Systolic, nodes: ComputeNodes) -> I64:
    """ps [nodes]; see `Systolic.durations`."""
    bandwidth = nodes.memory.bandwidth
    if bandwidth is None:
        raise InputError("memory.bandwidth", "is missing", expected="what the arrays need: the local bandwidth")
    nodes = with_operators(nodes)
    work, ns = split(nodes, np.zeros(len(nodes.kernels), np.bool_)), np.zeros(len(nodes))
    timed = np.array([kernel.kind != "host" for kernel in nodes.kernels], np.bool_)
    each = np.zeros(len(nodes.kernels))
    if timed.any():
        kernels = tuple(kernel for kernel, known in zip(nodes.kernels, timed, strict=True) if known)
        each[timed] = _times(setting, kernels, bandwidth, nodes.memory.latency)
    ns[work.known] = each[work.number]
    ns[work.unknown] = _unknown_ns(setting, nodes, work, bandwidth)
    found = to_ps(ns)
    found[work.host] = replayed(nodes, setting.missing, work.host)
    return found


def _unknown_ns(setting: Systolic, nodes: ComputeNodes, work: Work, bandwidth: float) -> F64:
    if setting.unknown == "refuse":
        for node in work.unknown[:1].tolist():
            raise nodes.refusal(node, "names no kernel, so no shape is known that arrays could run",
                                "a workload that Astrarium makes, compute.unknown: roofline, or another compute.model")
    moved = np.asarray(nodes.tensor_bytes[work.unknown], np.float64)
    access = moved / bandwidth + np.where(moved > 0, nodes.memory.latency, 0.0)
    found: F64 = np.maximum(np.nan_to_num(nodes.num_ops[work.unknown]) / float(setting.peak), access)
    return found
