"""Measured serving rows beside what Astrarium predicts: TPOT, throughput and TTFT, per half, layout and group.

usage: serving_rows.py [--half even|odd] [--models WORDS] [--stack NAME] [--by COLUMNS] [--worst N] [--limit N]
                       [--part K/N] [--until SECONDS] [--csv FILE] [--read FILES] [--only FILE] [--shuffle COLUMNS]
                       [--set path=value]

Rows are those of aiconfigurator-core's silicon table. The odd half (sha256 of the id) judges: nothing is fitted on it.
Repeats of a measurement between dumps count once. Rows come in the order of the md5 of their ids, so the rows of a run
that stops early (--limit, --until) are a fair sample.

Several processes share the work, and a last one prints the table of all:

    serving_rows.py --part 0/2 --csv a.csv & serving_rows.py --part 1/2 --csv b.csv; wait
    serving_rows.py --read a.csv,b.csv
"""

from __future__ import annotations

import argparse
import csv
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import aiconfigurator_core
from _serving_errors import METRICS, Judged, correlation, covered, errors, quantiles, values
from msgspec.structs import replace

from astrarium.errors import AstrariumError
from astrarium.validate.rows import Row, read_rows
from astrarium.validate.serving.deployment import Deployment
from astrarium.validate.serving.predict import Figures, Predictor
from astrarium.validate.serving.silicon import HIDES_MTP, deployment_of, distinct, in_order, judges

TABLE = Path(aiconfigurator_core.__file__).parent / "systems" / "silicon_sample.csv"
GROUP = ("model_path", "system", "isl", "osl", "precision")
BY: dict[str, Callable[[Judged], str]] = {
    "layout": lambda each: each.meant.layout.kind if each.meant else "-",
    "npus": lambda each: str(each.meant.npus) if each.meant else "-",
    "users": lambda each: str(1 << (each.meant.concurrency - 1).bit_length()) if each.meant else "-"}


def chosen(rows: Iterable[Row], options: argparse.Namespace) -> list[Row]:
    """Distinct rows of the half and the models that were asked for, in the order of the md5 of their ids."""
    words = options.models.split(",")
    found = [row for row in distinct(rows) if any(word in row.text("model_path") for word in words)
             and judges(row) is (options.half == "odd") and options.stack in row.text("backend")]
    if options.only:
        ids = {cells["id"] for cells in lines_of(options.only) if cells["tpot_made"]}
        found = [row for row in found if row.text("id") in ids]
    part, parts = (int(each) for each in options.part.split("/"))
    found = in_order(found)[part::parts]
    found = found[:options.limit] if options.limit else found
    return shuffled(found, options.shuffle.split(","), options.seed) if options.shuffle else found


def shuffled(rows: Sequence[Row], columns: Sequence[str], seed: int) -> list[Row]:
    """The rows with the values of these columns dealt out anew among them, the columns of a row together."""
    found = []
    for row, other in zip(rows, random.Random(seed).sample(rows, len(rows)), strict=True):
        kept = {name: value for name, value in row.values.items() if name not in columns}
        found.append(replace(row, values=kept | {name: other.values[name] for name in columns if name in other.values}))
    return found


def lines_of(paths: str) -> Iterator[dict[str, str]]:
    """The lines of files that --csv wrote."""
    for path in paths.split(","):
        with open(path, newline="", encoding="utf-8") as file:
            yield from csv.DictReader(file)


def read(rows: Iterable[Row], paths: str) -> list[Judged]:
    """The rows that are in these files, with the figures that stand there."""
    lines = {cells["id"]: cells for cells in lines_of(paths)}
    found = []
    for row in rows:
        if cells := lines.get(row.text("id")):
            tpot, rate, ttft = (float(cells[f"{metric}_made"] or "nan") for metric in METRICS)
            figures = Figures(ttft, tpot, 0.0, 0.0, rate) if cells["tpot_made"] else None
            found.append(Judged(row, stated(row), figures, cells.get("reason", "")))
    return found


def stated(row: Row) -> Deployment | None:
    """What the row states, or nothing."""
    try:
        return deployment_of(row)
    except AstrariumError:
        return None


def judged(row: Row, predictor: Predictor) -> Judged:
    """The row with its prediction."""
    meant = stated(row)
    try:
        return Judged(row, meant, predictor.of(meant or deployment_of(row)))
    except AstrariumError as error:
        return Judged(row, meant, None, str(error))


def made(rows: Sequence[Row], options: argparse.Namespace) -> Iterator[Judged]:
    """The rows with predictions, until the CPU seconds are spent."""
    changes = dict(each.split("=", 1) for each in options.changes)
    start, predictor = time.process_time(), Predictor(changes)
    for count, row in enumerate(rows):
        if options.until and time.process_time() - start > options.until:
            print(f"stopped after {options.until:.0f} CPU s: {count} of {len(rows)} rows")
            return
        yield judged(row, predictor)


def line(name: str, found: Sequence[Judged]) -> str:
    """One line of the table."""
    stated = sum(each.meant is not None for each in found)
    cells = []
    for metric in METRICS:
        median, p90, bias = quantiles(errors(found, metric))
        cells.append(f"{median:6.1f} /{p90:6.1f} {bias:+6.1f}")
    made = sum(each.made is not None for each in found)
    return f"{name[:66]:<66} {made:>4}/{stated:<4} " + "  ".join(cells)


