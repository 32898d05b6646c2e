"""Errors of predicted serving rows: median and 90th percentile per metric, coverage, rank correlation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.cost.interval import SHARE
from astrarium.validate.intervals import usual_counts
from astrarium.validate.rows import Row
from astrarium.validate.serving.deployment import Deployment
from astrarium.validate.serving.predict import Figures
from astrarium.validate.serving.silicon import measured, rate_of

__all__ = ["METRICS", "Covered", "Judged", "correlation", "covered", "errors", "of_cells", "quantiles", "spearman",
           "values"]

METRICS = ("tpot", "rate", "ttft")
FEWEST = 5      # rows of a group whose order is judged
OWN = 9         # other cells of which a tenth is one or more, with the next
NOTHING = 1e-9
F64 = npt.NDArray[np.float64]


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
    ranks = [spearman(pairs) for pairs in groups.values() if len(pairs) >= FEWEST]
    return (float(np.median(ranks)) if ranks else float("nan")), len(ranks)


class Covered(Struct, frozen=True):
    """How the 80 % interval of other cells holds for an engine's `rows` with a TPOT: those `inside`; `fewest` and
    `most`, the middle 95 % of such counts if the share is right and rows are independent. `share`: the mean over its
    `cells` of the rows inside, and the `error` of that mean, as rows of a cell err together. `borrowed`: the interval
    is of all engines."""

    inside: int
    rows: int
    fewest: int
    most: int
    cells: int
    share: float
    error: float
    borrowed: bool


def covered(found: Iterable[Judged], cell: Callable[[Judged], object], engine: Callable[[Judged], str]
            ) -> Mapping[str, Covered]:
    """Engine -> how the interval that a cell has without its own rows holds for these.

    Errors are those of cells (rows of one err together), so each cell weighs the same, whatever its rows. An engine
    with fewer than `OWN` other cells has no 10 % of them on either side: it takes the cells of all engines, without the
    cell's of any.
    """
    ratios: dict[str, dict[object, list[float]]] = {}
    for each in found:
        if (pair := values(each, "tpot")) is not None:
            ratios.setdefault(engine(each), {}).setdefault(cell(each), []).append(pair[0] / pair[1])
    made = {}
    for name, mine in ratios.items():
        borrowed = len(mine) <= OWN
        sources = list(ratios.values()) if borrowed else [mine]
        held = []
        for own, rows in mine.items():
            others = [some for cells in sources for other, some in cells.items() if other != own]
            if others:
                low, high = of_cells(others)
                held.append([low <= ratio <= high for ratio in rows])
        if held:
            shares, count = [float(np.mean(each)) for each in held], sum(map(len, held))
            error = float(np.std(shares, ddof=1) / np.sqrt(len(shares))) if len(shares) > 1 else float("nan")
            made[name] = Covered(sum(map(sum, held)), count, *usual_counts(count), len(held), float(np.mean(shares)),
                                 error, borrowed)
    return made


def of_cells(cells: Sequence[Sequence[float]], share: float = SHARE) -> tuple[float, float]:
    """(low, high) of measured over predicted for a row of a further cell: as much of the cells outside on either side,
    each weighing the same (exchangeable are cells: Dunn, Wasserman and Ramdas, Journal of the American Statistical
    Association 118, 2023, Distribution-free prediction sets for two-layer hierarchical models)."""
    ratios = np.concatenate([np.asarray(each, np.float64) for each in cells])
    weights = np.concatenate([np.full(len(each), 1 / len(each)) for each in cells]) / len(cells)
    order = np.argsort(ratios)
    ratios, below = ratios[order], np.cumsum(weights[order])
    outside, last = (1 - share) / 2, len(ratios) - 1
    low, high = np.searchsorted(below, [outside + NOTHING, 1 - outside - NOTHING])
    return float(ratios[min(low, last)]), float(ratios[min(high, last)])


def spearman(pairs: Sequence[tuple[float, float]]) -> float:
    """The rank correlation of pairs."""
    one, two = (_ranks(np.array(each, np.float64)) for each in zip(*pairs, strict=True))
    return float(np.corrcoef(one, two)[0, 1])


def _ranks(values: F64) -> F64:
    """Ranks; equal values have the mean of theirs."""
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[which], np.float64)
