"""Algorithm and bus bandwidth in the conventions of nccl-tests.

Source: NVIDIA nccl-tests, doc/PERFORMANCE.md: algbw = S / t; busbw = algbw * factor, which removes the number of
ranks so that the figure compares with the hardware's. S is the whole payload: of an all_gather, reduce_scatter,
gather or scatter the sum over the ranks' shards, else one rank's buffer. (The factors of gather and scatter are those
of its gather_perf and scatter_perf: (n - 1) / n.)
"""

from __future__ import annotations

from astrarium.errors import InputError, UnsupportedError
from astrarium.vocab import CommOp

__all__ = ["algbw", "bus_factor", "busbw", "payload"]

_SHARDED = frozenset({CommOp.ALL_GATHER, CommOp.REDUCE_SCATTER, CommOp.REDUCE_SCATTER_BLOCK, CommOp.ALL_TO_ALL,
                      CommOp.GATHER, CommOp.SCATTER})


def payload(op: CommOp, size: int, n: int) -> int:
    """S in bytes from a trace's `size` on `n` ranks: all_gather and gather count the shard, others the full buffer."""
    return size * n if op in (CommOp.ALL_GATHER, CommOp.GATHER) else size


def bus_factor(op: CommOp, n: int) -> float:
    """busbw / algbw on `n` ranks. A barrier moves nothing and has none: UnsupportedError."""
    if n < 1:
        raise InputError("ranks", f"{n}", expected="at least 1")
    if op == CommOp.BARRIER:
        raise UnsupportedError("op", "a barrier moves no bytes, so it has no bus bandwidth")
    if op == CommOp.ALL_REDUCE:
        return 2 * (n - 1) / n
    return (n - 1) / n if op in _SHARDED else 1.0


def algbw(op: CommOp, size: int, n: int, time_ns: float) -> float:
    """S / t in bytes per ns (GB/s); `time_ns` must be positive."""
    if not time_ns > 0:
        raise InputError("time", f"{time_ns} ns", expected="a positive time")
    return payload(op, size, n) / time_ns


def busbw(op: CommOp, size: int, n: int, time_ns: float) -> float:
    """Bus bandwidth in bytes per ns (GB/s)."""
    return algbw(op, size, n, time_ns) * bus_factor(op, n)
