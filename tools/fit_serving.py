"""Fit the constants of serving stacks: gap between kernels, host time of a step, first token's offset.

usage: fit_serving.py ZERO.csv GAP.csv HOST.csv --gap 1 --host 100

The files are rows of the even half as `benchmarks/serving_rows.py --half even --csv` writes them: with no constants,
with `--set "compute.launch_gap=1 us"`, and with `--set "policy.overhead=100 us"`. Times of steps are linear in both,
and so, near enough, are TPOT and TTFT. Prints per stack the constants with the least median error (gap and host from
TPOT, offset from TTFT), and median and 90th percentile of rows whose cell (model, system) was left out of the fit.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]
GAPS = np.arange(0.0, 2.05, 0.1)            # us
HOSTS = np.arange(0.0, 1001.0, 50.0)        # us
OFFSETS = np.arange(0.0, 205.0, 5.0)        # ms
HIDES = ("DeepSeek-R1", "GLM-5", "Qwen3.5")


class Rows(NamedTuple):
    """Rows of one stack [rows]: cells, measured and predicted TPOT and TTFT, and what a us of each constant adds."""

    cells: Sequence[str]
    real: F64
    made: F64
    gap: F64
    host: F64
    ttft: F64
    first: F64

    def some(self, chosen: npt.NDArray[np.bool_]) -> Rows:
        """The chosen rows."""
        return Rows([cell for cell, yes in zip(self.cells, chosen, strict=True) if yes],
                    *(np.asarray(column)[chosen] for column in self[1:]))


def read(paths: Sequence[str]) -> list[Mapping[str, Mapping[str, str]]]:
    """Of each file: id -> row."""
    found = list[Mapping[str, Mapping[str, str]]]()
    for path in paths:
        with open(path, encoding="utf-8", newline="") as file:
            found.append({row["id"]: row for row in csv.DictReader(file) if row["tpot_made"]})
    return found


def rows_of(files: Sequence[Mapping[str, Mapping[str, str]]], stack: str, gap: float, host: float) -> Rows:
    """Rows of a stack that all files have, aggregated, without models that hide multi-token prediction."""
    zero, more, hosted = files
    chosen = [name for name, row in zero.items() if name in more and name in hosted and row["backend"] == stack
              and row["mode"] == "agg" and row["ttft_real"] and not any(word in row["model_path"] for word in HIDES)]

    def column(file: Mapping[str, Mapping[str, str]], name: str) -> F64:
        return np.array([float(file[each][name]) for each in chosen], np.float64)

    base = column(zero, "tpot_made")
    cells = [f"{zero[each]['model_path']} {zero[each]['system']}" for each in chosen]
    return Rows(cells, column(zero, "tpot_real"), base,
                (column(more, "tpot_made") - base) / gap, (column(hosted, "tpot_made") - base) / host,
                column(zero, "ttft_real"), column(zero, "ttft_made"))


def errors(rows: Rows, gap: float, host: float) -> F64:
    """Relative errors of TPOT."""
    return (rows.made + gap * rows.gap + host * rows.host) / rows.real - 1


def fit(rows: Rows) -> tuple[float, float, float]:
    """(gap in us, host in us, offset in ms) with the least median of errors; ties: the smallest."""
    gap, host = min(((each, other) for other in HOSTS for each in GAPS),
                    key=lambda pair: (round(float(np.median(np.abs(errors(rows, *pair)))), 4), pair[1], pair[0]))
    offset = min(OFFSETS, key=lambda each: float(np.median(np.abs((rows.first + each) / rows.ttft - 1))))
    return float(gap), float(host), float(offset)


def told(stack: str, rows: Rows) -> None:
    """Print a stack's constants, and errors of cells left out."""
    gap, host, offset = fit(rows)
    cells = np.array(rows.cells)
    held, first = np.zeros(len(cells)), np.zeros(len(cells))
    for cell in dict.fromkeys(rows.cells):
        mine = cells == cell
        if mine.all():
            continue
        g, h, o = fit(rows.some(~mine))
        held[mine] = errors(rows.some(mine), g, h)
        first[mine] = (rows.some(mine).first + o) / rows.some(mine).ttft - 1
    size, wait, before = np.abs(held), np.abs(first), np.abs(errors(rows, 0.0, 0.0))
    print(f"{stack}: {len(cells)} rows, {len(set(rows.cells))} cells; launch_gap {gap:.1f} us, overhead {host:.0f} us, "
          f"stream_offset {offset:.0f} ms; TPOT without constants {100 * np.median(before):.1f} / "
          f"{100 * np.quantile(before, 0.9):.1f} %, cells left out {100 * np.median(size):.1f} / "
          f"{100 * np.quantile(size, 0.9):.1f} %; TTFT {100 * np.median(wait):.1f} %")


def main() -> None:
    """Read, fit, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs=3)
    parser.add_argument("--gap", type=float, default=1.0, help="us in the second file")
    parser.add_argument("--host", type=float, default=100.0, help="us in the third file")
    options = parser.parse_args()
    files = read(options.files)
    for stack in ("vllm", "sglang", "trtllm"):
        rows = rows_of(files, stack, options.gap, options.host)
        if rows.cells:
            told(stack, rows)


if __name__ == "__main__":
    main()
