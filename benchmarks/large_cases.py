"""Lower + execute CPU seconds of the large cases against ASTRA-sim's, each run a new process of the drop-in command.

usage: large_cases.py [--runs 5] [--only NAME] [--in-process]

Targets: --fold off at least 8x fewer CPU seconds than ASTRA-sim, --fold auto at least 500x fewer (medians). With
--in-process the same inputs run again and again in this process: what one of many designs in a search costs.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

from _cases import CASES, Case
from _measure import astra_sim, machine, median, process_s

TARGET = {"off": 8.0, "auto": 500.0}


def through_the_command(flags: Sequence[str], fold: str, runs: int) -> tuple[float, int, int]:
    """(median lower + execute CPU s, makespan in ns, events) of new processes."""
    answers = [astra_sim([*flags, f"--fold={fold}"])[0] for _ in range(runs)]
    seconds = median(a["cpu_ns"]["lower"] + a["cpu_ns"]["execute"] for a in answers) / 1e9
    return seconds, answers[0]["makespan_ns"], answers[0]["events"]


def in_process(folder: Path, backend: str, fold: str, runs: int) -> tuple[float, int, int]:
    """The same in this process, inputs read once."""
    from astrarium.astra_sim.files import lower_inputs, read_inputs, read_workload
    from astrarium.engine import execute

    inputs = read_inputs(f"{folder}/w", f"{folder}/system.json", f"{folder}/network.yml", f"{folder}/memory.json", None,
                         backend=f"congestion_{backend}")
    workload = read_workload(inputs)
    seconds = []
    for _ in range(runs):
        before = process_s()
        outcome = execute(lower_inputs(inputs, workload), fold=fold == "auto")
        seconds.append(process_s() - before)
    return median(seconds), outcome.makespan // 1000, outcome.events


def show(case: Case, folder: Path, runs: int, inside: bool) -> None:
    """One line per back end and fold."""
    flags = case.write(folder)
    for backend, theirs in case.user_s.items():
        for fold, target in TARGET.items():
            chosen = [*flags, f"--backend=congestion_{backend}"]
            ours = in_process(folder, backend, fold, runs) if inside else through_the_command(chosen, fold, runs)
            seconds, makespan, events = ours
            known = case.makespan_ns.get(backend, makespan)
            verdict = "ok" if theirs / seconds >= target else "MISSED"
            same = "" if makespan == known else f"  MAKESPAN {makespan} INSTEAD OF {known}"
            print(f"{case.name:15} {backend:8} {case.npus:5} {fold:5} {events:9} {1e3 * seconds:9.2f} {theirs:8.2f} "
                  f"{theirs / seconds:9.0f}x  >= {target:3.0f}x {verdict}{same}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", default="", help="part of a case's name")
    parser.add_argument("--in-process", action="store_true", help="not through the command line")
    options = parser.parse_args()
    print(machine())
    print(f"{'case':15} {'back end':8} {'NPUs':>5} {'fold':5} {'events':>9} {'CPU ms':>9} {'theirs s':>8} "
          f"{'ratio':>10}  target")
    for case in CASES:
        if options.only in case.name:
            with tempfile.TemporaryDirectory() as folder:
                show(case, Path(folder), options.runs, options.in_process)


if __name__ == "__main__":
    main()
