"""Matrix products: roofline base, and how tiles and waves fill the device.

A kernel computes the result in tiles, one a multiprocessor at a time; the last wave is partly empty and edge tiles
compute padding (NVIDIA, "Matrix Multiplication Background User's Guide", sections on tile and wave quantisation).
"""

from __future__ import annotations

import numpy as np

from astrarium.arrays import F64
from astrarium.compute.kernels.machine import BYTES, WEIGHT_BYTES, Machine
from astrarium.compute.kernels.table import Described, log2, part

__all__ = ["COLUMNS", "describe"]

COLUMNS = ("batch", "m", "n", "k")
TILES = ((256, 128), (128, 256), (128, 128), (128, 64), (64, 64), (256, 256))
RESULT_BYTES = 2.0


def describe(shape: F64, precision: str, machine: Machine, option: F64) -> Described:
    """Base time and features of products (batch, m, n, k), f64 [4, n]; `option`: measured variant, [n]."""
    batch, m, n, k = shape
    size, weight, units = BYTES[precision], WEIGHT_BYTES[precision], machine.units
    compute = 2 * batch * m * n * k / machine.peak(precision)
    access = batch * (k * (size * m + weight * n) + RESULT_BYTES * m * n) / machine.bandwidth
    roof = np.maximum(compute, access)
    wastes, waves = [], []
    for rows, columns in TILES:
        tiles = batch * np.ceil(m / rows) * np.ceil(n / columns)
        waves.append(tiles / units)
        wastes.append(log2(np.ceil(waves[-1]) * (units * rows * columns) / (batch * m * n)))
    least = np.minimum.reduce(wastes[:5])
    features = (log2(m), log2(n), log2(k), log2(compute), log2(compute / access), *wastes, log2(waves[1]),
                log2(waves[2]), part(waves[1]), part(waves[0]), part(m / 128), part(m / 256), part(n / 256), least,
                log2(m / n), log2(roof), option, log2(batch))
    return Described(roof, features)
