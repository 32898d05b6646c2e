"""Sizes and counts as functions of the conditions: log-quadratic for sizes, products for run lengths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np
import numpy.typing as npt

__all__ = ["Fit", "features", "fit_log", "fit_runs", "raw_features"]

F64 = npt.NDArray[np.float64]
RIDGE = 1e-9


@dataclass(frozen=True, eq=False)
class Fit:
    """Coefficients [features]; `residual` are quantiles of what the fit leaves (log for sizes)."""

    weight: F64
    residual: F64


def features(conditions: Sequence[Mapping[str, float]], names: Sequence[str]) -> F64:
    """[examples, features] 1, logs, and products of two logs."""
    logs = np.log(np.array([[max(row.get(name, 1.0), 1e-9) for name in names] for row in conditions]))
    pairs = [logs[:, a] * logs[:, b] for a, b in combinations_with_replacement(range(len(names)), 2)]
    return np.column_stack([np.ones(len(logs)), logs, *pairs])


def raw_features(conditions: Sequence[Mapping[str, float]], names: Sequence[str]) -> F64:
    """[examples, features] 1, the conditions, and products of two."""
    raw = np.array([[row.get(name, 1.0) for name in names] for row in conditions], np.float64)
    pairs = [raw[:, a] * raw[:, b] for a, b in combinations_with_replacement(range(len(names)), 2) if a != b]
    return np.column_stack([np.ones(len(raw)), raw, *pairs])


def fit_log(x: F64, y: F64, weight: F64) -> Fit:
    """Least squares of log y (y > 0) with weights; residual quantiles at 5, 15, ..., 95 %."""
    found = _solve(x * np.sqrt(weight)[:, None], np.log(y) * np.sqrt(weight))
    return Fit(found, np.quantile(np.log(y) - x @ found, np.linspace(0.05, 0.95, 10)))


def fit_runs(x: F64, y: F64) -> Fit:
    """Least squares of run lengths on as few features as explain them: one at a time until nothing is left."""
    chosen: list[int] = [0]
    scale = np.abs(x).max(axis=0, initial=1e-30) + 1e-30
    for _ in range(4):
        rest = y - x[:, chosen] @ _solve(x[:, chosen], y)
        if np.abs(rest).max(initial=0.0) < 0.01:
            break
        centred = x / scale - (x / scale).mean(axis=0)
        score = np.abs(centred.T @ rest) / (np.linalg.norm(centred, axis=0) + 1e-12)
        score[chosen] = -1
        chosen.append(int(np.argmax(score)))
    weight = np.zeros(x.shape[1])
    weight[chosen] = _solve(x[:, chosen], y)
    return Fit(weight, np.zeros(0))


def _solve(x: F64, y: F64) -> F64:
    scale = np.linalg.norm(x, axis=0) + 1e-30
    scaled = x / scale
    return np.asarray(np.linalg.solve(scaled.T @ scaled + RIDGE * np.eye(x.shape[1]), scaled.T @ y) / scale, np.float64)
