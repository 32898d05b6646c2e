"""Measured rows and predictions: tables for people, plain data for programs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from astrarium.cost.interval import SHARE
from astrarium.report.tables.table import Table
from astrarium.units import format_time
from astrarium.validate.intervals import Held
from astrarium.validate.predict import NotPredictable, Prediction
from astrarium.validate.verdict import Validation

__all__ = ["interval_table", "log_table", "validation_plain", "validation_tables"]

WORST = 8
METRICS: Mapping[str, tuple[str, float]] = MappingProxyType({
    "step_s": ("step_ns", 1e9), "pass_ms": ("pass_ns", 1e6), "time_us": ("time_ns", 1e3),
    "kernel_us": ("kernel_ns", 1e3), "copies_us": ("copies_ns", 1e3), "clock_MHz": ("clock_ghz", 1e-3),
    "mem_GiB": ("memory_bytes", 2.0**30), "busbw_GBs": ("busbw_gb_per_s", 1.0),
    "tok_s_gpu": ("tokens_per_s_per_npu", 1.0), "model_tflops_gpu": ("model_flop_per_ns_per_npu", 1e3),
    "throughput": ("tokens_per_s", 1.0), "output throughput": ("output_tokens_per_s", 1.0)})
"""Column of measured rows -> name in JSON, and how many of its units one of the column's is."""
LATENCIES = ("ttft", "itl", "tpot", "e2e latency", "latency")


def validation_plain(made: Validation) -> dict[str, Any]:
    """As JSON: `rows` one per row and metric (`error` relative), `not_predictable`, `scores`."""
    return {
        "rows": [{"source": each.row.source, "case": each.row.case, "metric": _in_json(value.metric)[0],
                  "measured": value.measured * _in_json(value.metric)[1],
                  "predicted": value.predicted * _in_json(value.metric)[1], "error": value.error,
                  "assumed": list(each.meant.assumed), "stated": each.meant.stated,
                  "fitted": fitted, "device": each.meant.device, "stack": each.meant.stack}
                 for each, fitted in zip(made.found, made.fitted, strict=True) if isinstance(each, Prediction)
                 for value in each.values],
        "not_predictable": [{"source": each.row.source, "case": each.row.case, "reason": each.reason}
                            for each in made.found if isinstance(each, NotPredictable)],
        "intervals": [{"name": each.name, "share": SHARE, "rows": each.rows, "covered": each.covered,
                       "score": each.score, "score_of_one_width": each.whole} for each in made.held],
        "scores": {what: [{"name": each.name, "metric": _in_json(each.metric)[0], "rows": each.rows,
                           "median": _known(each.median),
                           "p90": _known(each.p90), "bias": _known(each.bias), "coverage": _known(each.coverage),
                           "apart": each.apart} for each in scores] for what, scores in made.groups.items()},
        "trees_without_physics": dict(made.rival), "source_in_no_fit": dict(made.left_out)}


def log_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Mean times of logs beside those of a serving file (`validate.serving.compare`)."""
    cells = [(row["file"], row["metric"].split("_")[0] + " mean", str(row["requests"]),
              *(format_time(row[name]) for name in ("measured", "predicted")), f"{100 * row['error']:+.1f} %")
             for row in rows]
    return Table("logs compared with predictions", "<<>>>>", cells,
                 ("file", "metric", "requests", "measured", "predicted", "error"))


def _in_json(metric: str) -> tuple[str, float]:
    """Name of a metric in JSON, with its unit, and how many of these one of the metric's is: latencies of serving are
    in ms."""
    if metric in METRICS:
        return METRICS[metric]
    if metric.lower() in LATENCIES or metric.endswith("_ms"):
        return metric.lower().removesuffix("_ms").replace(" ", "_") + "_ns", 1e6
    return metric, 1.0


def _known(value: float) -> float | None:
    """JSON has no nan."""
    return None if math.isnan(value) else value


def validation_tables(made: Validation) -> Iterator[Table]:
    """Errors per group, the worst rows, what cannot be predicted."""
    for what, scores in made.groups.items():
        besides = {"source in no fit": made.left_out, "trees without physics": made.rival} if what == "source" else {}
        more = tuple(title for title, values in besides.items() if values)
        yield Table(f"errors by {what}", "<<" + ">" * (6 + len(more)),
                    [[each.name, each.metric, str(each.rows), _percent(each.median), _percent(each.p90),
                      _percent(each.bias, "+"), _percent(each.coverage, digits=0), str(each.apart),
                      *(besides[title].get(each.name, "-") if each.metric == "time" else "-" for title in more)]
                     for each in scores],
                    (what, "of", "rows", "median", "p90", "bias", "coverage", "apart", *more))
    if made.held:
        yield interval_table(made.held)
    worst = sorted((each for each in made.found if isinstance(each, Prediction) and each.values),
                   key=lambda each: -abs(each.values[0].time_error))[:WORST]
    yield Table("rows with the largest errors", "<<>>><", [
        [each.row.source, each.row.case, f"{each.values[0].measured:g}", f"{each.values[0].predicted:.4g}",
         _percent(each.values[0].error, "+"), each.values[0].metric] for each in worst],
        ("source", "case", "measured", "predicted", "error", "metric"))
    refused: dict[str, list[str]] = {}
    for each in made.found:
        if isinstance(each, NotPredictable):
            refused.setdefault(each.reason, []).append(each.row.case)
    if refused:
        yield Table("not predictable", "><", [[str(len(cases)), f"{reason} ({_some(cases)})"]
                                              for reason, cases in refused.items()], ("rows", "because"))


def interval_table(made: Sequence[Held]) -> Table:
    """Coverage and score of the intervals of step times."""
    title = (f"{100 * SHARE:.0f} % intervals of step times: each unseen row within that of the other rows of its stack "
             "and device")
    head = ("source", "rows", "within", "expected", "score", "one width for all", "better by")
    return Table(title, "<>>>>>>", [
        (each.name, str(each.rows), f"{each.covered} ({_percent(each.covered / each.rows)})",
         f"{each.fewest} to {each.most}", f"{each.score:.3f}", f"{each.whole:.3f}", _percent(each.better, "+"))
        for each in made], head)


def _some(cases: Sequence[str]) -> str:
    return ", ".join(cases[:3]) + (", ..." if len(cases) > 3 else "")


def _percent(value: float, sign: str = "", digits: int = 1) -> str:
    return "-" if math.isnan(value) else f"{100 * value:{sign}.{digits}f} %"
