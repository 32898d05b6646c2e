"""Rows themselves, in the place of what is fitted on them: needs `astrarium[measured]`."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

import numpy as np

from astrarium.arrays import F64
from astrarium.compute.kernels.asked import STREAMS, asked_of
from astrarium.compute.kernels.choice import is_torch
from astrarium.compute.kernels.experts import at_random
from astrarium.compute.kernels.model import DeviceModel
from astrarium.compute.kernels.predict import latency_ns
from astrarium.compute.kernels.rows import read
from astrarium.compute.kernels.uncached import CACHED
from astrarium.engine.plugins.kernels import tabled
from astrarium.vocab import Kernel

__all__ = ["exact_or_fitted_ns"]

Key = tuple[float, ...]
PRODUCT = 4     # numbers of one product's shape


@functools.lru_cache(maxsize=16)
def _rows(device: str, family: str, precision: str, variant: str) -> Mapping[Key, float]:
    """Time of each measured shape; a cache of files that do not change."""
    found = read(device, family)
    found = found.where((found.precision == precision) & (found.variant == variant))
    return {_key(shape): float(ns) for shape, ns in zip(found.shape.T, found.ns)}


def _key(shape: Sequence[float] | F64) -> Key:
    """Whole numbers as they are; the part that a mask leaves to one digit, so that 1/2 is what a causal mask leaves."""
    return tuple(round(float(x), 1) for x in shape)


def exact_or_fitted_ns(model: DeviceModel, kernels: Sequence[Kernel], framework: str | None = None,
                       clock: float = 1.0) -> F64:
    """`latency_ns`, but kernels whose shape was measured take the row's time. A clock other than 1 is of no row;
    PyTorch's rows are not installed."""
    out = latency_ns(model, kernels, framework, clock)
    parts = [part for part in tabled(kernels).parts if part.kind not in STREAMS and not (
        part.kind == "grouped_gemm" and len(part.shape) == PRODUCT)]    # rows of experts are of whole layers
    exact = clock == 1 and not is_torch(framework)
    for family, precision, held, place, shapes, times, site, _ in asked_of(model, parts if exact else ()):
        variants = model.candidates(family, precision, held, framework, site)
        for number, shape, repeats in zip(place.tolist(), shapes.T, times.tolist(), strict=True):
            found = [(name, _rows(model.machine.name, family, precision, name).get(_key(shape))) for name in variants]
            measured = [row if held or family != "gemm" else float(model.without_cast(
                family, precision, name, shape[:, None], np.array([row]))[0]) for name, row in found if row is not None]
            if measured and family in CACHED:
                out[number] = max(out[number], min(measured) * repeats)
            elif measured:
                out[number] = min(measured) * repeats
                if family == "experts":
                    out[number] *= at_random(shape[:, None], precision, model.machine)[0]
    return out
