"""Memory of a long search: resident MB of `astrarium search` after so many trials, in a process of its own.

usage: search_memory.py [TRIALS] [AGENT]        (default: 100000 genetic)

The space is small networks for a small model on 8 NPUs, over workloads and collectives, so that trials are cheap; store
on disk, every simulation run. Trials are counted in the study's file while it is written.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

from _measure import machine

MARKS = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0)
SPACE = {
    "base": {
        "workload": {
            "source": "transformer", "dp": 8, "tp": 1, "global_batch": 64, "micro_batch": 1, "zero": 0,
            "model": {"family": "decoder", "layers": 2, "d_model": 256, "heads": 8, "ffn": 1024, "vocab": 1000,
                      "seq": 128}},
        "network": {"dims": [{"shape": "ring", "npus": 2, "bandwidth": "50 GB/s", "latency": "500 ns"}] * 3},
        "collective": {"all_reduce": ["ring"] * 3}, "compute": {"model": "roofline", "peak": "10 TFLOP/s"},
        "memory": {"bandwidth": "1 TB/s"}},
    "choices": {
        "workload.tp": [1, 2, 4, 8], "workload.zero": [0, 1, 2, 3], "workload.micro_batch": [1, 2, 4, 8],
        "collective.all_reduce[*]": ["ring", "direct", "halving_doubling"], "collective.chunks": [1, 2, 4],
        "collective.composition": ["baseline", "blueconnect"],
        "network.dims[*].bandwidth": {"from": "10 GB/s", "to": "1000 GB/s", "step": "1 GB/s"},
        "network.dims[*].latency": {"from": "100 ns", "to": "2000 ns", "step": "1 ns"}},
    "derived": {"workload.dp": "8 // workload.tp"},
    "minimize": "runtime_x_bandwidth",
}


def resident(process: int) -> float:
    """MB."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def written(study: Path) -> int:
    """Trials in the file so far."""
    try:
        with closing(sqlite3.connect(f"file:{study}?mode=ro", uri=True)) as data:
            return int(data.execute("SELECT ifnull(max(number) + 1, 0) FROM trial").fetchone()[0])
    except sqlite3.Error:
        return 0


def main(trials: int, agent: str) -> None:
    print(machine())
    with tempfile.TemporaryDirectory() as folder:
        space, study = Path(folder) / "space.json", Path(folder) / "long.study"
        space.write_text(json.dumps(SPACE))
        command = [sys.executable, "-m", "astrarium", "search", str(space), "--agent", agent, "--trials", str(trials),
                   "--study", str(study), "--json"]
        start = time.monotonic()
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            marks = [round(trials * mark) for mark in MARKS]
            while process.poll() is None and marks:
                done = written(study)
                if done >= marks[0]:
                    print(f"  {done:>9,} trials: {resident(process.pid):7.1f} MB", flush=True)
                    marks = [mark for mark in marks if mark > done]
                time.sleep(0.2)
            out, said = process.communicate()
        taken = time.monotonic() - start
        if process.returncode:
            raise SystemExit(said)
        found = json.loads(out)
        print(f"  {agent}: {found['trials']:,} trials in {taken:.0f} s, "
              f"{os.path.getsize(study) / found['trials']:.0f} bytes of file a trial")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000, sys.argv[2] if len(sys.argv) > 2 else "genetic")
