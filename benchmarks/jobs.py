"""Sixteen training jobs of 256 ranks on one fabric of 4,096 NPUs: CPU seconds by placement and back end.

usage: jobs.py [--backend closed_form contention ...] [--placement packed spread random ...] [--alone]
       jobs.py --drawn FIRST COUNT [--even] [--limit CPU_S]
       jobs.py --check FIRST COUNT

Eight jobs train llama3-8b, eight gpt3-13b, each with tp 8 and dp 32: a step of one sequence per replica, on hosts of 8
NPUs (a switch) in a torus of 16 x 32 hosts. A line is one `simulate` in a new process, with reading, lowering, the
run and its node times. `closed_form` folds; `contention` and `fluid` run every rank. `--alone` adds the sixteen runs of
single jobs that slowdowns need. Target: 60 CPU s each.

`--drawn` measures sets that nobody chose: `_drawn_jobs.py` draws each from a seed, FIRST to FIRST + COUNT - 1, of
sixteen jobs of 64 to 1,024 ranks, with `--even` of 256. Each runs in a process of its own, which is ended beyond
`--limit` CPU seconds (its line says "over"; medians count it as the limit) or 4 GiB of address space. `--check` draws
smaller sets (4 jobs on 256 NPUs) and compares every node and link of each with the run of all messages (`fold: off`).
"""

from __future__ import annotations

import argparse
import json
import resource
import signal
import subprocess
import sys
from typing import Any

from _drawn_jobs import EVEN, LARGE, SMALL, draw
from _measure import child, machine, median, process_s

TARGET_S = 60.0
MEMORY = 4 << 30        # bytes of address space of a drawn set's process
PLACEMENTS = ("packed", "spread", "random")


def measure(backend: str, placement: str, alone: bool) -> None:
    """In this process: one run, as JSON."""
    import astrarium as ar

    works = [ar.Transformer(model, tp=8, dp=32, global_batch=32, seq=2048) for model in ("llama3-8b", "gpt3-13b")]
    jobs = [ar.Job(works[number % 2], placement=placement, seed=number if placement == "random" else None)
            for number in range(16)]
    link = {"bandwidth": "50 GB/s", "latency": "1 us"}
    design = ar.Design(
        workload=ar.Jobs(jobs), compute=ar.Roofline(peak="989 TFLOP/s"), memory=ar.Memory(bandwidth="3.35 TB/s"),
        network=ar.Network([ar.Switch(8, bandwidth="450 GB/s", latency="500 ns"), ar.Ring(16, **link),
                            ar.Ring(32, **link)], backend=backend))
    before = process_s()
    result = ar.simulate(design)
    run_s = process_s() - before
    slowest = max(job.slowdown for job in result.jobs) if alone else None
    print(json.dumps({"run_s": run_s, "alone_s": process_s() - before - run_s, "events": result.outcome.events,
                      "ms": float(result.makespan) / 1e6, "rows": len(result.outcome.finish), "slowest": slowest}))


def measure_drawn(seed: int, limit: int, even: bool) -> None:
    """In this process: the set of a seed, as JSON."""
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    import astrarium as ar

    said, design = draw(seed, EVEN if even else LARGE)
    print(json.dumps(said), flush=True)
    before = process_s()
    result = ar.simulate(design)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    print(json.dumps({"run_s": process_s() - before, "events": result.outcome.events, "peak": peak,
                      "ms": float(result.makespan) / 1e6, "rows": len(result.outcome.finish)}))


def drawn(seeds: range, limit: int, even: bool) -> None:
    """A line per set, then the median and the worst."""
    spent = []
    for seed in seeds:
        ran = subprocess.run([sys.executable, __file__, "--measure-drawn", str(seed), str(limit),
                              *["--even"] * even],
                             stdout=subprocess.PIPE, text=True, check=False)
        said, *found = map(json.loads, ran.stdout.splitlines())
        line = f"{seed:3} {said['backend']:11} {said['placement']:12} {said['ranks']} ranks, {said['dims']}: "
        if found:
            spent.append(found[0]["run_s"])
            print(f"{line}{spent[-1]:.2f} CPU s, {found[0]['peak']:.0f} MB, {found[0]['events']:,} events, "
                  f"{found[0]['rows']:,} rows, makespan {found[0]['ms']:.1f} ms", flush=True)
        elif ran.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
            spent.append(float(limit))
            print(f"{line}over {limit} CPU s", flush=True)
        else:
            raise SystemExit(f"{line}exit code {ran.returncode}")
    over = sum(each >= TARGET_S for each in spent)
    print(f"median {median(spent):.2f} CPU s, worst {max(spent):.2f}; {over} of {len(spent)} sets over {TARGET_S:g}")


def check(seeds: range) -> None:
    """A line per small set, whose integers are those of all messages."""
    import numpy as np

    import astrarium as ar

    for seed in seeds:
        said, design = draw(seed, SMALL)
        fast, slow = (ar.simulate(design, fold=fold) for fold in ("auto", "off"))
        for name in ("finish", "start", "end"):
            for rank in range(fast.outcome.row.size):
                mine, other = (_of_rank(each.outcome, name, rank) for each in (fast, slow))
                if not np.array_equal(mine, other):
                    raise SystemExit(f"{seed}: {name} of rank {rank} differs")
        if not np.array_equal(fast.dims.busy_over_time, slow.dims.busy_over_time):
            raise SystemExit(f"{seed}: traffic differs")
        print(f"{seed:3} {said['backend']:11} {said['placement']:12} {said['dims']}: equal, "
              f"{fast.outcome.events:,} of {slow.outcome.events:,} events", flush=True)


def _of_rank(outcome: Any, name: str, rank: int) -> Any:
    """The finish of a rank, or the starts or ends of its nodes."""
    row, column = outcome.row[rank], getattr(outcome, name)
    return column[row] if name == "finish" else column[outcome.node_ptr[row]:outcome.node_ptr[row + 1]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", nargs="+", default=["closed_form", "contention"])
    parser.add_argument("--placement", nargs="+", default=list(PLACEMENTS))
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--drawn", nargs=2, type=int, metavar=("FIRST", "COUNT"))
    parser.add_argument("--even", action="store_true", help="drawn sets have jobs of 256 ranks")
    parser.add_argument("--check", nargs=2, type=int, metavar=("FIRST", "COUNT"))
    parser.add_argument("--limit", type=int, default=120, help="CPU seconds after which a drawn set is ended")
    parser.add_argument("--measure-drawn", nargs=2, type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure_drawn:
        measure_drawn(*options.measure_drawn, options.even)
        return
    if options.check:
        check(range(options.check[0], sum(options.check)))
        return
    if options.drawn:
        print(machine())
        drawn(range(options.drawn[0], sum(options.drawn)), options.limit, options.even)
        return
    if options.measure:
        measure(*options.measure, options.alone)
        return
    print(machine())
    for backend in options.backend:
        for placement in options.placement:
            text, whole, peak = child([sys.executable, __file__, "--measure", backend, placement,
                                       *["--alone"] * options.alone])
            found = json.loads(text)
            more = f", alone {found['alone_s']:.2f} (largest slowdown {found['slowest']:.3f})" if options.alone else ""
            print(f"{backend:11} {placement:6} {found['run_s']:6.2f} CPU s{more}; the process {whole:.2f}, "
                  f"{peak:.0f} MB, {found['events']:,} events, {found['rows']:,} classes, "
                  f"makespan {found['ms']:.1f} ms  "
                  f"(target {TARGET_S:g} s: {'ok' if found['run_s'] < TARGET_S else 'MISSED'})", flush=True)


if __name__ == "__main__":
    main()
