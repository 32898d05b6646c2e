"""What the benchmarks share: CPU seconds and peak memory of child processes, medians, the name of the machine."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

__all__ = ["astra_sim", "child", "machine", "median", "process_s"]


def median(values: Iterable[float]) -> float:
    """The middle one (the lower of two)."""
    ordered = sorted(values)
    return ordered[(len(ordered) - 1) // 2]


def process_s() -> float:
    """CPU seconds of this process so far."""
    return time.process_time()


def machine() -> str:
    """CPU model, cores, Python and date: what a quoted figure must come with."""
    info = Path("/proc/cpuinfo")
    names = [line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")] \
        if info.exists() else []
    model = names[0] if names else platform.processor() or platform.machine()
    return f"# {model}, {os.cpu_count()} cores, Python {platform.python_version()}, {time.strftime('%Y-%m-%d')}"


def child(command: Sequence[str]) -> tuple[str, float, float]:
    """(stdout, CPU seconds, peak memory in MB) of a command. Its failure is ours, with what it said."""
    process = subprocess.Popen(list(command), stdout=subprocess.PIPE)
    assert process.stdout is not None
    text = process.stdout.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}: exit code {process.returncode}")
    return text, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1000


def astra_sim(flags: Sequence[str]) -> tuple[dict[str, Any], float, float]:
    """(answer, CPU seconds, peak memory in MB) of the drop-in command in a new process."""
    text, seconds, peak = child([sys.executable, "-m", "astrarium", "astra-sim", *flags, "--json"])
    return json.loads(text), seconds, peak
