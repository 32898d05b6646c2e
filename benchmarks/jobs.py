"""Sixteen training jobs of 256 ranks on one fabric of 4,096 NPUs: CPU seconds by placement and back end.

usage: jobs.py [--backend closed_form contention ...] [--placement packed spread random ...] [--alone]

Eight jobs train llama3-8b, eight gpt3-13b, each with tp 8 and dp 32: a step of one sequence per replica, on hosts of 8
NPUs (a switch) in a torus of 16 x 32 hosts. A line is one `simulate` in a new process, with reading, lowering, the
run and its node times. `closed_form` folds; `contention` and `fluid` run every rank. `--alone` adds the sixteen runs of
single jobs that slowdowns need. Target: 60 CPU s each.
"""

from __future__ import annotations

import argparse
import json
import sys

from _measure import child, machine, process_s

TARGET_S = 60.0
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", nargs="+", default=["closed_form", "contention"])
    parser.add_argument("--placement", nargs="+", default=list(PLACEMENTS))
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
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
