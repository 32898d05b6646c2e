"""Errors of predicted serving rows: median and 90th percentile per metric, coverage, rank correlation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.validate.rows import Row
from astrarium.validate.serving.deployment import Deployment
from astrarium.validate.serving.silicon import measured
from astrarium.validate.serving.steady import Figures

__all__ = ["METRICS", "Judged", "correlation", "errors", "quantiles", "values"]

METRICS = ("tpot", "rate", "ttft")
FEWEST = 5      # rows of a group whose order is judged


class Judged(Struct, frozen=True):
    """A row, what it states, and what was predicted, or why neither is there."""

    row: Row
    meant: Deployment | None
    made: Figures | None
    reason: str = ""


def values(each: Judged, metric: str) -> tuple[float, float] | None:
    """(measured, predicted) of a metric. The measured rate is that of `concurrency` requests in flight."""
    if each.made is None or each.meant is None:
        return None
    found = measured(each.row)
    if metric != "rate":
        return (found[metric], getattr(each.made, metric)) if metric in found else None
    if "ttft" not in found or "tpot" not in found:
        return None
    output = each.meant.output.mean
    seconds = (found["ttft"] + found["tpot"] * (output - 1)) / 1e3
    return each.meant.concurrency * output / seconds / each.meant.npus, each.made.rate


def errors(found: Iterable[Judged], metric: str) -> npt.NDArray[np.float64]:
    """Relative errors, in %."""
    pairs = [pair for each in found if (pair := values(each, metric)) is not None]
    return np.array([100 * (predicted / real - 1) for real, predicted in pairs], np.float64)


def quantiles(found: npt.NDArray[np.float64]) -> tuple[float, float, float]:
    """(median, 90th percentile) of absolute errors, median with sign; nan without rows."""
    if not found.size:
        return float("nan"), float("nan"), float("nan")
    size = np.abs(found)
    return float(np.median(size)), float(np.quantile(size, 0.9)), float(np.median(found))


def correlation(found: Iterable[Judged], key: Callable[[Judged], object]) -> tuple[float, int]:
    """(median over groups of Spearman's rank correlation of throughput, groups of `FEWEST` rows or more)."""
    groups: dict[object, list[tuple[float, float]]] = {}
    for each in found:
        if (pair := values(each, "rate")) is not None:
            groups.setdefault(key(each), []).append(pair)
    ranks = [_spearman(pairs) for pairs in groups.values() if len(pairs) >= FEWEST]
    return (float(np.median(ranks)) if ranks else float("nan")), len(ranks)


def _spearman(pairs: Sequence[tuple[float, float]]) -> float:
    table = np.array(pairs, np.float64)
    ranks = np.argsort(np.argsort(table, axis=0), axis=0).astype(np.float64)
    return float(np.corrcoef(ranks[:, 0], ranks[:, 1])[0, 1])
