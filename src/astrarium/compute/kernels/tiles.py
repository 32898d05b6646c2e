"""Products as PyTorch runs them, in the three layouts of training: tiles that fill the device, or bytes.

cuBLAS computes the result in tiles, each on one multiprocessor, and may divide the inner length into parts whose sums
are added up by another kernel (NVIDIA, "Matrix Multiplication Background User's Guide"). The base is the fastest of the
tiles and parts below. Its constants were fitted, all layouts together, on 2,711 bf16 products of PyTorch 2.11 on one
H100, and on 534 fp8 ones with one scale a tensor (`tools/fit_torch.py --constants`); those with a scale for each row
are other kernels (`scaled`).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from astrarium.arrays import F64
from astrarium.compute.kernels import gemm, scaled
from astrarium.compute.kernels.machine import BYTES, Machine
from astrarium.compute.kernels.table import Described, log2, part

__all__ = ["COLUMNS", "CONSTANTS", "LAYOUTS", "Constants", "base_ns", "describe"]

COLUMNS = (*gemm.COLUMNS, "layout")
LAYOUTS = ("", "dgrad", "wgrad")
"""Operators of products (see vocab.Kernel) by the number in the last column."""
TILES = (*((a, b) for a in (64, 128, 192, 256) for b in (64, 128, 192, 256) if a * b <= 256 * 192), (320, 128),
         (128, 320))
PARTS = (1, 2, 3, 4, 6, 8)
CLUSTERED = ((128, 192), (192, 128), (192, 192), (128, 256), (256, 128), (256, 192), (192, 256), (320, 128), (128, 320))
STEP = 64           # inner length that a tile computes at once
BLOCK = 2048        # products at once
TWOS = 9            # powers of two in a side beyond which alignment is alike


class Constants(NamedTuple):
    """`rate`: of the peak, of a tile without edges; `edge`: columns by which a tile's operands slow it; `finish`: ns to
    write 128 x 128 results; `launch`: ns; `bandwidth`: of the data sheet's; `gather`: ns of the kernel that adds up
    parts, `added`: bytes of the device's bandwidth that it takes for each byte; `late`: how far the last wave of tiles
    is as long as a full one; `sharp`: how hard the roof's edge is."""

    rate: float = 0.954
    edge: float = 13.03
    finish: float = 803.0
    launch: float = 1984.1
    bandwidth: float = 0.826
    gather: float = 4432.4
    added: float = 0.109
    late: float = 0.583
    sharp: float = 3.253


CONSTANTS: Mapping[str, Constants] = MappingProxyType({
    "bf16": Constants(), "fp8": Constants(0.949, 19.03, 839.7, 2146.8, 0.817, 6128.7, 0.0, 0.011, 2.957)})
"""Precision -> constants; others take those of bf16."""


def base_ns(shape: F64, precision: str, machine: Machine, constants: Constants | None = None) -> F64:
    """Time of the fastest tiling, or of the bytes, of products f64 [4 or more, n]: batch, m, n, k."""
    return _timed(shape, precision, machine, constants or CONSTANTS.get(precision, CONSTANTS["bf16"]))[0]


def _timed(shape: F64, precision: str, machine: Machine, constants: Constants) -> tuple[F64, F64]:
    """(`base_ns`; log2 of the time of each tile with the inner length whole over the fastest tiling's [tiles, n])."""
    blocks = [_tiled(shape[:4, start:start + BLOCK], precision, machine, constants)
              for start in range(0, max(1, shape.shape[1]), BLOCK)]
    return np.concatenate([base for base, _ in blocks]), np.concatenate([whole for _, whole in blocks], axis=1)


def _tiled(shape: F64, precision: str, machine: Machine, constants: Constants) -> tuple[F64, F64]:
    """`_timed` of a few, over all [tiles, parts, n] at once."""
    batch, m, n, k = shape
    rate, edge, finish, launch, bandwidth, gather, added, late, sharp = constants
    rows, columns = np.array(TILES, np.float64).T[:, :, None, None]
    parts, each = np.array(PARTS, np.float64)[:, None], machine.peak(precision) / machine.units * rate
    waves = batch * np.ceil(m / rows) * np.ceil(n / columns) * parts / machine.units
    slowed = rows * columns * (1 + edge * (1 / rows + 1 / columns))
    tile = 2 * slowed * (np.ceil(k / STEP / parts) * STEP) / each + finish * rows * columns / 128**2
    tile *= late * np.ceil(waves) + (1 - late) * np.maximum(waves, 1)
    added_up = (parts > 1) * (gather + added * 8 * batch * m * n / machine.bandwidth)
    best = np.asarray((tile + added_up).min(axis=(0, 1)))
    moved = batch * (BYTES[precision] * k * (m + n) + gemm.RESULT_BYTES * m * n) / (machine.bandwidth * bandwidth)
    return ((best + launch)**sharp + (moved + launch)**sharp)**(1 / sharp), log2(tile[:, 0] / best)


def _twos(side: F64) -> F64:
    """How often 2 divides a side, as far as it matters."""
    divides = side[:, None] % np.exp2(np.arange(1, TWOS + 1)) == 0
    return np.asarray(divides.sum(axis=1), np.float64)


def _waste(shape: F64, units: int, down: int, right: int) -> F64:
    """log2 of what the large tile that fits best computes, in whole clusters and waves, over what is asked."""
    batch, m, n, _ = shape[:4]
    rows, columns = np.array(CLUSTERED, np.float64).T[:, :, None]
    tiles = batch * np.ceil(m / rows / down) * down * np.ceil(n / columns / right) * right
    return log2((np.ceil(tiles / units) * units * rows * columns / (batch * m * n)).min(axis=0))


def describe(shape: F64, precision: str, machine: Machine, option: F64) -> Described:
    """Base time and features of products, f64 [5, n]: batch, m, n, k, number of the layout."""
    _, m, n, k, layout = shape
    base, whole = _timed(shape, precision, machine, CONSTANTS.get(precision, CONSTANTS["bf16"]))
    rows, plain = option == scaled.ROWS, gemm.describe(shape[:4], precision, machine, option)
    if precision == "fp8" and rows.any():
        base = np.where(rows, scaled.base_ns(shape, precision, machine), base)
    features = (*plain.features, layout, _twos(m), _twos(n), _twos(k), part(k / 128), part(n / 128), part(k / STEP),
                _waste(shape, machine.units, 1, 1), _waste(shape, machine.units, 2, 1),
                _waste(shape, machine.units, 1, 2), log2(base / plain.base), *whole)
    return Described(base, features)
