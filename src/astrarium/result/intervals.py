"""Lengths of unions of intervals, for many rows at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from astrarium.arrays import I64

__all__ = ["Intervals"]


class Intervals:
    """Intervals [start, end) in ps, each on one of `rows` rows; sorted once, asked about often."""

    def __init__(self, row: npt.ArrayLike, start: npt.ArrayLike, end: npt.ArrayLike, rows: int) -> None:
        at, begin, stop = (np.asarray(values, np.int64) for values in (row, start, end))
        order = np.lexsort((begin, at))
        self.order, self.rows = order, rows
        self.row, self.start, self.end = at[order], begin[order], stop[order]
        span = int(self.end.max(initial=0)) + 1
        if rows * span < 2**62:
            self._shift = self.row * span
            self._top = self.end + self._shift
        else:   # times so long that rows cannot be told apart by adding: use the rank of every time instead
            found, place = np.unique(self.end, return_inverse=True)
            self._shift = self.row * np.int64(found.size)
            self._top = place.reshape(-1) + self._shift
            self._times = found
        self._dense = rows * span >= 2**62

    def union(self, chosen: npt.ArrayLike) -> I64:
        """Length of the union of the `chosen` intervals (a mask, in the constructor's order) per row, ps [rows]."""
        keep = np.asarray(chosen, np.bool_)[self.order]
        row, start, end, top = self.row[keep], self.start[keep], self.end[keep], self._top[keep]
        length = np.zeros(self.rows, np.int64)
        if not row.size:
            return length
        reached = np.maximum.accumulate(top) - self._shift[keep]
        before = np.empty(row.size, np.int64)     # how far the row was covered before each interval
        before[0] = 0
        before[1:] = self._times[reached[:-1]] if self._dense else reached[:-1]
        fresh = np.ones(row.size, np.bool_)
        fresh[1:] = row[1:] != row[:-1]
        before[fresh] = 0
        added = np.maximum(end - np.maximum(start, before), 0)
        np.add.at(length, row, added)
        return length
