"""The rows of serving_rows.py as a regressor without physics predicts them: a CSV for `serving_rows.py --read`.

usage: regressed_rows.py --csv FILE [--kind trees|linear] [--random]

Needs scikit-learn. Logarithms of TPOT, throughput and TTFT from what a row states (model sizes, device, layout, users,
lengths, format, engine), by gradient-boosted trees or linearly. Each cell (model, system) of the even half is predicted
by a fit to all other cells; with --random, each tenth of its rows by a fit to the other nine. It learns from end-to-end
rows, of which Astrarium's kernels and graphs see none.
"""

from __future__ import annotations

import argparse
import csv
import random
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import serving_rows
from _serving_errors import METRICS
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from astrarium import catalog
from astrarium.units import Bandwidth
from astrarium.validate.rows import Row, read_rows
from astrarium.validate.serving.deployment import Deployment
from astrarium.validate.serving.designs import design_of
from astrarium.validate.serving.silicon import measured, rate_of
from astrarium.validate.systems import system_named
from astrarium.workload.model.parameters import parameters

F64 = npt.NDArray[np.float64]
BITS = {"bf16": 16, "fp8": 8, "fp4": 4, "int4": 4}
ENGINES = ("vllm", "sglang", "trt-llm")
FOLDS = 10


def sizes(meant: Deployment) -> tuple[float, ...]:
    """Parameters in all and of a token, layers and width of the model; peak, bandwidth and links of the device."""
    model = design_of(meant).workload.model     # type: ignore[union-attr]
    count, device = parameters(model), catalog.device(system_named(meant.system).device)
    return (float(count.total), float(count.active), float(model.layers), float(model.d_model),
            float(device.peak("bf16")), float(Bandwidth(device.row["bandwidth"])),
            float(Bandwidth(device.row["scale_up"])))


def features(meant: Deployment, known: dict[tuple[str, str], tuple[float, ...]]) -> list[float]:
    """What the row states: logarithms of sizes (`known`: those of models and systems), and which engine it is."""
    key, layout, front = (meant.model, meant.system), meant.layout, meant.prefill
    if key not in known:
        known[key] = sizes(meant)
    numbers = (*known[key], meant.npus, layout.tp, layout.dp, layout.ep, layout.pp, meant.engines,
               front[0].npus * front[1] if front else 1, meant.concurrency, meant.concurrency / meant.npus,
               meant.prompt.mean, meant.output.mean, BITS[meant.precision])
    return [float(np.log(each)) for each in numbers] + [float(meant.stack == each) for each in ENGINES]


def targets(row: Row, meant: Deployment) -> list[float]:
    """Logarithms of the measured figures, in the order of METRICS; nan: none."""
    found = {**measured(row), "rate": rate_of(row, meant)}
    return [float(np.log(found.get(metric) or np.nan)) for metric in METRICS]


def predicted(kind: str, known: F64, real: F64, asked: F64) -> F64:
    """The figures of rows `asked` [rows, features] by a fit to the known ones."""
    trees = HistGradientBoostingRegressor(loss="absolute_error", max_iter=100, learning_rate=0.2, random_state=0)
    model = trees if kind == "trees" else make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 3, 13)))
    there = np.isfinite(real)
    found: F64 = np.exp(model.fit(known[there], real[there]).predict(asked))
    return found


def groups(rows: Sequence[Row], by_chance: bool) -> list[object]:
    """Which rows are left out together."""
    if by_chance:
        dice = random.Random(0)
        return [dice.randrange(FOLDS) for _ in rows]
    return [(serving_rows.deployment_of(row).model, row.text("system")) for row in rows]


def main() -> None:
    """Fit, predict and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=("trees", "linear"), default="trees")
    parser.add_argument("--random", action="store_true", help="leave out rows at random, not cells")
    parser.add_argument("--csv", required=True)
    options = parser.parse_args()
    rows = [row for row in serving_rows.distinct(read_rows(serving_rows.TABLE))
            if not serving_rows.judges(row) and serving_rows.stated(row)]
    meant = [serving_rows.deployment_of(row) for row in rows]
    seen = dict[tuple[str, str], tuple[float, ...]]()
    known = np.array([features(each, seen) for each in meant])
    real = np.array([targets(row, each) for row, each in zip(rows, meant, strict=True)])
    found, left = np.empty_like(real), groups(rows, options.random)
    for group in dict.fromkeys(left):
        out = np.array([each == group for each in left])
        for column in range(len(METRICS)):
            found[out, column] = predicted(options.kind, known[~out], real[~out, column], known[out])
    with open(options.csv, "w", newline="", encoding="utf-8") as file:
        sink = csv.writer(file)
        sink.writerow(("id", *(f"{metric}_made" for metric in METRICS), "reason"))
        sink.writerows((row.text("id"), *values, "") for row, values in zip(rows, found, strict=True))


if __name__ == "__main__":
    main()
