"""Systolic arrays in closed form beside SCALE-Sim 3.0.0, and beside a simulation of double buffers, tile by tile.

    python benchmarks/systolic.py

SCALE-Sim's answers are those of tests/compute/scalesim_3_0_0.csv, with the CPU time that each took (one core of a cloud
machine, 2026-11); tools/scalesim_rows.py makes them anew.
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

import numpy as np

from astrarium.compute.arrays import Arrays, Dataflow, Words, accesses, cycles, product_cycles, traffic

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.compute.systolic_machine import double_buffered, tiles_of
from tests.compute.test_scalesim import FREE, LIMITED, ROWS, WORDS, Row, bound

PRODUCTS, TARGET = 100_000, 1e4
DATAFLOWS: tuple[Dataflow, ...] = ("output_stationary", "weight_stationary", "input_stationary")


def errors(name: str, values: list[float], unit: float = 100.0) -> None:
    """A line: how many are exact, and median, p90 and largest of the sizes of errors, per cent."""
    found = np.abs(np.array(values)) * unit
    print(f"  {name:52} {len(found):4} rows  {int((found == 0).sum()):4} equal   "
          f"{np.median(found):6.2f} {np.percentile(found, 90):7.2f} {found.max():8.2f}")


def scalesim() -> None:
    """Cycles, accesses and traffic."""
    print("against SCALE-Sim 3.0.0, errors in %:                                        median     p90      max")
    rows = [(row, accesses(row.arrays, row.m, row.n, row.k), traffic(row.arrays, row.m, row.n, row.k, WORDS))
            for row in ROWS]
    errors("cycles, memory never waits", [cycles(row.arrays, row.m, row.n, row.k)[0] / (row.given["last_cycle"] + 1) - 1
                                          for row in FREE])
    for name, at in (("ifmap_reads", 0), ("filter_reads", 1), ("ofmap_writes", 2)):
        errors(f"buffers, {name}", [float(ours[at][0]) / row.given[f"sram_{name}"] - 1 for row, ours, _ in rows])
    for name, at in (("ifmap_reads", 0), ("filter_reads", 1), ("ofmap_writes", 2)):
        errors(f"memory, {name}", [float(ours[at][0]) / row.given[f"dram_{name}"] - 1 for row, _, ours in rows
                                   if row in FREE])
    limited = [(row, *_two(row)) for row in LIMITED]
    errors("cycles, limited bandwidth", [needed for _, needed, _ in limited])
    errors("  of them those that SCALE-Sim stalls", [each for row, each, _ in limited if row.given["stall_cycles"]])
    errors("  the same, with the reads that SCALE-Sim counts", [own for row, _, own in limited
                                                                if row.given["stall_cycles"]])
    again = [row.given["dram_ifmap_reads"] / float(traffic(row.arrays, row.m, row.n, row.k, WORDS).ifmap[0])
             for row in LIMITED]
    print(f"  ifmap reads that SCALE-Sim counts there, over ours: median {np.median(again):.2f}, max {max(again):.1f}")


def _two(row: Row) -> tuple[float, float]:
    ours, given = traffic(row.arrays, row.m, row.n, row.k, WORDS), row.given
    taken = given["last_cycle"] + 1
    return (bound(row, float(ours.ifmap[0]), float(ours.filter[0])) / taken - 1,
            bound(row, given["dram_ifmap_reads"], given["dram_filter_reads"]) / taken - 1)


def double_buffers(count: int = 400) -> None:
    """Stalls beside the simulation, whose reads may come up to a column of tiles early."""
    draw, found, stalls = random.Random(3), [], 0
    for _ in range(count):
        rows, columns = draw.choice([(8, 8), (16, 8), (8, 32), (32, 16), (32, 32)])
        m, n, k = (round(2 ** draw.uniform(3, 9)) for _ in range(3))
        buffer = 1024.0 * draw.choice([1, 4, 16, 64, 256])
        flow = draw.choice(DATAFLOWS)
        overlapped = draw.random() < 0.5
        arrays = Arrays(rows, columns, 1, flow, buffer, buffer, 1e18, overlapped)
        bandwidth, sr = draw.choice([1, 2, 4, 8, 16, 32, 64, 128]), m if flow == "output_stationary" else k
        t = {"output_stationary": k, "weight_stationary": m, "input_stationary": n}[flow]
        whole = (1 if flow == "output_stationary" else 2) * rows + columns + t - 2
        step = max(t, rows) if arrays.overlapped else whole
        ahead = max(2, -(-sr // rows))
        taken = double_buffered(tiles_of(arrays, m, n, k), step, max(whole - step, 0), bandwidth, ahead)
        found.append(product_cycles(arrays, 1, m, n, k, Words(1.0, 1.0, 1.0), bandwidth)[0] / taken - 1)
        stalls += taken > 1.05 * cycles(arrays, m, n, k)[0]
    print(f"\nagainst double buffers, tile by tile ({stalls} of {count} take 5 % longer than without stalls):")
    errors("cycles with stalls", [float(each) for each in found])
    print(f"  from {100 * min(found):.1f} % to {100 * max(found):.1f} %, p10 {100 * np.percentile(found, 10):.1f} %")


def speed() -> None:
    """CPU time of a product: cycles, accesses, traffic, and cycles with stalls."""
    draw = np.random.default_rng(0)
    m, n, k = np.rint(2 ** draw.uniform(2, 8.2, (3, PRODUCTS)))
    arrays, start = Arrays(32, 16, 1, "weight_stationary", 4096.0, 4096.0, 4096.0), time.process_time()
    cycles(arrays, m, n, k), accesses(arrays, m, n, k), traffic(arrays, m, n, k)
    product_cycles(arrays, 1, m, n, k, bandwidth=16.0)
    ours, theirs = (time.process_time() - start) / PRODUCTS, float(np.mean([row.given["cpu_s"] for row in FREE]))
    print(f"\n{ours * 1e6:.2f} us of CPU time a product, all of it; SCALE-Sim {theirs:.2f} s: "
          f"{theirs / ours:,.0f} times faster (target {TARGET:,.0f})")


if __name__ == "__main__":
    scalesim()
    double_buffers()
    speed()
