"""What a run measures: nodes' times, bytes and busy time of links, their use over time, and queues of packets."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from astrarium.engine.plan import NetworkPlan
from astrarium.errors import UnsupportedError

__all__ = ["BINS", "FIRST_WIDTH", "Port", "Record", "Timeline", "Traffic", "Usage", "no_record", "no_traffic"]

# dim, from NPU, to NPU (-1: a switch, or a port without a peer), number of the port; of a graph: 0, its nodes, the link
Port = tuple[int, int, int, int]

COLUMNS = ("link_dim", "link_from", "link_to")
BINS = 256              # of a dim's use, of a link's queue
FIRST_WIDTH = 1024      # ps of a bin; it doubles as the run grows
END = 2**63


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


class Traffic:
    """Sums per link or port, and use per dim over time. A graph is one dim."""

    def __init__(self, network: NetworkPlan, npus: int) -> None:
        self._sums: dict[Port, list[int]] = {}
        self._npus, self._graph = npus, network.graph is not None
        self._usage = Usage(1 if self._graph else len(network.dims))

    def set_whole(self, whole: Sequence[int]) -> None:
        """Links carry several messages at once: per dim, the parts per ps that make a busy link."""
        self._usage.whole = whole

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


class Usage:
    """Busy ps of the links and ports that leave NPUs, per dim and bin.

    An interval adds to each bin exactly the ps that they share, so neither the order in which intervals come nor when
    the width doubled (pairs of bins becoming one) changes a bin. `whole` [dims]: the parts per ps of a busy link.
    """

    def __init__(self, dims: int) -> None:
        self._width = FIRST_WIDTH
        self.whole: Sequence[int] = [1] * dims
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
        flat = [busy // whole for bins, whole in zip(self._busy, self.whole, strict=True) for busy in bins]
        if max(flat, default=0) >= END:
            raise UnsupportedError("workload", "the busy times of a dim's links in 1/128 of the run add up to more "
                                   "than 2^63 ps")
        return {"use_width": self._width, "use_busy": np.array(flat, dtype=np.int64)}


def no_usage() -> dict[str, Any]:
    """The `use_*` columns of a run that kept nothing."""
    return {"use_width": 0, "use_busy": np.zeros(0, dtype=np.int64)}


class Timeline:
    """Of every link, each change of the bytes that wait for it, and each pause."""

    def __init__(self, links: int) -> None:
        self._queues: list[list[tuple[int, int]]] = [[] for _ in range(links)]
        self._pauses: list[list[tuple[int, int]]] = [[] for _ in range(links)]
        self._last = 0

    def queue(self, link: int, now: int, size: int) -> None:
        """`size` bytes wait for a link from now on."""
        changes = self._queues[link]
        if size or (changes and changes[-1][1]):
            changes.append((now, size))
            self._last = max(self._last, now)

    def paused(self, link: int, begin: int, end: int) -> None:
        """PFC stopped the link."""
        self._pauses[link].append((begin, end))
        self._last = max(self._last, end)

    def columns(self) -> dict[str, Any]:
        """Fields of `PacketCounts`."""
        watched = [link for link, pair in enumerate(zip(self._queues, self._pauses, strict=True)) if any(pair)]
        width = FIRST_WIDTH
        while self._last >= BINS * width:
            width *= 2
        longest, paused = (np.zeros((len(watched), BINS), np.int64) for _ in range(2))
        for row, link in enumerate(watched):
            before, since = 0, 0
            for now, size in self._queues[link]:
                first, last = since // width, now // width
                longest[row, first:last + 1] = np.maximum(longest[row, first:last + 1], before)
                longest[row, last] = max(longest[row, last], size)
                before, since = size, now
            for begin, end in self._pauses[link]:
                for place in range(begin // width, -(-end // width)):
                    paused[row, place] += min(end, (place + 1) * width) - max(begin, place * width)
        return {"width": width if watched else 0, "watched": np.array(watched, np.int32),
                "longest": longest.reshape(-1), "paused_in": paused.reshape(-1)}
