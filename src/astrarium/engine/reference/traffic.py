"""What went over each link or port: bytes and busy time."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["Traffic"]


class Traffic:
    """Sums per (dim, from NPU, to NPU); -1 where a switch or a port has no peer."""

    def __init__(self) -> None:
        self._sums: dict[tuple[int, int, int], list[int]] = {}

    def add(self, link: tuple[int, int, int], size: int, busy: int) -> None:
        """`size` bytes kept `link` busy for `busy` ps."""
        sums = self._sums.get(link)
        if sums is None:
            self._sums[link] = [size, busy]
        else:
            sums[0] += size
            sums[1] += busy

    def columns(self) -> dict[str, Any]:
        """The `link_*` columns of an Outcome, ordered by (dim, from, to)."""
        names = sorted(self._sums)
        ends = np.array(names, dtype=np.int32).reshape(-1, 3)
        sums = np.array([self._sums[name] for name in names], dtype=np.int64).reshape(-1, 2)
        return {"link_dim": ends[:, 0].copy(), "link_from": ends[:, 1].copy(), "link_to": ends[:, 2].copy(),
                "link_bytes": sums[:, 0].copy(), "link_busy": sums[:, 1].copy()}
