"""What a user's own rows correct: a Gaussian process over the logarithm of measured / predicted.

Covariance of two kernels: 1 (an offset of the whole device) + 0.4^2 exp(-d / 32), d the sum of the absolute differences
of their features; noise 0.1 (7 % of a time) (Rasmussen, Williams, "Gaussian Processes for Machine Learning", 2006,
algorithm 2.1). The constants are the same for every device and class; they were chosen on bf16 products of A100, L40S
and B200, whose sheet and H100's rows were corrected by 60 to 400 of their rows.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.arrays import F64, I16
from astrarium.compute.kernels.forest import SCALE

__all__ = ["MOST", "Correction", "corrected_by"]

MOST = 500
"""Rows of one class and precision that a correction keeps."""
AMPLITUDE, LENGTH, NOISE, OFFSET = 0.4, 32.0, 0.1, 1.0
BLOCK = 256


class Correction(Struct, frozen=True, eq=False):
    """`points` i16 [features, rows], `weight` f64 [rows]: what is added to log2 of a predicted time."""

    points: I16
    weight: F64

    def __call__(self, columns: I16) -> F64:
        """The correction [n] at features i16 [features, n]."""
        total = np.empty(columns.shape[1])
        for start in range(0, columns.shape[1], BLOCK):
            block = columns[:, start:start + BLOCK]
            total[start:start + BLOCK] = _covariance(block, self.points) @ self.weight
        return total


def corrected_by(columns: I16, residual: F64) -> Correction:
    """The correction that rows make: features i16 [features, rows], log2(measured / predicted) [rows].

    Of more than MOST rows, evenly spaced ones are kept."""
    kept = np.unique(np.linspace(0, len(residual) - 1, min(MOST, len(residual))).round().astype(int))
    points, rest = columns[:, kept], residual[kept]
    weight: F64 = np.linalg.solve(_covariance(points, points) + NOISE**2 * np.eye(len(rest)), rest).astype(np.float64)
    return Correction(points, weight)


def _covariance(one: I16, other: I16) -> npt.NDArray[np.float64]:
    apart = np.zeros((one.shape[1], other.shape[1]), np.float32)
    for row, column in zip(one.astype(np.float32), other.astype(np.float32)):
        apart += np.abs(row[:, None] - column[None, :])
    found: F64 = OFFSET + AMPLITUDE**2 * np.exp(-apart.astype(np.float64) / (SCALE * LENGTH))
    return found
