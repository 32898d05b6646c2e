"""Logs of nccl-tests: read, and fitted to a fabric that a design can name."""

from __future__ import annotations

from pathlib import Path

import pytest

from astrarium.catalog import overlay
from astrarium.collective.fabrics import fabric
from astrarium.collective.measured import Layout, measured_ns
from astrarium.collective.nccl_log import fabric_text, read_log
from astrarium.errors import InputError
from astrarium.vocab import CommOp

HEADER = """# nThread 1 nGpus 8 minBytes 8 maxBytes 1073741824 step: 2(factor) warmup iters: 5 iters: 20
# Using devices
""" + "".join(f"#  Rank  {n} Group  0 Pid 1 on host device  {n} [0x{n}] NVIDIA\n" for n in range(8)) + """#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
"""


def time_us(size: int) -> float:
    """Two protocols: 10 us at 50 GB/s bus bandwidth, or 40 us at 400."""
    bus = size * 2 * 7 / 8
    return min(10 + bus / 50e3, 40 + bus / 400e3)


def log(path: Path) -> Path:
    rows = [f"{size:12d} {size // 4:12d} float sum -1 {time_us(size):8.2f} 1.0 1.0 0 9.99 1 1 0"
            for size in (2**n for n in range(10, 31))]
    path.write_text(HEADER + "\n".join(rows) + "\n# Out of bounds values : 0 OK\n")
    return path


def test_a_log_becomes_the_lines_that_made_it(tmp_path: Path) -> None:
    found = read_log(str(log(tmp_path / "all_reduce_perf.log")))
    assert (found.op, found.ranks, len(found.ns)) == (CommOp.ALL_REDUCE, 8, 21)
    text, errors = fabric_text("nccl_log_test", "450 GB/s", 450.0, [found])
    assert max(errors.values()) < 0.02
    (tmp_path / "mine.toml").write_text(text)
    with overlay(tmp_path / "mine.toml"):
        mine = fabric("nccl_log_test")
    for size in (2**16, 2**22, 2**30):
        ns = measured_ns(CommOp.ALL_REDUCE, size, Layout(8), mine)
        assert ns == pytest.approx(time_us(size) * 1e3, rel=0.03)


def test_what_is_no_log_is_refused(tmp_path: Path) -> None:
    path = log(tmp_path / "unnamed.log")
    with pytest.raises(InputError, match="does not say which test"):
        read_log(str(path))
    other = tmp_path / "all_reduce.csv"
    other.write_text("size,time\n1,2\n")
    with pytest.raises(InputError, match="is no log of nccl-tests"):
        read_log(str(other))
    with pytest.raises(InputError, match="cannot be read"):
        read_log(str(tmp_path / "none.log"))
