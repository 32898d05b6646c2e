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

__all__ = ["READERS", "metrics_of"]

READERS: Mapping[str, Callable[[Row], Deployment]] = MappingProxyType({
    "inference": published_of, "silicon": deployment_of, "vllm": run_of})
"""Kind of rows -> what states its deployment."""

PUBLISHED: Mapping[str, str] = MappingProxyType({
    "ttft": "ttft", "itl": "itl", "tpot": "tpot", "e2e latency": "latency", "throughput": "tokens_s",
    "output throughput": "tokens_s"})


def metrics_of(row: Row, meant: Deployment, made: Figures) -> list[tuple[str, float, float]]:
    """(metric, measured, predicted) of a row, the one that it is scored by first."""
    if row.kind == "silicon":
        found = [(f"{name}_ms", value, getattr(made, name)) for name, value in sorted(measured(row).items())]
        rate = rate_of(row, meant)
        return found if rate is None else [*found, ("tok_s_gpu", rate, made.rate)]
    if row.kind == "vllm":
        metric, value = row.text("metric"), row.number("actual_ms_or_unit")
        return [(metric, value, getattr(made, METRICS[metric]))] if value and metric in METRICS else []
    name = PUBLISHED.get(row.text("metric").lower(), "")
    value = row.number("value")
    if not name or not value:
        return []
    if row.text("unit") == "s":
        value *= 1e3
    return [(row.text("metric"), value, made.rate * meant.npus if name == "tokens_s" else getattr(made, name))]
