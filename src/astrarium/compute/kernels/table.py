"""What an operator class says of its kernels: a base time and the features that correct it."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from astrarium.arrays import F64

__all__ = ["F64", "Curve", "Described", "along", "between", "log2", "part"]

Curve = tuple[tuple[float, float], ...]
"""Rising (size, ns)."""


class Described(Struct, frozen=True, eq=False):
    """`base`: ns [n]; `features`: arrays [n], logarithms to base 2 and fractions, none beyond +-63."""

    base: F64
    features: tuple[F64, ...]


def log2(values: F64) -> F64:
    """Logarithm to base 2 of positive values."""
    return np.asarray(np.log2(values))


def part(values: F64) -> F64:
    """The fractional part."""
    return np.asarray(values - np.floor(values))


def along(curve: Curve, sizes: F64) -> F64:
    """Times [n] of sizes [n] on a curve: between its points a power of the size, beyond them in proportion."""
    last, ns = curve[-1]
    found: F64 = np.where(sizes > last, ns * sizes / last, between(curve, sizes))
    return found


def between(curve: Curve, sizes: F64) -> F64:
    """Values [n] of sizes [n] on a curve: between its points a power of the size, beyond its ends theirs; 1 without
    any."""
    if not curve:
        return np.ones(len(sizes))
    size, value = np.array(curve).T
    found: F64 = np.exp2(np.interp(np.log2(np.maximum(sizes, 1.0)), np.log2(size), np.log2(value)))
    return found
