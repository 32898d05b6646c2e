"""numpy.unique for integers without its detour over masked arrays (importing numpy.ma costs 7 ms)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from astrarium.arrays import I64

__all__ = ["distinct", "distinct_rows"]


def distinct(values: npt.NDArray[np.integer]) -> tuple[I64, I64, I64]:
    """(sorted distinct values, first index of each, index of each value's distinct one) of an array, flattened."""
    flat = np.asarray(values, dtype=np.int64).ravel()
    if flat.size == 1 or (flat.size and (flat == flat[0]).all()):  # equal ranks: one value
        return flat[:1], np.zeros(1, dtype=np.int64), np.zeros(flat.size, dtype=np.int64)
    order = np.argsort(flat, kind="stable")
    ordered = flat[order]
    fresh = np.ones(flat.size, dtype=np.bool_)
    fresh[1:] = ordered[1:] != ordered[:-1]
    which = np.empty(flat.size, dtype=np.int64)
    which[order] = np.cumsum(fresh) - 1
    return ordered[fresh], order[fresh], which


def distinct_rows(rows: npt.NDArray[np.integer]) -> tuple[I64, I64]:
    """(distinct rows [k, columns] in lexicographic order, index of each row's distinct one) of a [n, columns] array."""
    table = np.asarray(rows, dtype=np.int64)
    if len(table) == 1:
        return table, np.zeros(1, dtype=np.int64)
    order = np.lexsort(table.T[::-1])
    ordered = table[order]
    fresh = np.ones(len(table), dtype=np.bool_)
    fresh[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    which = np.empty(len(table), dtype=np.int64)
    which[order] = np.cumsum(fresh) - 1
    return ordered[fresh], which
