"""Issue and completion time of every node, when a run keeps them."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["Record", "no_record"]


class Record:
    """Times in ps per rank and node; -1 for what never happened."""

    def __init__(self, sizes: list[int]) -> None:
        self._start = [[-1] * size for size in sizes]
        self._end = [[-1] * size for size in sizes]

    def rows(self, rank: int) -> tuple[list[int], list[int]]:
        """(start, end) lists [nodes] of one rank, to be filled in."""
        return self._start[rank], self._end[rank]

    def columns(self) -> dict[str, Any]:
        """The node columns of an Outcome."""
        sizes = np.array([len(rows) for rows in self._start], dtype=np.int64)
        pointer = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes)])
        flat = [np.array([t for rows in columns for t in rows], dtype=np.int64) for columns in (self._start, self._end)]
        return {"node_ptr": pointer, "start": flat[0], "end": flat[1]}


def no_record() -> dict[str, Any]:
    """The node columns of a run that kept nothing."""
    return Record([]).columns()
