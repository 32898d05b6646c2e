"""Reading and simulating 1,024 trace files of 850 nodes each (dp 64, tp 8, pp 2), through the drop-in command.

usage: gpt_1024.py [--runs 5] [--keep FOLDER]

The files (260 MB) are written to a temporary folder first (see _gpt_traces.py), or to FOLDER, where a second run finds
them. Targets, CPU seconds of the whole process with reading: --fold off under 4 s and 900 MB, --fold auto under 0.8 s,
and the same integers. ASTRA-sim at 518bd51 took 126 to 139 CPU s and 1.34 GB for traces of this size (870,400 nodes,
4 chunks, 2 active, a 2-core x86-64 machine).
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from _cases import flags
from _gpt_traces import Gpt, write_gpt
from _measure import astra_sim, machine, median

THEIRS_S = 125.73
TARGETS = {"off": (4.0, 900.0), "auto": (0.8, 900.0)}
LISTS = ["ring", "direct", "ring", "halvingDoubling"]


def write_system(folder: Path) -> list[str]:
    """The system that ASTRA-sim was measured with; the flags that name the files."""
    system: dict[str, Any] = {
        "scheduling-policy": "LIFO", "endpoint-delay": 10, "active-chunks-per-dimension": 2,
        "preferred-dataset-splits": 4, "collective-optimization": "localBWAware", "local-mem-bw": 2039,
        "roofline-enabled": 1, "peak-perf": 312}
    for op in ("all-reduce", "all-gather", "reduce-scatter"):
        system[f"{op}-implementation"] = LISTS
    (folder / "system.json").write_text(json.dumps(system))
    (folder / "network.yml").write_text("topology: [Ring, FullyConnected, Ring, Switch]\nnpus_count: [4, 8, 4, 8]\n"
                                        "bandwidth: [375, 175, 150, 100]\nlatency: [100, 200, 300, 500]\n")
    (folder / "memory.json").write_text('{"memory-type": "NO_MEMORY_EXPANSION"}')
    return flags(folder, groups=True)


def measure(arguments: list[str], runs: int) -> None:
    """One line per fold, and whether every rank has the same integers."""
    answers = {}
    for fold, (seconds, megabytes) in TARGETS.items():
        found = [astra_sim([*arguments, "--backend=congestion_unaware", f"--fold={fold}"]) for _ in range(runs)]
        answers[fold] = found[0][0]
        cpu, peak = median(f[1] for f in found), median(f[2] for f in found)
        parts = {key: median(f[0]["cpu_ns"][key] / 1e9 for f in found) for key in found[0][0]["cpu_ns"]}
        verdict = "ok" if cpu < seconds and peak < megabytes else "MISSED"
        shown = ", ".join(f"{key} {value:.3f}" for key, value in parts.items())
        print(f"--fold {fold:4} {cpu:6.3f} CPU s ({shown}), {peak:4.0f} MB, {answers[fold]['events']:,} events, "
              f"makespan {answers[fold]['makespan_ns'] / 1e6:.3f} ms; {THEIRS_S / cpu:.0f}x  (target {seconds:g} s, "
              f"{megabytes:g} MB: {verdict})", flush=True)
    same = answers["off"]["ranks"] == answers["auto"]["ranks"]
    print("same integers for every rank" if same else "DIFFERENT INTEGERS")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--keep", type=Path, help="write the traces here, or use those that are here")
    options = parser.parse_args()
    print(machine())
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        gpt = Gpt()
        if not (folder / f"w.{gpt.ranks - 1}.et").exists():
            write_gpt(folder, gpt)
        measure(write_system(folder), options.runs)


if __name__ == "__main__":
    main()
