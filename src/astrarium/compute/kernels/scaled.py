"""fp8 products with a scale for each row, as PyTorch runs them on Hopper: kernels of its own, whose tiles follow from
the shape.

Tiles of 64 x 128 where they fill no more than the device once, else 128 x 128, in clusters of two along one side, of
the product or of its transpose; the inner length is never divided (PyTorch, aten/src/ATen/native/cuda/
RowwiseScaledMM.cu). The constants were fitted on 213 products of PyTorch 2.11 on one H100 (`tools/fit_torch.py
--constants`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from astrarium.arrays import F64, Bool
from astrarium.compute.kernels.gemm import RESULT_BYTES
from astrarium.compute.kernels.machine import BYTES, Machine

__all__ = ["CONSTANTS", "ROWS", "Constants", "base_ns", "tiling"]

ROWS = 1
"""Number of the variant whose operands have a scale for each row."""
STEP = 128          # inner length that a tile computes at once
SMALL, WIDE = 64, 128
UNIT = 1979e3 / 132
"""flop/ns of the multiprocessor on which the constants were fitted."""


class Constants(NamedTuple):
    """ns of a step of a tile of 64 and of 128 rows, and of the rest of each (`finish`); `shared`: how much longer a
    step takes when all multiprocessors are busy; `launch`: ns; `bandwidth`: of the data sheet's; `late`: how far the
    last wave of tiles is as long as a full one; `sharp`: how hard the roof's edge is."""

    small: float = 300.6
    large: float = 332.9
    finish_small: float = 779.6
    finish_large: float = 901.0
    launch: float = 2915.5
    bandwidth: float = 0.788
    late: float = 0.666
    sharp: float = 4.068
    shared: float = 0.137


CONSTANTS = Constants()


def tiling(m: F64, n: F64, units: int) -> tuple[Bool, F64]:
    """(whether tiles have 64 rows, tiles in whole clusters) of products with m x n results on `units` units."""
    rows, columns = np.ceil(m / 64) * 64, np.ceil(n / 64) * 64
    odd, other = rows % 256 > 0, columns % 256 > 0
    few, both = rows * columns <= 4096**2, np.minimum(rows, columns)
    skinny = [(rows == 64) & (columns >= 3072), (columns == 64) & (rows >= 3072), (rows == 192) & (columns >= 4096),
              (columns == 192) & (rows >= 4096)]
    aligned = [few & odd & ~other, few & other & ~odd, odd & other, both >= 4096]
    turned = np.select([*skinny, *aligned], [
        False, True, True, False, True, False, (rows <= columns) ^ (rows * columns <= 1024**2), rows < columns], True)
    down = np.select([*skinny, *aligned], [1, 1, 1, 1, 2, 2, 2, 2],
                     np.where((rows <= columns) ^ (both >= 2048), 1, 2))       # tiles of a cluster along its rows
    right = 3 - down
    along, across = np.where(turned, n, m), np.where(turned, m, n)
    wide = np.ceil(across / (WIDE * right))
    small = np.ceil(along / (SMALL * down)) * wide <= units // 2
    return small, 2 * wide * np.ceil(along / (np.where(small, SMALL, WIDE) * down))


def base_ns(shape: F64, precision: str, machine: Machine, constants: Constants = CONSTANTS) -> F64:
    """Times of products f64 [4 or more, n]: 1, m, n, k."""
    _, m, n, k = shape[:4]
    small, tiles = tiling(m, n, machine.units)
    waves, steps = tiles / machine.units, np.ceil(k / STEP)
    step = np.where(small, constants.small, constants.large) * (1 + constants.shared * np.minimum(waves, 1)**2)
    each = steps * step + np.where(small, constants.finish_small, constants.finish_large)
    each *= UNIT * machine.units / machine.peak(precision)
    taken = each * (constants.late * np.ceil(waves) + (1 - constants.late) * np.maximum(waves, 1))
    moved = (BYTES[precision] * k * (m + n) + RESULT_BYTES * m * n) / (machine.bandwidth * constants.bandwidth)
    sharp, launch = constants.sharp, constants.launch
    found: F64 = ((taken + launch)**sharp + (moved + launch)**sharp)**(1 / sharp)
    return found
