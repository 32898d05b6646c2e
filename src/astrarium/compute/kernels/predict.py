"""Times of kernels on a device: which part of its model answers for which kind, and by which rule."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from astrarium.compute.kernels.backward import slowdown
from astrarium.compute.kernels.experts import at_random
from astrarium.compute.kernels.machine import BYTES, WEIGHT_ONLY, Machine
from astrarium.compute.kernels.model import FAMILIES, DeviceModel, Site
from astrarium.compute.kernels.rows import FEW
from astrarium.compute.kernels.table import F64
from astrarium.errors import InputError, nearest
from astrarium.vocab import Kernel

__all__ = ["KINDS", "STREAMS", "Asked", "asked_of", "extra_bytes", "latencies", "latency_ns", "no_rates", "normalised",
           "stream_ns"]

STREAMS = ("normalisation", "pointwise", "embedding", "optimizer", "quantisation", "scan")
"""Kinds that move bytes and compute little; a scan with a shape has rows of its own on devices that measured it."""
LEAST_HEADS = 64.0
"""Of sparse latent attention in prompts (FlashMLA's `flash_mla_sparse_fwd`; SGLang pads fewer)."""
SCANS = "bf16"
"""Operands of the rows of scans, whose states are in fp32."""
ABSORBED = 512      # rank of latent keys and values: the longest side of absorbed matrices
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


def _streams(model: DeviceModel, kernel: Kernel) -> bool:
    """Whether a kernel takes the time of its bytes."""
    return kernel.kind in STREAMS and not (kernel.shape and kernel.kind == "scan" and f"delta/{SCANS}" in model.parts)


class Asked(NamedTuple):
    """What a kernel asks of a device's model: the part `family`/`precision`, for weights or a cache that memory holds
    in the format `held` (see Kernel); it takes the time of `shape` so many `times`."""

    family: str
    precision: str
    held: str
    shape: tuple[float, ...]
    times: float

    @property
    def site(self) -> Site | None:
        """The model whose kernel it is, as far as rows tell models apart (see model.Part)."""
        if self.family in ("attention", "decode"):
            return round(self.shape[5]), round(self.shape[6])
        whole = self.family == "experts" and self.shape[4] > 0
        return (round(self.shape[0] * self.shape[5]), round(self.shape[3])) if whole else None


def _product(kernel: Kernel) -> tuple[str, tuple[float, ...], float]:
    """(family, shape columns, flops of one launch of that shape)."""
    wanted = {"gemm": (4,), "grouped_gemm": (4, 7)}.get(kernel.kind, (7,))
    if len(kernel.shape) not in wanted or min(kernel.shape[:6]) < 1 or min(kernel.shape) < (kernel.kind == "gemm"):
        raise InputError("kernel.shape", f"{kernel.shape} does not describe a kernel of kind {kernel.kind}",
                         expected=" or ".join(map(str, wanted)) + " positive numbers")
    if kernel.kind == "gemm":
        return "gemm", tuple(map(float, kernel.shape)), 2.0 * float(np.prod(kernel.shape, dtype=float))
    if kernel.kind == "grouped_gemm":
        groups, m, n, k, second, share, skew = kernel.shape if len(kernel.shape) == 7 else (*kernel.shape, 0, 1, 0)
        return "experts", (groups, m, n, k, second, share, skew / 100), 2.0 * m * k * (n + second)
    batch, heads, kv_heads, queries, keys, long, value = map(float, kernel.shape)
    flops, work = 2.0 * batch * heads * queries * keys * (long + value) * kernel.work, kernel.work
    family = "indexer" if not value else "mla" if kernel.kind == "mla" else "decode" if queries == 1 else "attention"
    if family == "mla" and queries > FEW:       # each query has keys of its own; the kernel computes 64 heads at least
        family, heads, keys, work = "sparse", max(heads, LEAST_HEADS), max(1.0, keys * work), 1.0
    cache = BYTES.get(kernel.held or kernel.precision, BYTES["bf16"])
    return family, (batch, heads, kv_heads, queries, keys, long, value, work, cache), flops


def extra_bytes(kernel: Kernel) -> float:
    """Bytes that a product moves beyond its operands and a result of 16 bits: a gradient in fp32, or what is there
    already and is read to be added to."""
    if kernel.kind not in ("gemm", "grouped_gemm") or kernel.held or len(kernel.shape) > 4:
        return 0.0      # rows of narrower weights, and of whole layers of experts, have all of it
    batch, m, n, k = kernel.shape
    left, right, out = (m * k, batch * k * n, m * n) if kernel.kind == "grouped_gemm" else (
        batch * m * k, batch * k * n, batch * m * n)
    launches = max(1, kernel.launches)
    return float(kernel.bytes) - (BYTES.get(kernel.precision, 2.0) * (left + right) + 2.0 * out) * launches


def normalised(kernel: Kernel) -> Asked:
    """What a kernel with a shape asks of a model. Decoding is measured with queries of 16 bits, whatever the cache's
    format: narrower queries take those rows."""
    if kernel.kind == "scan":
        return Asked("delta", SCANS, "", tuple(map(float, kernel.shape)), float(max(1, kernel.launches)))
    family, shape, flops = _product(kernel)
    whole = family == "experts" and shape[4] > 0    # rows of a layer of experts are times of the busiest rank
    times = 1.0 if whole else kernel.flops / flops
    if kernel.kind == "attention_backward":
        times *= _slowdown(kernel)
    if family in ("gemm", "experts"):
        return Asked(family, _weight_only(kernel), kernel.held, shape, times)
    if family in ("indexer", "sparse"):
        return Asked(family, "bf16", "", shape, times)
    if family != "attention" and BYTES.get(kernel.precision, 2.0) < BYTES["bf16"]:
        return Asked(family, "bf16", kernel.held or kernel.precision, shape, times)
    return Asked(family, kernel.precision, kernel.held, shape, times)


def _weight_only(kernel: Kernel) -> str:
    """The name of the rows of a product: its precision, or that of kernels with narrower weights. Raises InputError."""
    computed, held = kernel.precision, kernel.held
    name = computed if held in ("", computed) else WEIGHT_ONLY.get((computed, held))
    if name is None:
        known = [computed, *(weights for bits, weights in WEIGHT_ONLY if bits == computed)]
        raise InputError("workload", f"products in {computed} of what is held in {held} have no measured kernels",
                         expected=f"weights in {', '.join(known)}" + f", or products in {held}" * (held in BYTES))
    return name


def _slowdown(kernel: Kernel) -> float:
    return float(slowdown(np.array([float(kernel.shape[3])]))[0])


def asked_of(model: DeviceModel, kernel: Kernel) -> Asked:
    """`normalised`, by the classes that the device has rows of: sparse attention as latent decoding, an indexer's
    scores as attention with values of one number, and so in decoding, of whose kernel (paged) no device has rows.
    Absorbed products (one of each head) and prompts of latent attention have classes of their own where rows exist."""
    asked = normalised(kernel)
    own = ""
    if asked.family == "gemm" and asked.shape[0] > 1 and max(asked.shape[2:]) <= ABSORBED:
        own = "bmm"
    elif asked.family == "attention" and asked.shape[5] != asked.shape[6]:
        own = "latent"
    if own and f"{own}/{asked.precision}" in model.parts:
        return asked._replace(family=own)
    single = asked.family == "indexer" and asked.shape[3] == 1
    if asked.family not in ("sparse", "indexer") or (f"{asked.family}/bf16" in model.parts and not single):
        return asked
    if asked.family == "sparse":
        return asked._replace(family="mla")
    shape = (*asked.shape[:6], 1.0, *asked.shape[7:])
    return asked._replace(family="decode" if single else "attention", shape=shape)


def no_rates(model: DeviceModel, kernel: Kernel) -> str:
    """Why a device cannot predict a kernel: it has neither rows nor a peak at its precision; else ""."""
    try:
        if not _streams(model, kernel):
            asked = asked_of(model, kernel)
            model.machine.peak(asked.precision)
            model.candidates(*asked[:3])
    except InputError:
        held = f" with {kernel.held} in memory" if kernel.held else ""
        return f"{kernel.kind} at {kernel.precision}{held}, which {model.machine.name} has no rates for"
    return ""


def latency_ns(model: DeviceModel, kernels: Sequence[Kernel], framework: str | None = None,
               clock: float = 1.0) -> F64:
    """Predicted time of each kernel, all of its launches together, ns [kernels].

    Kinds with a shape take the time of that shape times the flops that the kernel has of it; rows fall on groups at
    random, or by the power law of the shape; the backward pass of attention follows `backward.slowdown`. Other kinds
    move their bytes.
    """
    out = np.empty(len(kernels))
    streams = [number for number, kernel in enumerate(kernels) if _streams(model, kernel)]
    launches = np.array([max(1, kernels[number].launches) for number in streams], np.float64)
    moved = np.array([kernels[number].bytes for number in streams], np.float64)
    out[streams] = launches * stream_ns(model.machine, moved / launches)
    groups: dict[tuple[str, str, str, Site | None], list[tuple[int, Asked]]] = defaultdict(list)
    for number, kernel in enumerate(kernels):
        if _streams(model, kernel):
            continue
        if kernel.kind in KINDS:
            asked = asked_of(model, kernel)
            groups[asked.family, asked.precision, asked.held, asked.site].append((number, asked))
        else:
            raise InputError("kernel.kind", f"{kernel.kind[:60]!r} has no predicted time",
                             expected="one of " + ", ".join(KINDS), did_you_mean=nearest(kernel.kind, KINDS))
    for (family, precision, held, site), members in groups.items():
        variants = model.candidates(family, precision, held, framework, site)
        at = np.array([number for number, _ in members])
        shape = np.array([asked.shape for _, asked in members]).T.reshape(len(FAMILIES[family][0]), -1)
        repeats = np.array([asked.times for _, asked in members])
        times = _rising_ns if family == "experts" else DeviceModel.fastest_ns
        out[at] = times(model, family, precision, shape, variants, clock) * repeats
        if family == "experts":
            out[at] *= at_random(shape, precision, model.machine)
    for number, kernel in enumerate(kernels):
        if (more := extra_bytes(kernel)) > 0:
            out[number] += more / model.machine.bandwidth
    return out


def _rising_ns(model: DeviceModel, family: str, precision: str, shape: F64, variants: Sequence[str],
               clock: float) -> F64:
    """`fastest_ns` that never falls as rows are added, by powers between numbers of rows that are half an octave apart:
    a rank with more than its share of rows must not look faster than the others."""
    rows = FAMILIES[family][0].index("m")
    layers, which = np.unique(np.delete(shape, rows, axis=0), axis=1, return_inverse=True)
    octaves = np.log2(shape[rows])
    grid = np.arange(0.0, octaves.max() + 0.5, 0.5)
    points = np.insert(np.repeat(layers, len(grid), axis=1), rows, np.tile(np.exp2(grid), layers.shape[1]), axis=0)
    times = model.fastest_ns(family, precision, points, variants, clock).reshape(-1, len(grid))
    rising = np.log2(np.maximum.accumulate(times, axis=1))
    place = np.minimum(2 * octaves, max(len(grid) - 2, 0))
    low = place.astype(np.intp)
    high, part, line = np.minimum(low + 1, len(grid) - 1), 2 * octaves - low, which.ravel()
    found: F64 = np.exp2(rising[line, low] * (1 - part) + rising[line, high] * part)
    return found


@functools.lru_cache(maxsize=64)
def latencies(model: DeviceModel, kernels: tuple[Kernel, ...], framework: str | None, clock: float) -> F64:
    """`latency_ns` of kernels that several classes of ranks share; read-only."""
    found = latency_ns(model, kernels, framework, clock)
    found.flags.writeable = False
    return found
