"""Products as PyTorch runs them, in the three layouts of training: tiles that fill the device, or bytes.

cuBLAS computes the result in tiles, each on one multiprocessor, and may divide the inner length into parts whose sums
are added up by another kernel (NVIDIA, "Matrix Multiplication Background User's Guide"). The base is the fastest of the
tiles and parts below. Its constants were fitted, all layouts together, on 2,711 bf16 products of PyTorch 2.11 on one
H100 (`tools/fit_torch.py --constants`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from astrarium.compute.kernels import gemm
from astrarium.compute.kernels.machine import BYTES, Machine
from astrarium.compute.kernels.table import F64, Described, log2, part

__all__ = ["COLUMNS", "CONSTANTS", "LAYOUTS", "Constants", "base_ns", "describe"]

COLUMNS = (*gemm.COLUMNS, "layout")
LAYOUTS = ("", "dgrad", "wgrad")
"""Operators of products (see vocab.Kernel) by the number in the last column."""
TILES = (*((a, b) for a in (64, 128, 192, 256) for b in (64, 128, 192, 256) if a * b <= 256 * 192), (320, 128),
         (128, 320))
PARTS = (1, 2, 3, 4, 6, 8)
CLUSTERED = ((128, 192), (192, 128), (192, 192), (128, 256), (256, 128), (256, 192), (192, 256), (320, 128), (128, 320))
STEP = 64           # inner length that a tile computes at once
TWOS = 9            # powers of two in a side beyond which alignment is alike


class Constants(NamedTuple):
    """`rate`: of the peak, of a tile without edges; `edge`: columns by which a tile's operands slow it; `finish`: ns to
    write 128 x 128 results; `launch`: ns; `bandwidth`: of the data sheet's; `gather`: ns of the kernel that adds up
    parts, `added`: bytes of the device's bandwidth that it takes for each byte; `late`: how far the last wave of tiles
    is as long as a full one; `sharp`: how hard the roof's edge is."""

    rate: float = 0.954
    edge: float = 13.4
    finish: float = 844.0
    launch: float = 2004.0
    bandwidth: float = 0.826
    gather: float = 3900.0
    added: float = 1.84
    late: float = 0.335
    sharp: float = 3.4


CONSTANTS = Constants()


def base_ns(shape: F64, precision: str, machine: Machine, constants: Constants = CONSTANTS) -> F64:
    """Time of the fastest tiling, or of the bytes, of products f64 [4 or more, n]: batch, m, n, k."""
    batch, m, n, k = shape[:4]
    rate, edge, finish, launch, bandwidth, gather, added, late, sharp = constants
    each, best = machine.peak(precision) / machine.units * rate, np.full(len(m), np.inf)
    for rows, columns in TILES:
        tiles = batch * np.ceil(m / rows) * np.ceil(n / columns)
        slowed = 1 + edge * (1 / rows + 1 / columns)
        for parts in PARTS:
            waves = tiles * parts / machine.units
            length = np.ceil(k / STEP / parts) * STEP
            tile = 2 * rows * columns * length * slowed / each + finish * rows * columns / 128**2
            added_up = (parts > 1) * (gather + added * 8 * batch * m * n / machine.bandwidth)
            best = np.minimum(best, (late * np.ceil(waves) + (1 - late) * np.maximum(waves, 1)) * tile + added_up)
    moved = batch * (BYTES[precision] * k * (m + n) + gemm.RESULT_BYTES * m * n) / (machine.bandwidth * bandwidth)
    found: F64 = ((best + launch)**sharp + (moved + launch)**sharp)**(1 / sharp)
    return found


def _twos(side: F64) -> F64:
    """How often 2 divides a side, as far as it matters."""
    divides = side[:, None] % np.exp2(np.arange(1, TWOS + 1)) == 0
    return np.asarray(divides.sum(axis=1), np.float64)


def _waste(shape: F64, units: int, *cluster: int) -> F64:
    """log2 of what the large tile that fits best computes, in whole clusters and waves, over what is asked."""
    batch, m, n, _ = shape[:4]
    down, right = cluster
    found = np.full(len(m), np.inf)
    for rows, columns in CLUSTERED:
        tiles = batch * np.ceil(m / rows / down) * down * np.ceil(n / columns / right) * right
        found = np.minimum(found, np.ceil(tiles / units) * units * rows * columns / (batch * m * n))
    return log2(found)


def describe(shape: F64, precision: str, machine: Machine, option: F64) -> Described:
    """Base time and features of products, f64 [5, n]: batch, m, n, k, number of the layout."""
    _, m, n, k, layout = shape
    base, plain = base_ns(shape, precision, machine), gemm.describe(shape[:4], precision, machine, option)
    features = (*plain.features, layout, _twos(m), _twos(n), _twos(k), part(k / 128), part(n / 128), part(k / STEP),
                _waste(shape, machine.units, 1, 1), _waste(shape, machine.units, 2, 1),
                _waste(shape, machine.units, 1, 2), log2(base / plain.base))
    return Described(base, features)
