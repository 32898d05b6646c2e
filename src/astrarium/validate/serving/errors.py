"""Errors of predicted serving rows: median and 90th percentile per metric, coverage, rank correlation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.validate.intervals import conformal, usual_counts
from astrarium.validate.rows import Row
from astrarium.validate.serving.deployment import Deployment
from astrarium.validate.serving.predict import Figures
from astrarium.validate.serving.silicon import measured, rate_of

__all__ = ["METRICS", "Judged", "correlation", "covered", "errors", "quantiles", "values"]

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
    rate = rate_of(each.row, each.meant)
    return None if rate is None else (rate, each.made.rate)


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


def covered(found: Iterable[Judged], cell: Callable[[Judged], object]) -> tuple[int, int, int, int]:
    """Of rows with a TPOT: (those within the 80 % interval of all rows of other cells, rows, and the range in which the
    first lies in 95 of 100 such sets if the share is right). Rows are of one engine."""
    ratios: dict[object, list[float]] = {}
    for each in found:
        if (pair := values(each, "tpot")) is not None:
            ratios.setdefault(cell(each), []).append(pair[0] / pair[1])
    inside = rows = 0
    for name, mine in ratios.items():
        others = [ratio for other, some in ratios.items() if other != name for ratio in some]
        if len(others) < FEWEST:
            continue
        low, high = conformal(others)
        inside += sum(low <= ratio <= high for ratio in mine)
        rows += len(mine)
    return (inside, rows, *usual_counts(rows))


def _spearman(pairs: Sequence[tuple[float, float]]) -> float:
    table = np.array(pairs, np.float64)
    ranks = np.argsort(np.argsort(table, axis=0), axis=0).astype(np.float64)
    return float(np.corrcoef(ranks[:, 0], ranks[:, 1])[0, 1])
