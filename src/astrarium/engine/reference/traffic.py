"""What went over each link or port: bytes and busy time."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from astrarium.engine.plan import NetworkPlan
from astrarium.engine.reference.usage import Usage, no_usage

__all__ = ["Port", "Traffic", "no_traffic"]

# dim, from NPU, to NPU (-1: a switch, or a port without a peer), number of the port; of a graph: 0, its nodes, the link
Port = tuple[int, int, int, int]

COLUMNS = ("link_dim", "link_from", "link_to")


class Traffic:
    """Sums per link or port, and use per dim over time. A graph is one dim. `whole`: per dim the parts per ps that make
    a busy link."""

    def __init__(self, network: NetworkPlan, npus: int, whole: Sequence[int] = ()) -> None:
        self._sums: dict[Port, list[int]] = {}
        self._npus, self._graph = npus, network.graph is not None
        self._usage = Usage(1 if self._graph else len(network.dims), whole)

    def add(self, port: Port, size: int, begin: int, busy: int) -> None:
        """`size` bytes kept `port` busy for `busy` ps from `begin` on."""
        self.shared(port, begin, busy)
        self.carried(port, size, busy)

    def shared(self, port: Port, begin: int, busy: int, rate: int = 1) -> None:
        """Of `port`, `rate` parts per ps were in use for `busy` ps from `begin` on."""
        if 0 <= port[1] < self._npus:
            self._usage.add(port[0], begin, busy, rate)

    def carried(self, port: Port, size: int, busy: int) -> None:
        """`size` bytes took `port` as long as `busy` ps."""
        sums = self._sums.get(port)
        if sums is None:
            self._sums[port] = [size, busy]
        else:
            sums[0] += size
            sums[1] += busy

    def columns(self, makespan: int) -> dict[str, Any]:
        """The `link_*` columns of an Outcome (what carried bytes, ordered by (dim, from, to, number), of a graph by
        number), and `use_*`."""
        ports = sorted(port for port, sums in self._sums.items() if sums[0])
        if self._graph:
            ports.sort(key=itemgetter(3))
        ends = np.array(ports, dtype=np.int32).reshape(-1, 4)
        sums = np.array([self._sums[port] for port in ports], dtype=np.int64).reshape(-1, 2)
        numbers = {"link_number": ends[:, 3].copy()} if self._graph else {}
        return _columns(ends, sums) | numbers | self._usage.columns(makespan)


def no_traffic() -> dict[str, Any]:
    """The `link_*` and `use_*` columns of a run that kept nothing."""
    return _columns(np.zeros((0, 4), np.int32), np.zeros((0, 2), np.int64)) | no_usage()


def _columns(ends: npt.NDArray[np.int32], sums: npt.NDArray[np.int64]) -> dict[str, Any]:
    return {name: ends[:, i].copy() for i, name in enumerate(COLUMNS)} | {
        "link_bytes": sums[:, 0].copy(), "link_busy": sums[:, 1].copy()}
