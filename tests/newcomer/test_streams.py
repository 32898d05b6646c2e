"""Full disks, closed streams, signals: a clear end, nothing half-written."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .conftest import write_traces

COMMAND = [sys.executable, "-m", "astrarium"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("arguments", [["list", "shape"], ["run", "DESIGN"], ["run", "DESIGN", "--json"]])
def test_a_full_disk_is_not_our_bug(arguments: list[str], design: Path) -> None:
    words = [str(design) if word == "DESIGN" else word for word in arguments]
    with open("/dev/full", "wb") as full:
        done = subprocess.run([*COMMAND, *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert "astrarium: standard output: No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_closed_streams_are_no_error(design: Path) -> None:
    shell = f'"{sys.executable}" -m astrarium run "{design}" --json'
    assert subprocess.run(f"{shell} >&- 2>&-", shell=True, check=False).returncode == 0
    done = subprocess.run(f"{shell} 2>&-", shell=True, check=False, stdout=subprocess.PIPE)
    assert done.returncode == 0
    assert json.loads(done.stdout)["summary"]["makespan_ns"] > 0


@pytest.mark.parametrize(("name", "code"), [("SIGTERM", 143), ("SIGINT", 130)])
def test_signals_leave_nothing_half_written(name: str, code: int, tmp_path: Path) -> None:
    write_traces(tmp_path / "et", 16, collectives=1000)
    design = tmp_path / "design.yaml"
    design.write_text("workload: {source: trace, path: et/w.*.et}\n"
                      "network: {dims: [{shape: ring, npus: 16, bandwidth: 50 GB/s, latency: 500 ns}]}\n")
    old = tmp_path / "timeline.json"
    old.write_text("old")
    process = subprocess.Popen([*COMMAND, "run", str(design), "--timeline", str(old), "--timeline-ranks", "0-15"],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and not list(tmp_path.glob(".*")):
        time.sleep(0.002)
    process.send_signal(getattr(signal, name))
    ended, text = process.wait(20), old.read_text()
    if text == "old":
        assert ended == code
    else:      # the file was complete before the signal came
        json.loads(text)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["design.yaml", "et", "timeline.json"]
