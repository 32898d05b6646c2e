"""What went over each link or port: bytes and busy time."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["Port", "Traffic", "no_traffic"]

Port = tuple[int, int, int, int]  # dim, from NPU, to NPU (-1: a switch, or a port without a peer), number of the port

COLUMNS = ("link_dim", "link_from", "link_to")


class Traffic:
    """Sums per link or port."""

    def __init__(self) -> None:
        self._sums: dict[Port, list[int]] = {}

    def add(self, port: Port, size: int, busy: int) -> None:
        """`size` bytes kept `port` busy for `busy` ps."""
        sums = self._sums.get(port)
        if sums is None:
            self._sums[port] = [size, busy]
        else:
            sums[0] += size
            sums[1] += busy

    def columns(self) -> dict[str, Any]:
        """The `link_*` columns of an Outcome: what carried bytes, ordered by (dim, from, to, number)."""
        ports = sorted(port for port, sums in self._sums.items() if sums[0])
        ends = np.array(ports, dtype=np.int32).reshape(-1, 4)
        sums = np.array([self._sums[port] for port in ports], dtype=np.int64).reshape(-1, 2)
        return {name: ends[:, i].copy() for i, name in enumerate(COLUMNS)} | {
            "link_bytes": sums[:, 0].copy(), "link_busy": sums[:, 1].copy()}


def no_traffic() -> dict[str, Any]:
    """The `link_*` columns of a run that kept nothing."""
    return Traffic().columns()
