"""Decoding whose keys and values lie in the last cache of the device.

The tables replay one kernel, which finds up to a cache of keys and values there: such rows read up to 2.5 times the
bandwidth of the memory on an RTX PRO 6000, 4.6 times on an L40S; rows beyond the cache stay below it. In a model the
other layers read their weights and caches in between. There the kernel takes the time of one token, and for every
further one what a token costs beside several times as many bytes as any device's cache has.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from astrarium.arrays import F64
from astrarium.compute.kernels.attention import COLUMNS

__all__ = ["CACHED", "uncached_ns"]

CACHED = ("decode", "mla")
LARGEST = float(128 << 20)      # bytes of the largest last cache (RTX PRO 6000)
BEYOND = 4 * LARGEST
KEYS, WORK = COLUMNS.index("keys"), COLUMNS.index("work")


def uncached_ns(family: str, shape: F64, ns: F64, times: Callable[[F64], F64]) -> F64:
    """Times of decoding kernels `shape` f64 [columns, n] whose keys and values come from memory; `ns`: what rows say of
    them, which is longer where it is; `times`: what rows say of other shapes."""
    batch, _, kv_heads, _, keys, long, value, work, cache = shape
    each = batch * cache * (long if family == "mla" else kv_heads * (long + value))
    small = each * keys * work <= LARGEST
    if not small.any():
        return ns
    kinds, which = np.unique(np.vstack([np.delete(shape[:, small], (KEYS, WORK), axis=0), each[small]]), axis=1,
                             return_inverse=True)
    many = BEYOND / kinds[-1]

    def of(number: F64) -> F64:
        points = np.insert(kinds[:-1], KEYS, number, axis=0)
        return times(np.asarray(np.insert(points, WORK, 1.0, axis=0), np.float64))

    one, far = of(np.ones(len(many))), of(many)
    slope = (far - one) / np.maximum(1.0, many - 1)
    found: F64 = ns.copy()
    which = which.ravel()
    found[small] = np.maximum(ns[small], one[which] + slope[which] * (keys * work)[small])
    return found
