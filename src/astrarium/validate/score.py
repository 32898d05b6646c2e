"""Errors per source, device and stack: median, 90th percentile, bias, coverage; rows that state too little apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.validate.predict import NotPredictable, Prediction, Value

__all__ = ["Score", "errors_of", "score", "scored", "scores"]

Found = Prediction | NotPredictable


class Score(Struct, frozen=True):
    """`median` and `p90` of absolute relative errors of times, `bias` their mean with sign; nan without rows.

    `covered` of `stated` rows (those with model, parallelism, batch and device) have a prediction. `apart`: predicted
    rows that state less; they are in no figure.
    """

    name: str
    metric: str
    rows: int
    median: float
    p90: float
    bias: float
    covered: int
    stated: int
    apart: int

    @property
    def coverage(self) -> float:
        """Share of the rows that state enough which have a prediction."""
        return self.covered / self.stated if self.stated else float("nan")


def scored(made: Prediction, metric: str = "time") -> Value | None:
    """The value that a row is scored by: its first timed metric (`time`), or the one named; None where it has none."""
    return next((value for value in made.values
                 if (value.metric != "mem_GiB" if metric == "time" else value.metric == metric)), None)


def errors_of(found: Iterable[Found], metric: str = "time") -> npt.NDArray[np.float64]:
    """Relative errors of rows that state enough: of the first timed metric (`time`), or of the one named."""
    values = [scored(each, metric) for each in found if isinstance(each, Prediction) and each.meant.stated]
    return np.array([value.time_error for value in values if value is not None], np.float64)


def score(name: str, found: Sequence[Found], metric: str = "time") -> Score:
    """The score of some rows."""
    errors = errors_of(found, metric)
    size = np.abs(errors)
    predicted = [each for each in found if isinstance(each, Prediction)]
    enough = sum(each.meant.stated for each in predicted)
    missing = sum(isinstance(each, NotPredictable) and each.stated for each in found)
    nothing = float("nan")
    return Score(name, metric, errors.size, float(np.median(size)) if errors.size else nothing,
                 float(np.quantile(size, 0.9)) if errors.size else nothing,
                 float(errors.mean()) if errors.size else nothing, enough, enough + missing, len(predicted) - enough)


def scores(found: Sequence[Found], key: Callable[[Found], str], metric: str = "time") -> list[Score]:
    """The score of every group of rows with one `key`, in order of appearance."""
    groups: dict[str, list[Found]] = {}
    for each in found:
        groups.setdefault(key(each), []).append(each)
    return [score(name, group, metric) for name, group in groups.items()]
