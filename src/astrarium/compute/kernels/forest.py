"""Sums of symmetric decision trees over fixed-point features: a few array operations for all trees at once.

In a symmetric (oblivious) tree every node of one depth asks the same question, so a tree of depth d is d comparisons
whose bits number one of 2^d leaves (Kohavi, Li, "Oblivious decision trees", IJCAI 1995; the trees of CatBoost).
Features are rounded to multiples of 1/512 before fitting and before evaluation, so both see equal integers.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.arrays import F64, I16

__all__ = ["LEAF_UNIT", "SCALE", "Forest", "fixed_point"]

SCALE = 512
LEAF_UNIT = 2.0**-12
BLOCK = 128


def fixed_point(columns: npt.ArrayLike) -> I16:
    """Features as multiples of 1/512, cut at +-63.9: int16, the shape of `columns`."""
    units: F64 = np.rint(np.clip(np.asarray(columns, np.float64) * SCALE, -32767, 32767))
    return units.astype(np.int16)


class Forest(Struct, frozen=True, eq=False, dict=True):
    """`feature` u8 and `threshold` i16 [trees, depth]; `leaf` i16 [trees, 2^depth] in units of 2^-12; `bias`.

    Bit i of a tree's leaf number is 1 where the feature of question i is above its threshold.
    """

    feature: npt.NDArray[np.uint8]
    threshold: I16
    leaf: I16
    bias: float

    @cached_property
    def _questions(self) -> tuple[npt.NDArray[np.intp], I16, npt.NDArray[np.intp]]:
        """(feature, threshold) of question i of every tree, i by i; the place of every tree's first leaf."""
        trees, depth = self.feature.shape
        return (self.feature.T.ravel().astype(np.intp), np.ascontiguousarray(self.threshold.T)[:, :, None],
                (np.arange(trees, dtype=np.intp) << depth)[:, None])

    def __call__(self, columns: I16) -> F64:
        """The sum of all trees, f64 [n], for features i16 [features, n]."""
        (trees, depth), (feature, threshold, first) = self.feature.shape, self._questions
        leaves, total = self.leaf.ravel(), np.empty(columns.shape[1])
        for start in range(0, columns.shape[1], BLOCK):
            asked = columns[:, start:start + BLOCK].take(feature, axis=0, mode="clip")
            above = (asked.reshape(depth, trees, asked.shape[1]) > threshold).view(np.uint8)
            number = above[0]
            for bit in range(1, depth):
                number |= above[bit] << bit
            total[start:start + BLOCK] = leaves.take(number + first, mode="clip").sum(axis=0, dtype=np.int32)
        return total * LEAF_UNIT + self.bias

    @functools.lru_cache(maxsize=256)       # noqa: B019
    def _apart(self, row: int) -> tuple[Forest, Forest]:
        """Trees that do not ask a feature, and those that do."""
        asks = (self.feature == row).any(axis=1)
        return (Forest(self.feature[~asks], self.threshold[~asks], self.leaf[~asks], self.bias),
                Forest(self.feature[asks], self.threshold[asks], self.leaf[asks], 0.0))

    def each(self, columns: I16, row: int, values: Sequence[int]) -> F64:
        """The sums [values, n] where one feature, `row`, has each of the values: trees that do not ask it run once."""
        common, own = self._apart(row)
        every = np.tile(columns, len(values))
        every[row] = np.repeat(fixed_point(np.array(values, np.float64)), columns.shape[1])
        found: F64 = common(columns) + own(every).reshape(len(values), -1)
        return found
