"""Measured runs of vLLM under load beside the serving planner: the order of configurations, and the rate found under
limits that are each run's own measured percentiles.

usage: serving_plan_runs.py RUNS.csv [--limits NAMES] [--skip N] [--until SECONDS] [--csv FILE]
                            [--read FILES]

RUNS.csv has a row of each metric of each stage of a run (`validate` reads it as kind vllm). For each stage the engine
of the run is served at the stage's rate (its figures give the order), and then the highest rate is searched at which
the predicted figures NAMES are at most the measured ones (default: latency_p90).
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Iterator, Mapping

import numpy as np
from _serving_errors import spearman

from astrarium import config
from astrarium.errors import AstrariumError
from astrarium.serving.find import find_rate
from astrarium.serving.loop import run
from astrarium.serving.requests import Poisson, requests_of
from astrarium.serving.slo import Limit, Slo
from astrarium.validate.rows import read_rows
from astrarium.validate.serving.deployment import Deployment
from astrarium.validate.serving.predict import OPEN, Predictor
from astrarium.validate.serving.runs import METRICS, run_of

COLUMNS = ("model", "experiment", "stage", "hardware", "tp", "rate", "tpot_real", "tpot_made", "latency_real",
           "latency_made", "found")
NAMES = {"ttft_mean": "ttft_mean", "ttft_p90": "ttft_p90", "ttft_p99": "ttft_p99", "e2e_mean": "latency_mean",
         "e2e_p90": "latency_p90", "e2e_p99": "latency_p99", "itl_mean": "tpot_mean"}
STEEP = 0.2
Stage = tuple[Deployment, dict[str, str], dict[str, float]]


def stages(path: str) -> Iterator[Stage]:
    """The deployment of each stage, what names it, its measured figures in ms."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    about: dict[tuple[str, str], tuple[Deployment, dict[str, str]]] = {}
    for row in read_rows(path):
        stage, name = row.text("stage"), row.text("metric")
        value = row.number("actual_ms_or_unit")
        if stage == "-1" or name not in METRICS or not value:
            continue
        key = (row.text("experiment"), stage)
        if key not in about:
            try:
                about[key] = run_of(row), {each: row.text(each) for each in ("experiment", "stage", "hardware", "tp")}
            except AstrariumError:
                continue
        found.setdefault(key, {})[NAMES[name]] = value
    for key, (meant, words) in about.items():
        yield meant, words, found[key]


def judged(stage: Stage, predictor: Predictor, names: list[str]) -> dict[str, object]:
    """A line of the table."""
    meant, words, real = stage
    made = predictor.of(meant)
    slo = Slo(tuple(Limit(*name.split("_"), real[name] * 1e6) for name in names))

    def at(rate: float) -> object:
        lengths = {"prompt": meant.prompt.high, "output": meant.output.high, "seed": 0,
                   "prefix": {"tokens": meant.prefix, "groups": meant.groups}}
        stream = config.decode(Poisson, {"rate": rate, "count": OPEN, **lengths})
        return run(requests_of(stream), predictor.fleet(meant))

    found = find_rate(at, slo, meant.rates[0], reach=8)       # type: ignore[arg-type]
    return {"model": meant.model, **words, "rate": meant.rates[0], "tpot_real": real["tpot_mean"],
            "tpot_made": made.tpot, "latency_real": real["latency_mean"], "latency_made": made.latency,
            "found": found.best.rate if found.best else float("nan")}


def told(lines: list[Mapping[str, object]]) -> None:
    """Print rank correlations per model, and errors of rates."""
    models = sorted({str(line["model"]) for line in lines})
    for metric in ("tpot", "latency"):
        ranks = {}
        for model in models:
            pairs = [(float(str(line[f"{metric}_real"])), float(str(line[f"{metric}_made"]))) for line in lines
                     if line["model"] == model]
            if len(pairs) > 2:
                ranks[f"{model} ({len(pairs)})"] = spearman(pairs)
        print(f"rank correlation of {metric}: " + ", ".join(f"{name} {rank:.2f}" for name, rank in ranks.items()))
    steep = {name for name, rise in rises(lines).items() if rise >= STEEP}
    for name, some in (("all", lines), (f"of runs whose latency rises by {STEEP} % and more for 1 % of rate",
                                        [line for line in lines if line["experiment"] in steep])):
        _rates(name, some)


def rises(lines: list[Mapping[str, object]]) -> dict[object, float]:
    """Run -> how much its measured latency rises from stage to stage: percent for a percent of the rate."""
    runs: dict[object, list[tuple[float, float]]] = {}
    for line in lines:
        runs.setdefault(line["experiment"], []).append((float(str(line["rate"])), float(str(line["latency_real"]))))
    return {name: float(np.polyfit(*np.log(np.array(pairs)).T, 1)[0]) for name, pairs in runs.items() if len(pairs) > 1}


def _rates(name: str, lines: list[Mapping[str, object]]) -> None:
    errors = np.array([float(str(line["found"])) / float(str(line["rate"])) - 1 for line in lines])
    known = errors[~np.isnan(errors)]
    size = np.where(np.isnan(errors), np.inf, np.abs(errors))
    print(f"rate found over measured rate, {name}: {int((size <= 0.15).sum())} of {len(errors)} within 15 %, "
          f"{int(np.isnan(errors).sum())} without any; median {100 * np.median(size):.1f} %, bias "
          f"{100 * np.median(known):+.1f} %")


def main() -> None:
    """Read, predict, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs")
    parser.add_argument("--limits", default="latency_p90", help="figures that must be kept, joined by commas")
    parser.add_argument("--until", type=float, default=0, metavar="SECONDS",
                        help="start no stage after so much CPU time")
    parser.add_argument("--skip", type=int, default=0, metavar="N", help="leave out the first N stages")
    parser.add_argument("--csv", default="", help="write the lines to this file as they are made")
    parser.add_argument("--read", default="", help="take the lines from such files, predict nothing")
    options = parser.parse_args()
    if options.read:
        found: list[Mapping[str, object]] = []
        for path in options.read.split(","):
            with open(path, newline="", encoding="utf-8") as file:
                found += csv.DictReader(file)
        told(found)
        return
    start, predictor, lines = time.process_time(), Predictor(), list[Mapping[str, object]]()
    with open(options.csv or "/dev/null", "w", newline="", encoding="utf-8") as file:
        sink = csv.DictWriter(file, COLUMNS)
        sink.writeheader()
        for stage in list(stages(options.runs))[options.skip:]:
            if options.until and time.process_time() - start > options.until:
                print(f"stopped after {options.until:.0f} CPU s")
                break
            lines.append(judged(stage, predictor, options.limits.split(",")))
            sink.writerow(lines[-1])
            file.flush()
    told(lines)
    print(f"{len(lines)} stages, {time.process_time() - start:.0f} CPU s")


if __name__ == "__main__":
    main()
