"""Sums of symmetric decision trees over fixed-point features: a few array operations for all trees at once.

In a symmetric (oblivious) tree every node of one depth asks the same question, so a tree of depth d is d comparisons
whose bits number one of 2^d leaves (Kohavi, Li, "Oblivious decision trees", IJCAI 1995; the trees of CatBoost).
Features are rounded to multiples of 1/512 before fitting and before evaluation, so both see equal integers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

__all__ = ["LEAF_UNIT", "SCALE", "Forest", "fixed_point"]

SCALE = 512
LEAF_UNIT = 2.0**-12
BLOCK = 512
F64 = npt.NDArray[np.float64]
I16 = npt.NDArray[np.int16]


def fixed_point(columns: npt.ArrayLike) -> I16:
    """Features as multiples of 1/512, cut at +-63.9: int16, the shape of `columns`."""
    units: F64 = np.rint(np.clip(np.asarray(columns, np.float64) * SCALE, -32767, 32767))
    return units.astype(np.int16)


class Forest(Struct, frozen=True, eq=False):
    """`feature` u8 and `threshold` i16 [trees, depth]; `leaf` i16 [trees, 2^depth] in units of 2^-12; `bias`.

    Bit i of a tree's leaf number is 1 where the feature of question i is above its threshold.
    """

    feature: npt.NDArray[np.uint8]
    threshold: I16
    leaf: I16
    bias: float

    def __call__(self, columns: I16) -> F64:
        """The sum of all trees, f64 [n], for features i16 [features, n]."""
        trees, depth = self.feature.shape
        values = self.leaf.astype(np.int32).ravel()
        base = (np.arange(trees, dtype=np.intp) << depth)[:, None]
        total = np.empty(columns.shape[1])
        for start in range(0, columns.shape[1], BLOCK):
            block = np.ascontiguousarray(columns[:, start:start + BLOCK])
            number = np.zeros((trees, block.shape[1]), np.uint8)
            for bit in range(depth):
                above = np.take(block, self.feature[:, bit], axis=0, mode="clip") > self.threshold[:, bit, None]
                number |= np.multiply(above.view(np.uint8), np.uint8(1 << bit))
            total[start:start + BLOCK] = values.take(number + base, mode="clip").sum(axis=0, dtype=np.int32)
        return total * LEAF_UNIT + self.bias

    def each(self, columns: I16, row: int, values: Sequence[int]) -> F64:
        """The sums [values, n] where one feature, `row`, has each of the values: trees that do not ask it run once."""
        asks = (self.feature == row).any(axis=1)
        common = Forest(self.feature[~asks], self.threshold[~asks], self.leaf[~asks], self.bias)(columns)
        own = Forest(self.feature[asks], self.threshold[asks], self.leaf[asks], 0.0)
        out = np.empty((len(values), columns.shape[1]))
        for number, value in enumerate(values):
            columns[row] = fixed_point(float(value))
            out[number] = common + own(columns)
        return out
