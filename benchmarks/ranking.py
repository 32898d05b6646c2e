"""Does the planner rank layouts as they were measured? Spearman's rank correlation of predicted and measured step times
over the parallelisations of one model on one cluster, the place of the measured best in the predicted order, and how
much slower than it the predicted best was measured.

usage: ranking.py [ROWS.csv...]     (default: ../shared/reference/validation_training.csv, where it is there)

The 37 rows of examples/parallelism come first. A group is what one source measured of one model on one cluster with one
batch, sequence and precision, in at least FEWEST layouts. Rows on which a stack was fitted are here, too: its constants
are one set for all layouts. The last column is the correlation without the rows whose notes have a degraded link
(tools/validation_page.py), where there are any.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from astrarium.lower.kept import Kept
from astrarium.validate.predict import Prediction, predict
from astrarium.validate.rows import Row, read_rows

HERE = Path(__file__).resolve().parent
SHARED = HERE.parent.parent / "shared/reference/validation_training.csv"
EXAMPLE = HERE.parent / "examples/parallelism/measured.csv"
SIZES: Mapping[str, Mapping[str, int]] = {
    "megatron-39.1b": {"layers": 48, "hidden": 8192, "heads": 64}, "megatron-175b": {"layers": 96, "hidden": 12288,
                                                                                    "heads": 96}}
SAME = ("source", "gpu", "n_gpus", "model", "layers", "hidden", "gbs", "seq", "precision")
FEWEST = 5
DEGRADED = r"hf-(821|1003|1130|781)$"


def example_rows() -> Iterator[Row]:
    """The rows of examples/parallelism in the layout of validation files."""
    with EXAMPLE.open(encoding="utf-8") as stream:
        for line, row in enumerate(csv.DictReader(stream), 2):
            pp = int(row["pp"])
            yield Row(str(EXAMPLE), line, "training", {
                "source": "vTrain (examples/parallelism)", "case": f"{row['model']} {pp} {row['micro_batch']}",
                "gpu": "A100-80G HDR", "n_gpus": 512, "model": "GPT", **SIZES[row["model"]], "vocab": 51200,
                "seq": 2048, "tp": 8, "pp": pp, "dp": 64 // pp, "vp": 1, "mbs": int(row["micro_batch"]), "gbs": 1536,
                "zero": "0", "recompute": "full", "precision": "fp16", "step_s": float(row["seconds"])})


def ranks(values: Sequence[float]) -> np.ndarray:
    """Places of values, equal ones at the mean of theirs."""
    found = np.asarray(values, np.float64)
    return np.array([(found < value).sum() + ((found == value).sum() - 1) / 2 for value in found])


def spearman(first: Sequence[float], second: Sequence[float]) -> float:
    return float(np.corrcoef(ranks(first), ranks(second))[0, 1])


def pairs_of(found: Sequence[Prediction]) -> tuple[list[float], list[float]]:
    """(measured, predicted) seconds."""
    return [each.row.number("step_s") or 0.0 for each in found], [each.seconds for each in found]


def line(name: str, found: Sequence[Prediction]) -> str:
    measured, predicted = pairs_of(found)
    best = int(np.argmin(measured))
    place = sum(other < predicted[best] for other in predicted) + 1
    lost = measured[int(np.argmin(predicted))] / measured[best] - 1
    sound = [each for each in found if not re.match(DEGRADED, each.row.case)]
    without = f"{spearman(*pairs_of(sound)):8.3f}" if len(sound) < len(found) else ""
    return f"{name:<60} {len(found):3} {spearman(measured, predicted):8.3f} {place:6} {100 * lost:8.1f} % {without}"


def report(rows: Sequence[Row]) -> None:
    """A line per group, and one per source: the mean over its groups."""
    kept, groups = Kept(), dict[tuple[object, ...], list[Prediction]]()
    for row in rows:
        found = predict(row, kept)
        if isinstance(found, Prediction) and row.number("step_s") and found.meant.stated:
            groups.setdefault(tuple(row.values.get(name) for name in SAME), []).append(found)
    by_source: dict[str, list[float]] = {}
    for key, every in groups.items():
        if len(every) >= FEWEST:
            source, _, gpus, model, layers, hidden, *_ = key
            print(line(f"{str(source)[:16]}: {model}, {layers} layers of {hidden}, {gpus} GPUs", every))
            by_source.setdefault(str(source), []).append(spearman(*pairs_of(every)))
    for source, values in by_source.items():
        print(f"  mean of {len(values)} groups of {source[:38]:<41} {np.mean(values):9.3f}")


def main(files: Sequence[str]) -> None:
    print(f"{'layouts of':<60} {'n':>3} spearman  place best lost  without degraded links")
    report(list(example_rows()))
    if not files and not SHARED.exists():
        print(f"no {SHARED}: rows of other sources are not there")
        return
    report([row for file in files or [str(SHARED)] for row in read_rows(file) if row.kind == "training"])


if __name__ == "__main__":
    main(sys.argv[1:])
