"""Times of a collective as the least of a few lines, latency + bytes x slope: one per protocol (LL, LL128, Simple)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from astrarium.arrays import F64

__all__ = ["between", "fastest", "fit_line", "fit_lines", "least", "mean", "smallest"]

T = TypeVar("T", float, F64)
Line = tuple[float, float]


def fit_line(x: F64, t: F64) -> Line:
    """(latency, ns per unit of x), both at least 0, with the least sum of squared relative errors."""
    base, slope = (float(each) for each in np.linalg.lstsq(np.c_[1 / t, x / t], np.ones(len(x)), rcond=None)[0])
    if slope <= 0:
        return float(np.exp(np.log(t).mean())), 0.0
    return (base, slope) if base >= 0 else (0.0, float((x / t).sum() / ((x / t) ** 2).sum()))


def fit_lines(x: F64, t: F64, most: int = 3, sparse: int = 2) -> list[Line]:
    """Up to `most` lines whose least is closest to `t` (mean absolute log error), by latency; x ascends.

    Starts from every cut of the rows into segments of `sparse` or more, and moves rows to the line that is least there.
    """
    best, kept = np.inf, np.zeros((1, 2))
    for count in range(1, min(most, max(1, len(x) // sparse)) + 1):
        for cut in itertools.combinations(range(sparse, len(x) - sparse + 1), count - 1):
            ends = (0, *cut, len(x))
            if any(end - start < sparse for start, end in itertools.pairwise(ends)):
                continue
            found = np.array([fit_line(x[start:end], t[start:end]) for start, end in itertools.pairwise(ends)])
            for _ in range(3):
                error, owner = _error(found, x, t)
                if error < best - 1e-9:
                    best, kept = error, found
                found = np.array([fit_line(x[owner == k], t[owner == k]) if (owner == k).sum() > 1 else found[k]
                                  for k in range(count)])
    used = sorted(set(_error(kept, x, t)[1].tolist()))
    return sorted((float(kept[k, 0]), float(kept[k, 1])) for k in used)


def least(lines: Sequence[Line], x: F64) -> F64:
    """The time of each x [rows]."""
    return np.asarray(np.min([latency + slope * x for latency, slope in lines], axis=0), np.float64)


def fastest(lines: Sequence[Line], sent: T, link: float) -> T:
    """ns of `sent` bytes, one number or an array: least of the lines (latency, share of `link`)."""
    return smallest([latency + sent / (share * link) for latency, share in lines])


def smallest(values: list[T]) -> T:
    """The least of numbers, or of arrays element by element."""
    first: object = values[0]
    found: T = min(values) if isinstance(first, float) else np.minimum.reduce(values)
    return found


def between(first: T, second: T, weight: float) -> T:
    """`first` where `weight` is 0, `second` where it is 1, between them on a logarithmic scale."""
    found: T = first ** (1 - weight) * second ** weight
    return found


def mean(values: list[T]) -> T:
    """Geometric mean of several fabrics that replace one."""
    found = values[0]
    for number, value in enumerate(values[1:], 1):
        found = between(found, value, 1 / (number + 1))
    return found


def _error(lines: F64, x: F64, t: F64) -> tuple[float, npt.NDArray[np.intp]]:
    """(mean absolute log error, the line that is least at each row)."""
    times = lines[:, :1] + lines[:, 1:] * x
    return float(np.abs(np.log(times.min(0) / t)).mean()), times.argmin(0)
