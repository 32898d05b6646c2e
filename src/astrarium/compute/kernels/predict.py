"""Times of kernels on a device: which part of its model answers for which kind, and by which rule."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from astrarium.compute.kernels.backward import slowdown
from astrarium.compute.kernels.machine import BYTES, Machine
from astrarium.compute.kernels.model import FAMILIES, DeviceModel
from astrarium.compute.kernels.table import F64
from astrarium.errors import InputError, nearest
from astrarium.vocab import Kernel

__all__ = ["KINDS", "STREAMS", "extra_bytes", "latencies", "latency_ns", "no_rates", "normalised", "stream_ns"]

STREAMS = ("normalisation", "pointwise", "embedding", "optimizer", "quantisation", "scan")
"""Kinds that move bytes and compute little."""
KINDS = ("gemm", "grouped_gemm", "attention", "attention_backward", "mla", *STREAMS)


def stream_ns(machine: Machine, moved: F64) -> F64:
    """Time of kernels that move `moved` bytes [n]: between measured sizes a power of the size, beyond them in
    proportion; a device without measured sizes takes its launch time and its whole bandwidth."""
    if not machine.stream:
        return machine.launch + moved / machine.bandwidth
    size, ns = np.array(machine.stream).T
    inside = np.exp2(np.interp(np.log2(np.maximum(moved, 1.0)), np.log2(size), np.log2(ns)))
    beyond: F64 = np.where(moved > size[-1], ns[-1] * moved / size[-1], inside)
    return beyond


def _product(kernel: Kernel) -> tuple[str, tuple[float, ...], float]:
    """(family, shape columns, flops of one launch of that shape)."""
    wanted = 4 if "gemm" in kernel.kind else 7
    if len(kernel.shape) != wanted or min(kernel.shape) < 1:
        raise InputError("kernel.shape", f"{kernel.shape} does not describe a kernel of kind {kernel.kind}",
                         expected=f"{wanted} positive numbers")
    if kernel.kind == "gemm":
        return "gemm", tuple(map(float, kernel.shape)), 2.0 * float(np.prod(kernel.shape, dtype=float))
    if kernel.kind == "grouped_gemm":
        groups, m, n, k = kernel.shape
        return "experts", (groups, m, n, k, 0.0, 1.0, 0.0), 2.0 * m * n * k
    batch, heads, _, queries, keys, long, value = kernel.shape
    flops = 2.0 * batch * heads * queries * keys * (long + value) * kernel.work
    cache = BYTES["bf16"] if kernel.precision not in BYTES else BYTES[kernel.precision]
    if kernel.kind == "mla":
        return "mla", (*kernel.shape, kernel.work, cache), flops
    return ("decode" if queries == 1 else "attention"), (*kernel.shape, kernel.work, cache), flops


def extra_bytes(kernel: Kernel) -> float:
    """Bytes that a product moves beyond its operands and a result of 16 bits: a gradient in fp32, or what is there
    already and is read to be added to."""
    if kernel.kind not in ("gemm", "grouped_gemm"):
        return 0.0
    batch, m, n, k = kernel.shape
    left, right, out = (m * k, batch * k * n, m * n) if kernel.kind == "grouped_gemm" else (
        batch * m * k, batch * k * n, batch * m * n)
    launches = max(1, kernel.launches)
    return float(kernel.bytes) - (BYTES.get(kernel.precision, 2.0) * (left + right) + 2.0 * out) * launches


def normalised(kernel: Kernel) -> tuple[str, tuple[float, ...], float]:
    """(family, shape columns, times) of a kernel with a shape, which takes the time of that shape so many times."""
    family, shape, flops = _product(kernel)
    times = kernel.flops / flops
    return family, shape, times * _slowdown(kernel) if kernel.kind == "attention_backward" else times


def _slowdown(kernel: Kernel) -> float:
    return float(slowdown(np.array([float(kernel.shape[3])]))[0])


def no_rates(model: DeviceModel, kernel: Kernel) -> str:
    """Why a device cannot predict a kernel: it has neither rows nor a peak at its precision; else ""."""
    try:
        if kernel.kind not in STREAMS:
            model.part(normalised(kernel)[0], kernel.precision)
            model.machine.peak(kernel.precision)
    except InputError:
        return f"{kernel.kind} at {kernel.precision}, which {model.machine.name} has no rates for"
    return ""


def latency_ns(model: DeviceModel, kernels: Sequence[Kernel], framework: str | None = None,
               clock: float = 1.0) -> F64:
    """Predicted time of each kernel, all of its launches together, ns [kernels].

    Kinds with a shape take the time of that shape times the flops that the kernel has of it; groups have equal rows;
    the backward pass of attention follows `backward.slowdown`. Other kinds move their bytes.
    """
    out = np.empty(len(kernels))
    streams = [number for number, kernel in enumerate(kernels) if kernel.kind in STREAMS]
    launches = np.array([max(1, kernels[number].launches) for number in streams], np.float64)
    moved = np.array([kernels[number].bytes for number in streams], np.float64)
    out[streams] = launches * stream_ns(model.machine, moved / launches)
    groups: dict[tuple[str, str], list[tuple[int, tuple[float, ...], float]]] = defaultdict(list)
    for number, kernel in enumerate(kernels):
        if kernel.kind in STREAMS:
            continue
        if kernel.kind in KINDS:
            family, shape, times = normalised(kernel)
            groups[family, kernel.precision].append((number, shape, times))
        else:
            raise InputError("kernel.kind", f"{kernel.kind[:60]!r} has no predicted time",
                             expected="one of " + ", ".join(KINDS), did_you_mean=nearest(kernel.kind, KINDS))
    for (family, precision), members in groups.items():
        at = np.array([number for number, _, _ in members])
        shape = np.array([columns for _, columns, _ in members]).T.reshape(len(FAMILIES[family][0]), -1)
        repeats = np.array([repeat for _, _, repeat in members])
        out[at] = model.latency_ns(family, precision, shape, framework, clock) * repeats
    for number, kernel in enumerate(kernels):
        if (more := extra_bytes(kernel)) > 0:
            out[number] += more / model.machine.bandwidth
    return out


@functools.lru_cache(maxsize=64)
def latencies(model: DeviceModel, kernels: tuple[Kernel, ...], framework: str | None, clock: float) -> F64:
    """`latency_ns` of kernels that several classes of ranks share; read-only."""
    found = latency_ns(model, kernels, framework, clock)
    found.flags.writeable = False
    return found
