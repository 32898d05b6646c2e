"""Errors of predicted kernel times on rows that no fit saw, beside the targets, and the cost of a prediction.

    python benchmarks/kernels.py                        # what the shipped files state, and the cost
    python benchmarks/kernels.py --split h100_sxm ...   # refits without (n, k) sites and without large shapes;
                                                        # needs astrarium[measured] and catboost
    python benchmarks/kernels.py --floor h100_sxm ...   # how far rows of one product are from each other; needs
                                                        # astrarium[measured]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from astrarium.compute import kernels

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
TARGET = {"gemm": (2.5, 8.0), "attention": (2.5, 8.0)}
EXTRAPOLATED, SHEET, ROWS, COST = (5.0, 12.0), 10.0, 5.0, 2.0


def beside(median: float, p90: float, target: tuple[float, float] | None) -> str:
    """A median and a p90 with their target."""
    if target is None:
        return f"{median:5.2f} /{p90:6.2f}"
    met = "met" if median <= target[0] and p90 <= target[1] else "missed"
    return f"{median:5.2f} /{p90:6.2f}   target {target[0]:g} / {target[1]:g}: {met}"


def stated() -> None:
    """A random fifth of the shapes, held out by every framework at once: products of at least 1024 a side, attention
    and decoding over at least 1024 keys, experts of at least 1024 rows."""
    print("Held-out shapes (20 %), median / p90 error in %, large ones:")
    for name in kernels.names():
        for part, found in kernels.load(name).parts.items():
            if "large" not in found.error:
                continue        # PyTorch's attention: constants, whose errors docs/background/kernels_pytorch.md has
            text = beside(*found.error["large"], TARGET.get(part.split("/")[0]))
            print(f"  {name:20} {part:18} {found.rows:7} rows  {text}")
    print("\nA device left out of the model of all, large shapes: its data sheet alone, then with 500 of its rows:")
    for part, found in kernels.generic().parts.items():
        for name, each in found.error["left out"].items():
            (sheet, sheet_90), (own, own_90) = each["data sheet"], each["500 rows"]
            print(f"  {name:20} {part:18} {sheet:5.1f} /{sheet_90:5.1f} (target {SHEET:g}: {_met(sheet, SHEET)})   "
                  f"{own:5.1f} /{own_90:5.1f} (target {ROWS:g}: {_met(own, ROWS)})")


def _met(value: float, target: float) -> str:
    return "met" if value <= target else "missed"


def cost() -> None:
    """CPU time of a prediction among 100,000 and among 40 (the kernels of a model)."""
    model = kernels.load("h100_sxm")
    columns = {"gemm": [1, 4096, 8192, 4096], "attention": [2, 16, 16, 4096, 4096, 128, 128, 0.5, 2],
               "decode": [64, 32, 8, 1, 4096, 128, 128, 1, 2]}
    print("\nCPU time of an operator, us, among 100,000 and among 40:")
    for family, shape in columns.items():
        cells = []
        for count, repeats in ((100_000, 1), (40, 50)):
            some = np.repeat(np.array(shape, float)[:, None], count, 1)
            some[1] += np.arange(count) % 4000
            model.latency_ns(family, "bf16", some[:, :40])
            start = time.process_time()
            for _ in range(repeats):
                model.latency_ns(family, "bf16", some)
            cells.append((time.process_time() - start) / repeats / count * 1e6)
        print(f"  {family:10} {cells[0]:6.2f} (target {COST:g}: {_met(cells[0], COST)})   {cells[1]:6.2f}")


def floor(names: Iterable[str]) -> None:
    """bf16 products of at least 1024 a side against their mirror image (n, m, k): the same flops, bytes and tiles. What
    two rows differ by, over the root of 2, is what one is off."""
    from astrarium.compute.kernels.rows import read

    print("\nbf16 products of at least 1024 a side and their mirror images, difference over root 2, median / p90 in %:")
    for name in names:
        rows = read(name, "gemm")
        rows = rows.where((rows.precision == "bf16") & (rows.shape[1:4] >= 1024).all(0))
        pooled = []
        for variant in np.unique(rows.variant):
            one = rows.where(rows.variant == variant)
            time_of = dict(zip(map(tuple, one.shape[1:4].T), one.ns))
            off = [abs(np.log(ns / time_of[n, m, k])) * 100 / 2**0.5
                   for (m, n, k), ns in time_of.items() if m < n and (n, m, k) in time_of]
            pooled += off
            print(f"  {name:20} {variant:18} {len(off):6} pairs  {beside(*np.percentile(off, [50, 90]), None)}")
        print(f"  {name:20} {'all':18} {len(pooled):6} pairs  {beside(*np.percentile(pooled, [50, 90]), None)}")


def splits(names: Iterable[str]) -> None:
    """bf16 products of at least 1024 a side: (n, k) sites held out, and shapes larger than any fitted one."""
    import fit_kernels

    from astrarium.compute.kernels.rows import read

    print("\nRefitted without part of the rows, bf16 products of at least 1024 a side, median / p90 error in %:")
    for name in names:
        rows = read(name, "gemm")
        rows = rows.where(rows.precision == "bf16")
        _, m, n, k = rows.shape
        _, site = np.unique(n * 1e6 + k, return_inverse=True)
        drawn = np.random.default_rng(fit_kernels.SEED).random(site.max() + 1)[site] < 0.2
        beyond = (m > 4353) | (n > 12288) | (k > 12288)
        for what, test, target in (("held-out (n, k) sites", drawn, TARGET["gemm"]),
                                   ("m > 4353 or n, k > 12288", beyond, EXTRAPOLATED)):
            off = _refit(fit_kernels, name, rows, test)
            print(f"  {name:20} {what:26} {beside(*np.percentile(off, [50, 90]), target)}", flush=True)


def _refit(fit_kernels: Any, name: str, rows: Any, test: Any) -> Any:
    machine = fit_kernels.machine_of(name)
    trees, variants = fit_kernels.fit(rows.where(~test), "gemm", "bf16", machine,
                                      fit_kernels.loss_of("gemm", len(rows.ns)))
    part = kernels.Part(trees, variants, variants[0], 0, {})
    model = kernels.DeviceModel(machine, {"gemm/bf16": part}, "", "")
    unseen = rows.where(test & np.isin(rows.variant, variants))
    return fit_kernels.errors(model, unseen, "gemm", "bf16")[fit_kernels.large(unseen, "gemm")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--split", nargs="+", default=[], metavar="DEVICE")
    parser.add_argument("--floor", nargs="+", default=[], metavar="DEVICE")
    given = parser.parse_args()
    stated()
    cost()
    if given.floor:
        floor(given.floor)
    if given.split:
        splits(given.split)


if __name__ == "__main__":
    main()
