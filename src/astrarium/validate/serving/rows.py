"""Rows of serving figures of every kind -> the deployment that each states, and its metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from astrarium.validate.rows import Row
from astrarium.validate.serving.deployment import Deployment
from astrarium.validate.serving.predict import Figures
from astrarium.validate.serving.published import published_of
from astrarium.validate.serving.runs import METRICS, run_of
from astrarium.validate.serving.silicon import deployment_of, measured, rate_of

__all__ = ["READERS", "metrics_of", "why_no_metric"]

READERS: Mapping[str, Callable[[Row], Deployment]] = MappingProxyType({
    "inference": published_of, "silicon": deployment_of, "vllm": run_of})
"""Kind of rows -> what states its deployment."""

PUBLISHED: Mapping[str, str] = MappingProxyType({
    "ttft": "ttft", "itl": "itl", "tpot": "tpot", "e2e latency": "latency", "throughput": "tokens_s",
    "output throughput": "tokens_s"})


def why_no_metric(row: Row) -> str:
    """Why the figure of a row is none that is predicted; "" where it is one."""
    column, known = {"vllm": ("actual_ms_or_unit", METRICS), "inference": ("value", PUBLISHED)}.get(row.kind, ("", {}))
    metric = row.text("metric") if row.kind == "vllm" else row.text("metric").lower()
    if not column:
        return "" if measured(row) else "states neither silicon_ttft_ms nor silicon_tpot_ms"
    if metric not in known:
        return f"its metric ({metric[:60] or 'none'}) is not one of " + ", ".join(known)
    return "" if row.number(column) else f"has no {column}"


def metrics_of(row: Row, meant: Deployment, made: Figures) -> list[tuple[str, float, float]]:
    """(metric, measured, predicted) of a row that has one (`why_no_metric`), the one that it is scored by first."""
    if row.kind == "silicon":
        found = [(f"{name}_ms", value, getattr(made, name)) for name, value in sorted(measured(row).items())]
        rate = rate_of(row, meant)
        return found if rate is None else [*found, ("tok_s_gpu", rate, made.rate)]
    if row.kind == "vllm":
        metric = row.text("metric")
        return [(metric, row.number("actual_ms_or_unit") or 0.0, getattr(made, METRICS[metric]))]
    name, value = PUBLISHED[row.text("metric").lower()], row.number("value") or 0.0
    if row.text("unit") == "s":
        value *= 1e3
    return [(row.text("metric"), value, made.rate * meant.npus if name == "tokens_s" else getattr(made, name))]
