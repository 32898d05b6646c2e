"""Tables of a recorded run, from rows of different lengths."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["MOST_BINS", "bins_of", "split"]

MOST_BINS = 1 << 16     # of a recorded run; later use of ports is left out in both engines, and the run refused


def split(row: Sequence[int], sizes: Sequence[int]) -> list[list[int]]:
    """One list per workgroup, of a row that has all of their operations."""
    found, at = [], 0
    for size in sizes:
        found.append(list(row[at:at + size]))
        at += size
    return found


def bins_of(busy: Sequence[Sequence[Sequence[int]]], ports: int) -> npt.NDArray[np.int64]:
    """[GPUs, ports, bins] of rows [GPU][port][bin] that end with their last use; a GPU that sent nothing has none."""
    bins = max((len(row) for gpu in busy for row in gpu), default=0)
    table = np.zeros((len(busy), ports, bins), np.int64)
    for gpu, rows in enumerate(busy):
        for port, row in enumerate(rows):
            table[gpu, port, :len(row)] = row
    return table
