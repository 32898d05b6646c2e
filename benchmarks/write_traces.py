"""Writing the 1,024 trace files of one GPT3-175B training step (96 layers, dp 32, tp 8, pp 4).

usage: write_traces.py [--runs 5] [--micro-batches 1]

Generation and writing, CPU seconds of the process (user + system), into a temporary folder. Target: 10 s for 1,024
files. STAGE's main.py took 36 to 115 CPU seconds for one 1,024-NPU design of 40 to 96 layers (a 2-core x86-64 machine).
Processes instead of threads do not pay: one takes 0.17 CPU s to start, two as much as writing all files.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from _measure import machine, median, process_s

import astrarium as ar
from astrarium.trace.export import Written, write_generated
from astrarium.workload.generate import generate

TARGET_S = 10.0


def once(workload: ar.Transformer, jobs: int, tensors: bool) -> tuple[float, float, float, Written]:
    """(CPU s of generating, CPU s of writing, wall s of writing, what was written)."""
    with tempfile.TemporaryDirectory() as folder:
        start = process_s()
        made = generate(workload)
        middle, wall = process_s(), time.perf_counter()
        written = write_generated(made, Path(folder) / "w", jobs=jobs, tensors=tensors)
        return middle - start, process_s() - middle, time.perf_counter() - wall, written


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--micro-batches", type=int, default=1)
    options = parser.parse_args()
    print(machine())
    batch = 32 * options.micro_batches
    workload = ar.Transformer("gpt3-175b", dp=32, tp=8, pp=4, global_batch=batch, micro_batch=1)
    once(workload, 1, False)
    for jobs in (1, 2):
        for tensors in (False, True):
            found = [once(workload, jobs, tensors) for _ in range(options.runs)]
            generated, cpu, wall = (median(each[k] for each in found) for k in range(3))
            written = found[0][3]
            verdict = "ok" if cpu < TARGET_S else "MISSED"
            print(f"{written.files:,} files, {written.bytes / 1e6:,.0f} MB, {'with' if tensors else 'no'} tensors, "
                  f"{jobs} thread{'s' * (jobs > 1)}: generated in {generated:.3f} CPU s, written in {cpu:.3f} CPU s, "
                  f"{wall:.3f} s on the clock  (target {TARGET_S:g} CPU s: {verdict})", flush=True)


if __name__ == "__main__":
    main()
