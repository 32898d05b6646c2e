"""How far measured times lay from predictions, per device, stack and metric: intervals for what nobody measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor
from typing import TYPE_CHECKING

import numpy as np

from astrarium import catalog
from astrarium.compute import kernels

if TYPE_CHECKING:
    from astrarium.design import Design
    from astrarium.validate.predict import NotPredictable, Prediction

__all__ = ["FEWEST", "SHARE", "Interval", "conformal", "device_of", "interval_of", "intervals"]

SHARE = 0.8
FEWEST = 10         # rows below which the ends of an interval would be the largest errors themselves


@dataclass(frozen=True)
class Interval:
    """`share` of `rows` unseen rows of a stack on a device were measured between `low` and `high` times the predicted
    time. Without rows enough both are None: unvalidated."""

    stack: str
    device: str
    rows: int
    low: float | None = None
    high: float | None = None
    share: float = SHARE

    @property
    def validated(self) -> bool:
        """Whether there are rows enough."""
        return self.low is not None


def conformal(ratios: Sequence[float], share: float = SHARE) -> tuple[float, float]:
    """(low, high) of measured over predicted: split-conformal, as much of the error outside on either side (Vovk et
    al., Algorithmic Learning in a Random World, 2005, chapter 2)."""
    ordered, n = np.sort(np.asarray(ratios, np.float64)), len(ratios)
    outside = (1 - share) / 2
    low = max(0, floor(outside * (n + 1)) - 1)
    high = min(n - 1, ceil((1 - outside) * (n + 1)) - 1)
    return float(ordered[low]), float(ordered[high])


def device_of(design: Design) -> str:
    """The name under which a design's device has intervals: that of its measured kernels; nothing for other models."""
    device = str(getattr(design.compute, "device", ""))
    return kernels.named(device) or device


def interval_of(design: Design) -> Interval | None:
    """The interval of a design's step time; None for a design that names no stack."""
    if design.stack is None:
        return None
    device = device_of(design)
    row = catalog.load("intervals").get(design.stack, {}).get(device)
    if row is None or row["rows"] < FEWEST:
        return Interval(design.stack, device, 0 if row is None else row["rows"])
    return Interval(design.stack, device, row["rows"], row["low"], row["high"])


def _judges(each: Prediction, fitted: bool) -> bool:
    return each.meant.stated and not fitted and each.values[0].metric != "mem_GiB"


def intervals(found: Iterable[tuple[Prediction | NotPredictable, bool]]) -> Mapping[str, Mapping[str, Interval]]:
    """Stack -> device -> interval of step times, from rows that state enough and on which nothing was fitted (the
    second of each pair says whether something was)."""
    from astrarium.validate.predict import Prediction

    ratios: dict[tuple[str, str], list[float]] = {}
    for each, fitted in found:
        if isinstance(each, Prediction) and each.row.kind == "training" and _judges(each, fitted):
            key = each.meant.stack, device_of(each.meant.design)
            if not key[1]:      # predicted from a data sheet: no device that a design could name
                continue
            ratios.setdefault(key, []).append(1.0 / (1.0 + each.values[0].time_error))
    made: dict[str, dict[str, Interval]] = {}
    for (stack, device), mine in ratios.items():
        low, high = conformal(mine)
        made.setdefault(stack, {})[device] = Interval(stack, device, len(mine), low, high)
    return made
