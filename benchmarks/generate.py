"""From a model and its parallelisation to what every rank runs, and to a makespan: GPT3-175B, in memory.

usage: generate.py [--runs 9]

dp 32, tp 8, pp 4 (1,024 NPUs) with 1 and with 16 micro-batches, and dp 512, tp 8, pp 8 (32,768 NPUs) with 64. CPU
seconds of one process, medians: the whole of `generate` (graph and assembly; the design is there already), assembly
alone, and for the 1,024 NPUs `simulate` with generation in it. Memory is what numpy and Python allocate.
"""

from __future__ import annotations

import argparse
import functools
import tracemalloc
from collections.abc import Callable

from _measure import machine, median, process_s

import astrarium as ar
from astrarium.workload.assemble import assemble
from astrarium.workload.generate import generate
from astrarium.workload.training import recipe_of

MB = 1e6


def cpu(call: Callable[[], object], runs: int) -> float:
    """Median CPU seconds of a call, after one that does not count."""
    seconds = []
    for _ in range(runs + 1):
        begun = process_s()
        call()
        seconds.append(process_s() - begun)
    return median(seconds[1:])


def allocated(work: ar.Transformer) -> float:
    """Most bytes that generation holds."""
    tracemalloc.start()
    kept = generate(work)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak if kept.classes else 0.0


def design_of(work: ar.Transformer) -> ar.Design:
    """Eight NPUs on a fast switch, the rest on a slower one."""
    return ar.Design(
        workload=work, compute=ar.Roofline(peak="312 TFLOP/s"), memory=ar.Memory(bandwidth="2039 GB/s"),
        network=ar.Network([ar.Switch(8, bandwidth="300 GB/s", latency="500 ns"),
                            ar.Switch(work.ranks // 8, bandwidth="25 GB/s", latency="2 us")]))


def line(name: str, work: ar.Transformer, target: float, runs: int) -> None:
    """Generation of one workload, against its target in seconds."""
    recipe = recipe_of(work)
    whole, part = cpu(lambda: generate(work), runs), cpu(lambda: assemble(recipe), runs)
    nodes = sum(len(trace.node_id) for trace in generate(work).classes)
    print(f"{name}: {1e3 * whole:.1f} ms CPU (assembly {1e3 * part:.1f} ms), {nodes:,} nodes in "
          f"{work.pp} classes, {allocated(work) / MB:.0f} MB  "
          f"(target {1e3 * target:.0f} ms: {'ok' if whole < target else 'MISSED'})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=9)
    runs = parser.parse_args().runs
    print(machine())
    one = ar.Transformer("gpt3-175b", global_batch=1536, dp=32, tp=8, pp=4)
    many = ar.replace(one, "micro_batch", 3)
    large = ar.Transformer("gpt3-175b", global_batch=32768, dp=512, tp=8, pp=8, micro_batch=1)
    line("1,024 NPUs, 1 micro-batch", one, 0.02, runs)
    line("1,024 NPUs, 16 micro-batches", many, 0.1, runs)
    line("32,768 NPUs, 64 micro-batches", large, 2.0, runs)
    for name, work in (("1 micro-batch", one), ("16 micro-batches", many)):
        run = functools.partial(ar.simulate, design_of(work), record=False)
        seconds, makespan = cpu(run, runs), run().makespan
        print(f"simulate, 1,024 NPUs, {name}: {1e3 * seconds:.1f} ms CPU, makespan {makespan / 1e9:.2f} s  "
              f"(target 50 ms: {'ok' if seconds < 0.05 else 'MISSED'})")


if __name__ == "__main__":
    main()
