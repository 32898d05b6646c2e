"""How long links are busy, over time: bins whose width doubles as the run grows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from astrarium.errors import UnsupportedError

__all__ = ["BINS", "Usage", "no_usage"]

BINS = 256
FIRST_WIDTH = 1024      # ps
END = 2**63


class Usage:
    """Busy ps of the links and ports that leave NPUs, per dim and bin.

    An interval adds to each bin exactly the ps that they share, so neither the order in which intervals come nor when
    the width doubled (pairs of bins becoming one) changes a bin. Where links carry several messages at once, `whole`
    parts per ps are a busy link of each dim.
    """

    def __init__(self, dims: int, whole: Sequence[int] = ()) -> None:
        self._width, self._whole = FIRST_WIDTH, whole or (1,) * dims
        self._busy = [[0] * BINS for _ in range(dims)]

    def add(self, dim: int, begin: int, busy: int, rate: int = 1) -> None:
        """A link of `dim` is busy, with `rate` parts of it, for `busy` ps from `begin` on."""
        if not busy:
            return
        end = begin + busy
        self._reach(end)
        bins, width = self._busy[dim], self._width
        for number in range(begin // width, (end - 1) // width + 1):
            bins[number] += (min(end, (number + 1) * width) - max(begin, number * width)) * rate

    def _reach(self, end: int) -> None:
        while end > BINS * self._width:
            self._width *= 2
            self._busy = [[a + b for a, b in zip(bins[::2], bins[1::2], strict=True)] + [0] * (BINS // 2)
                          for bins in self._busy]

    def columns(self, makespan: int) -> dict[str, Any]:
        """The `use_*` columns of an Outcome; the bins reach to its makespan at least. Raises UnsupportedError for sums
        that no int64 holds."""
        self._reach(makespan)
        flat = [busy // whole for bins, whole in zip(self._busy, self._whole, strict=True) for busy in bins]
        if max(flat, default=0) >= END:
            raise UnsupportedError("workload", "the busy times of a dim's links in 1/128 of the run add up to more "
                                   "than 2^63 ps")
        return {"use_width": self._width, "use_busy": np.array(flat, dtype=np.int64)}


def no_usage() -> dict[str, Any]:
    """The `use_*` columns of a run that kept nothing."""
    return {"use_width": 0, "use_busy": np.zeros(0, dtype=np.int64)}