def told(found: Sequence[Judged], options: argparse.Namespace) -> None:
    """Print the table of one half."""
    together = [each for each in found if each.row.text("mode") == "agg"]
    apart = [each for each in found if each.row.text("mode") != "agg"]
    clear = [each for each in together if not any(word in each.row.text("model_path") for word in HIDES_MTP)]
    print(f"{'':<66} rows      TPOT med/p90/bias      throughput             TTFT")
    print(line("aggregated, without models that hide multi-token prediction", clear))
    print(line("aggregated, all", together))
    for kind in ("tp", "ep inside tp", "attention-DP"):
        print(line(f"  {kind}", [each for each in together if each.meant and each.meant.layout.kind == kind]))
    print(line("disaggregated", apart))
    ranks, groups = correlation(together, lambda each: tuple(each.row.text(name) for name in GROUP))
    print(f"rank correlation of throughput: {ranks:.4f} (median of {groups} groups)")
    held = covered(clear, lambda each: (each.row.text("model_path"), each.row.text("system")),
                   lambda each: each.row.text("backend"))
    for stack, one in held.items():
        print(f"80 % interval of other cells{' of all engines' if one.borrowed else ''}, {stack}: {one.inside} of "
              f"{one.rows} rows ({one.fewest} to {one.most} if right and independent); mean of {one.cells} cells "
              f"{one.share:.2f}, error {one.error:.2f}")
    if options.by:
        names = options.by.split(",")
        groups_of: dict[str, list[Judged]] = {}
        for each in found:
            key = " ".join(BY[name](each) if name in BY else each.row.text(name) or "-" for name in names)
            groups_of.setdefault(key, []).append(each)
        for key, some in sorted(groups_of.items(), key=lambda pair: -len(pair[1])):
            print(line(key, some))
    for reason, count in Counter(each.reason for each in found if each.made is None).most_common(options.reasons):
        print(f"{count:>5} {reason[:150]}")
    if options.worst:
        pairs = [(values(each, "tpot"), each) for each in together]
        known = [(pair, each) for pair, each in pairs if pair]
        for (real, made), each in sorted(known, key=lambda pair: -abs(pair[0][1] / pair[0][0] - 1))[:options.worst]:
            print(f"{real:8.2f} {made:8.2f} {each.row.text('id')} {each.meant.layout if each.meant else ''}")


def kept(found: Iterable[Judged], path: str) -> Iterator[Judged]:
    """The rows as they come, each written to a CSV file at once."""
    names = ("id", "model_path", "system", "backend", "backend_version", "precision", "mode", "isl", "osl",
             "batch_size")
    with open(path, "w", newline="", encoding="utf-8") as file:
        sink = csv.writer(file)
        sink.writerow((*names, "layout", "users", *(f"{m}_{w}" for m in METRICS for w in ("real", "made")), "reason"))
        for each in found:
            pairs = [values(each, metric) or ("", "") for metric in METRICS]
            layout = f"tp{each.meant.layout.tp}dp{each.meant.layout.dp}ep{each.meant.layout.ep}" if each.meant else ""
            sink.writerow((*(each.row.text(name) for name in names), layout,
                           each.meant.concurrency if each.meant else "", *(v for pair in pairs for v in pair),
                           each.reason))
            file.flush()
            yield each


def main() -> None:
    """Read, predict, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", choices=("even", "odd"), default="even")
    parser.add_argument("--models", default="")
    parser.add_argument("--stack", default="")
    parser.add_argument("--by", default="", help="columns of the table, layout, npus, users")
    parser.add_argument("--worst", type=int, default=0)
    parser.add_argument("--reasons", type=int, default=12)
    parser.add_argument("--limit", type=int, default=0, help="rows at most")
    parser.add_argument("--part", default="0/1", metavar="K/N", help="every Nth row, from the Kth (from 0)")
    parser.add_argument("--until", type=float, default=0, metavar="SECONDS", help="start no row after so much CPU time")
    parser.add_argument("--csv", default="", help="write rows to this file as they are made")
    parser.add_argument("--read", default="", metavar="FILES", help="take figures from CSV files, predict nothing")
    parser.add_argument("--only", default="", metavar="FILE", help="only rows that have figures in this CSV file")
    parser.add_argument("--shuffle", default="", metavar="COLUMNS", help="deal out these columns anew among the rows")
    parser.add_argument("--seed", type=int, default=0, help="of --shuffle")
    parser.add_argument("--set", action="append", default=[], metavar="path=value", dest="changes",
                        help="a field of every design, or policy.X")
    options = parser.parse_args()
    start = time.process_time()
    rows = chosen(read_rows(TABLE), options)
    found: Iterable[Judged] = read(rows, options.read) if options.read else made(rows, options)
    found = list(kept(found, options.csv) if options.csv else found)
    told(found, options)
    print(f"{len(found)} rows, {time.process_time() - start:.0f} CPU s")


if __name__ == "__main__":
    main()
