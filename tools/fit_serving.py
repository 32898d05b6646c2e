"""Fit the constants of serving stacks on the even half of measured serving rows.

usage: fit_serving.py run FILE [--runs FILE] [--part K/N] [--until SECONDS]    predictions without and with constants
       fit_serving.py fit FILE...                                              constants, errors of cells left out

Rows are those of the silicon table, or with --runs those of vLLM runs (validate.serving.runs). Constants: the gap
between kernels (compute.launch_gap), host time of a step (policy.overhead) and of a step's sequence
(policy.sequence_overhead), and what comes on top of first tokens: in vLLM runs policy.stream_offset, in the silicon
table this and its clients (validate.serving.silicon.CLIENT). Times of steps are linear in them, and so, near enough,
are TPOT and TTFT. Of each stack the two of the first three are taken that fit best. Rows of models that hide
multi-token prediction, and of attention-DP, which waits for other ranks, fit nothing. A fit has the least mean of
|log(predicted / measured)|, cut at CUT, over cells (source, model, system) of one weight.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import aiconfigurator_core
import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from astrarium.errors import AstrariumError
from astrarium.validate.rows import read_rows
from astrarium.validate.serving.deployment import Deployment
from astrarium.validate.serving.predict import Predictor
from astrarium.validate.serving.runs import run_of
from astrarium.validate.serving.silicon import HIDES_MTP, deployment_of, distinct, in_order, judges

F64 = npt.NDArray[np.float64]
TABLE = Path(aiconfigurator_core.__file__).parent / "systems" / "silicon_sample.csv"
UNITS = {"gap": ("compute.launch_gap", "us", 1), "host": ("policy.overhead", "us", 100),
         "sequence": ("policy.sequence_overhead", "us", 10)}
GRIDS = {"gap": np.arange(0.0, 5.05, 0.2), "host": np.arange(0.0, 2001.0, 100.0),
         "sequence": np.arange(0.0, 51.0, 5.0)}
ON_TOP = np.arange(0.0, 305.0, 5.0)       # ms
CUT = 0.5
WHOLE = "-1"
NONE = {path: "0 ns" for path, _, _ in UNITS.values()} | {"policy.stream_offset": "0 ns"}
COLUMNS = ("source", "stack", "cell", "tpot_real", "ttft_real", "tpot", "ttft",
           *(f"{what}_{name}" for name in UNITS for what in ("tpot", "ttft")))


class Stated(NamedTuple):
    """A row: its source and cell, measured TPOT and TTFT in ms, the deployment."""

    source: str
    cell: str
    tpot: float
    ttft: float
    meant: Deployment


def silicon() -> Iterator[Stated]:
    """Aggregated rows of the even half that state what a prediction needs."""
    for row in in_order(distinct(read_rows(TABLE))):
        if judges(row) or row.text("mode") != "agg" or any(word in row.text("model_path") for word in HIDES_MTP):
            continue
        try:
            meant = replace(deployment_of(row), client=0.0)
        except AstrariumError:
            continue
        tpot, ttft = row.number("silicon_tpot_ms"), row.number("silicon_ttft_ms")
        if meant.layout.dp == 1 and tpot and ttft:
            yield Stated("silicon", f"{row.text('model_path')} {row.text('system')}", tpot, ttft, meant)


def runs(path: str) -> Iterator[Stated]:
    """Whole runs of vLLM."""
    rows = {(row.text("experiment"), row.text("metric")): row for row in read_rows(path) if row.text("stage") == WHOLE}
    for (name, metric), row in rows.items():
        if metric == "itl_mean":
            tpot, ttft = (rows[name, each].number("actual_ms_or_unit") for each in ("itl_mean", "ttft_mean"))
            yield Stated("runs", f"{row.text('model')} {row.text('hardware')}", tpot or 0.0, ttft or 0.0, run_of(row))


def predicted(rows: Sequence[Stated], until: float) -> Iterator[Sequence[object]]:
    """A line of COLUMNS for each row that has a prediction."""
    none, start = Predictor(NONE), time.process_time()
    more = {name: Predictor(NONE | {path: f"{size} {unit}"}, none.known if path.startswith("policy") else {})
            for name, (path, unit, size) in UNITS.items()}
    for row in rows:
        if until and time.process_time() - start > until:
            return
        try:
            base = none.of(row.meant)
            others = [each.of(row.meant) for each in more.values()]
        except AstrariumError:
            continue
        yield (row.source, row.meant.stack, f"{row.source} {row.cell}", row.tpot, row.ttft, base.tpot, base.ttft,
               *(value for each in others for value in (each.tpot - base.tpot, each.ttft - base.ttft)))


class Rows(NamedTuple):
    """Rows of a stack [rows]: sources, cells; measured and predicted (TPOT, TTFT) [2, rows] in ms; what UNITS add."""

    sources: npt.NDArray[np.str_]
    cells: npt.NDArray[np.str_]
    real: F64
    made: F64
    more: Mapping[str, F64]

    def some(self, chosen: npt.NDArray[np.bool_]) -> Rows:
        """The chosen rows."""
        return Rows(self.sources[chosen], self.cells[chosen], self.real[:, chosen], self.made[:, chosen],
                    {name: each[:, chosen] for name, each in self.more.items()})


def read(paths: Sequence[str]) -> dict[str, Rows]:
    """Stack -> rows."""
    found: dict[str, list[Mapping[str, str]]] = {}
    for path in paths:
        with open(path, encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                found.setdefault(row["stack"], []).append(row)

    def pair(rows: Sequence[Mapping[str, str]], suffix: str) -> F64:
        return np.array([[float(row[f"{what}{suffix}"]) for row in rows] for what in ("tpot", "ttft")])

    return {stack: Rows(*(np.array([row[name] for row in rows]) for name in ("source", "cell")), pair(rows, "_real"),
                        pair(rows, ""), {name: pair(rows, f"_{name}") / UNITS[name][2] for name in UNITS})
            for stack, rows in sorted(found.items())}


def with_constants(rows: Rows, constants: Mapping[str, float]) -> F64:
    """Predicted (TPOT, TTFT) [2, rows]."""
    found = rows.made + sum(rows.more[name] * constants[name] for name in UNITS)
    found[1] += [constants.get(source, 0.0) for source in rows.sources]
    return np.asarray(found)


def loss(rows: Rows, made: F64, metric: int) -> float:
    """The mean over cells of the mean of |log(predicted / measured)|, cut."""
    off = np.minimum(np.abs(np.log(np.maximum(made[metric], 1e-9) / rows.real[metric])), CUT)
    return float(np.mean([off[rows.cells == cell].mean() for cell in np.unique(rows.cells)]))


def fit(rows: Rows) -> dict[str, float]:
    """The constants: two of UNITS from TPOT, and what each source has on top of TTFT."""
    best, least = dict.fromkeys(UNITS, 0.0), np.inf
    for pair in itertools.combinations(UNITS, 2):
        for values in itertools.product(*(GRIDS[name] for name in pair)):
            trial = {**dict.fromkeys(UNITS, 0.0), **dict(zip(pair, map(float, values), strict=True))}
            if (found := loss(rows, with_constants(rows, trial), 0)) < least - 1e-6:
                best, least = trial, found
    for source in np.unique(rows.sources).tolist():
        some = rows.some(rows.sources == source)
        best[source] = min(map(float, ON_TOP), key=lambda each, some=some, source=source: loss(
            some, with_constants(some, {**best, source: each}), 1))
    return best


def told(stack: str, rows: Rows) -> None:
    """Print a stack's constants, and errors of cells left out."""
    found, held = fit(rows), np.array(rows.made)
    for cell in np.unique(rows.cells):
        mine = rows.cells == cell
        if not mine.all():
            held[:, mine] = with_constants(rows.some(mine), fit(rows.some(~mine)))
    print(f"{stack}: {len(rows.cells)} rows, {len(np.unique(rows.cells))} cells; " + ", ".join(
        f"{name} {value:g}" for name, value in found.items()))
    for name, made in (("no constants", rows.made), ("fitted", with_constants(rows, found)), ("cells left out", held)):
        for source in np.unique(rows.sources).tolist():
            off = 100 * (made / rows.real - 1)[:, rows.sources == source]
            print(f"    {name:15} {source:8} TPOT {np.median(np.abs(off[0])):5.1f} / "
                  f"{np.quantile(np.abs(off[0]), 0.9):5.1f} {np.median(off[0]):+5.1f} %, TTFT "
                  f"{np.median(np.abs(off[1])):5.1f} {np.median(off[1]):+5.1f} %")


def main() -> None:
    """Run or fit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "fit"))
    parser.add_argument("files", nargs="+")
    parser.add_argument("--runs", default="", help="rows of vLLM runs, in the place of the silicon table's")
    parser.add_argument("--part", default="0/1", metavar="K/N")
    parser.add_argument("--until", type=float, default=0, metavar="SECONDS")
    options = parser.parse_args()
    if options.what == "fit":
        for stack, rows in read(options.files).items():
            told(stack, rows)
        return
    part, parts = map(int, options.part.split("/"))
    rows = list(runs(options.runs) if options.runs else silicon())
    with open(options.files[0], "w", newline="", encoding="utf-8") as file:
        sink = csv.writer(file)
        sink.writerow(COLUMNS)
        for line in predicted(rows[part::parts], options.until):
            sink.writerow(line)
            file.flush()


if __name__ == "__main__":
    main()
