"""Times of kernels on a device: which part of its model answers for which kind, and by which rule."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from astrarium.arrays import F64
from astrarium.compute.kernels.asked import KINDS, SCANS, STREAMS, asked_of
from astrarium.compute.kernels.choice import is_torch
from astrarium.compute.kernels.experts import at_random
from astrarium.compute.kernels.machine import BYTES, Machine
from astrarium.compute.kernels.model import FAMILIES, DeviceModel
from astrarium.compute.kernels.rowwise import rowwise_ns, which
from astrarium.compute.kernels.table import Curve, along, between
from astrarium.compute.kernels.uncached import CACHED, uncached_ns
from astrarium.engine.plugins.kernels import Columns, tabled
from astrarium.errors import InputError
from astrarium.vocab import Kernel

__all__ = ["KINDS", "STREAMS", "extra_bytes", "latencies", "latency_ns", "no_rates", "stream_ns"]

ROWS = 40           # octaves of rows of a layer of experts


def stream_ns(machine: Machine, moved: F64, curve: Curve = ()) -> F64:
    """Time of kernels that move `moved` bytes [n], by an operator's `curve` or the machine's: between measured sizes a
    power of the size, beyond them in proportion; a device without measured sizes takes its launch time and its whole
    bandwidth."""
    if not (curve or machine.stream):
        return machine.launch + moved / machine.bandwidth
    return along(curve or machine.stream, moved)


def _moving_ns(model: DeviceModel, part: Columns, framework: str | None) -> F64:
    """Time of kernels that take the time of their bytes, of PyTorch's own by their operator, rows and columns."""
    launches = np.maximum(1, part.launches).astype(np.float64)
    moved, torch = part.bytes / launches, is_torch(framework)
    found = stream_ns(model.machine, moved, model.streams.get(part.op, ()) if torch else ())
    if torch and len(part.shape) == 2:
        shape = part.shape.astype(np.float64)
        for name, those in which(part.op, shape[0], model.rowwise):
            found[those] = rowwise_ns(shape[:, those], moved[those], model.rowwise[name])
    if torch:
        found *= between(model.slower.get(part.op, ()), moved)
    taken: F64 = launches * found - (part.launches == 0) * stream_ns(model.machine, np.zeros(1))
    return taken


def _streams(model: DeviceModel, part: Columns) -> bool:
    """Whether kernels take the time of their bytes."""
    return part.kind in STREAMS and not (len(part.shape) and part.kind == "scan" and f"delta/{SCANS}" in model.parts)


def extra_bytes(kernels: Sequence[Kernel]) -> F64:
    """Bytes [kernels] that products move beyond their operands and results of 16 bits: a gradient in fp32, or what is
    there already and is read to be added to."""
    found = np.zeros(len(kernels))
    for part in tabled(kernels).parts:
        if part.kind not in ("gemm", "grouped_gemm") or part.held or len(part.shape) > 4:
            continue        # rows of narrower weights, and of whole layers of experts, have all of it
        batch, m, n, k = part.shape
        rows = m if part.kind == "grouped_gemm" else batch * m
        moved = BYTES.get(part.precision, 2.0) * (rows * k + batch * k * n) + 2.0 * (rows * n)
        found[part.place] = np.maximum(0.0, part.bytes - moved * np.maximum(1, part.launches))
    return found


def no_rates(model: DeviceModel, kernel: Kernel) -> str:
    """Why a device cannot predict a kernel: it has neither rows nor a peak at its precision; else ""."""
    try:
        for asked in asked_of(model, [part for part in tabled((kernel,)).parts if not _streams(model, part)]):
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
    table, rest = tabled(kernels), list[Columns]()
    out = np.empty(len(table))
    for part in table.parts:
        if _streams(model, part):
            out[part.place] = _moving_ns(model, part, framework)
        else:
            rest.append(part)
    for asked in asked_of(model, rest, framework):
        family, precision, held, place, shape, times, site, _ = asked
        variants = model.candidates(family, precision, held, framework, site)
        predict = (_rising_ns if family == "experts" else _uncached_ns if family in CACHED else
                   functools.partial(DeviceModel.fastest_ns, alone=not held))
        out[place] = predict(model, family, precision, shape, variants, clock) * times
        if family == "experts":
            out[place] *= at_random(shape, precision, model.machine)
    return out + extra_bytes(table) / model.machine.bandwidth


def _uncached_ns(model: DeviceModel, family: str, precision: str, shape: F64, variants: Sequence[str],
                 clock: float) -> F64:
    """`fastest_ns` of decoding whose keys and values are in no cache."""
    def times(points: F64) -> F64:
        return model.fastest_ns(family, precision, points, variants, clock)

    return uncached_ns(family, shape, times(shape), times)


def _rising_ns(model: DeviceModel, family: str, precision: str, shape: F64, variants: Sequence[str],
               clock: float) -> F64:
    """`fastest_ns` that never falls as rows are added, by powers between numbers of rows that are half an octave apart:
    a rank with more than its share of rows must not look faster than the others."""
    rows = FAMILIES[family][0].index("m")
    layers, which = np.unique(np.delete(shape, rows, axis=0), axis=1, return_inverse=True)
    curves = np.stack([_rising(model, family, precision, tuple(variants), clock, tuple(layer.tolist()))
                       for layer in layers.T])
    place = np.minimum(2 * np.log2(shape[rows]), curves.shape[1] - 2)
    low, line = place.astype(np.intp), which.ravel()
    part = place - low
    found: F64 = np.exp2(curves[line, low] * (1 - part) + curves[line, low + 1] * part)
    return found


@functools.lru_cache(maxsize=256)
def _rising(model: DeviceModel, family: str, precision: str, variants: tuple[str, ...], clock: float,
            layer: tuple[float, ...]) -> F64:
    """log2 of the times of a layer with 1, sqrt(2), 2, ... rows."""
    grid = np.exp2(np.arange(0.0, ROWS, 0.5))
    points = np.insert(np.repeat(np.array(layer)[:, None], len(grid), axis=1), FAMILIES[family][0].index("m"), grid,
                       axis=0)
    return np.log2(np.maximum.accumulate(model.fastest_ns(family, precision, points, variants, clock)))


@functools.lru_cache(maxsize=64)
def latencies(model: DeviceModel, kernels: Sequence[Kernel], framework: str | None, clock: float) -> F64:
    """`latency_ns` of kernels that several classes of ranks share; read-only."""
    found = latency_ns(model, kernels, framework, clock)
    found.flags.writeable = False
    return found
