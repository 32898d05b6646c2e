"""Logs of nccl-tests for tests: made up of given times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

COLUMNS = """#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
"""
SIZES = tuple(2**n for n in range(10, 31))


def ranks(hosts: int, each: int, *, host: str = "node-{}") -> str:
    """The lines of the ranks, as nccl-tests prints them."""
    return "# Using devices\n" + "".join(
        f"#  Rank {n:2d} Group  0 Pid {100 + n:6d} on {host.format(n // each)} device {n % each:2d} "
        f"[0000:{16 + n % each:02x}:00] NVIDIA H100\n" for n in range(hosts * each))


def log(path: Path, time_us: Callable[[int], float], header: str, sizes: Sequence[int] = SIZES, wrong: int = 0) -> Path:
    """A log of the test that `path` names."""
    rows = [f"{size:12d} {size // 4:12d} float sum -1 {time_us(size):8.2f} 1.0 1.0 {wrong} 9.99 1 1 0"
            for size in sizes]
    path.write_text(f"# nThread 1 nGpus 1 minBytes 8\n{header}{COLUMNS}" + "\n".join(rows) + "\n# Avg bus bandwidth\n")
    return path
