"""Searches that are told to end: within one design or five seconds, wherever designs run, and no process stays."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from astrarium.engine import HAVE_CORE

from .test_study import rows

SLOW = """
base:
  workload: {source: transformer, model: llama3-8b, global_batch: 128, micro_batch: 1, dp: 64, pp: 2}
  network:
    backend: contention
    dims: [{shape: ring, npus: 16, bandwidth: 50 GB/s, latency: 1 us}, {shape: ring, npus: 8, bandwidth: 50 GB/s,
            latency: 1 us}]
  compute: {model: roofline, peak: 989 TFLOP/s}
  memory: {bandwidth: 3 TB/s}
  fold: "off"
choices:
  network.dims[*].bandwidth: {from: 1 GB/s, to: 900 GB/s, step: 1 GB/s}
  collective.chunks: [16]
agent: {agent: random, batch: 256}
"""
SECONDS = 5.0

pytestmark = pytest.mark.skipif(not HAVE_CORE, reason="the pure-Python engine ends its design first")


def processes(session: int) -> dict[str, float]:
    """Command lines of the session's processes that run, each with its number, and the CPU seconds of each."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, _, _, own, *more = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(own) == session and state != "Z":
                words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                found[f"{folder.name} {words}"] = (int(more[7]) + int(more[8])) / os.sysconf("SC_CLK_TCK")
        except OSError:
            continue
    return found


def alive(session: int) -> list[str]:
    """Command lines of the session's processes that run."""
    return list(processes(session))


def at_work(session: int, flags: tuple[str, ...]) -> bool:
    """Whether a search runs designs: it and its workers have had more of the processor than they need to start."""
    seconds = sorted(processes(session).values(), reverse=True)
    return sum(seconds[:3]) > 1.8 if "--processes" in flags else sum(seconds) > 0.8


def has_study(path: Path) -> bool:
    """Whether a study stands in the file: its process makes the file first, then its tables."""
    try:
        return path.exists() and rows(path) is not None
    except sqlite3.OperationalError:
        return False


def begun(tmp_path: Path, *flags: str) -> subprocess.Popen[bytes]:
    """A search in a session of its own, at work."""
    (tmp_path / "space.yaml").write_text(SLOW)
    with open(tmp_path / "said", "w") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "astrarium", "search", "space.yaml", "--trials", "1000", "--study", "s", *flags],
            cwd=tmp_path, env={**os.environ, "RAY_USAGE_STATS_ENABLED": "0"},
            start_new_session=True, stderr=said)
    while not has_study(tmp_path / "s") and process.poll() is None:
        time.sleep(0.05)
    while process.poll() is None and not at_work(process.pid, flags):
        time.sleep(0.05)
    assert process.poll() is None
    return process


def gone(session: int, seconds: float) -> bool:
    over = time.monotonic() + seconds
    while alive(session):
        if time.monotonic() > over:
            return False
        time.sleep(0.05)
    return True


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc to look for processes in")
@pytest.mark.parametrize("flags", [
    pytest.param((), marks=pytest.mark.exam),       # in one thread: tests/engine/test_limits.py
    ("-j", "2"), ("-j", "2", "--processes"), pytest.param(("--ray", "local"), marks=pytest.mark.exam)],
    ids=" ".join)
def test_sigterm_ends_all_of_it(flags: tuple[str, ...], tmp_path: Path) -> None:
    if "--ray" in flags:
        pytest.importorskip("ray", reason="no Ray here: pip install 'astrarium[ray]'")
    process = begun(tmp_path, *flags)
    process.terminate()
    try:
        assert process.wait(SECONDS) == 143
        assert gone(process.pid, SECONDS), alive(process.pid)
    finally:
        if alive(process.pid):
            os.killpg(process.pid, signal.SIGKILL)
    if "--processes" not in flags:      # a process that is ended while it starts may say so
        assert "Traceback" not in (tmp_path / "said").read_text()
    assert [row[0] for row in rows(tmp_path / "s")] == list(range(len(rows(tmp_path / "s"))))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc to look for processes in")
def test_worker_processes_end_with_a_search_that_is_killed(tmp_path: Path) -> None:
    process = begun(tmp_path, "-j", "2", "--processes")
    assert len(alive(process.pid)) > 2
    process.kill()
    process.wait()
    assert gone(process.pid, SECONDS), alive(process.pid)
