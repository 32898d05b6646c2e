"""A proxy model of a study: extremely randomised trees on the knobs, with its error on trials that it has not seen.

Trees after Geurts, Ernst and Wehenkel (2006): at every node a random cut for each of some random knobs, the one that
leaves the least variance is taken; the forest's answer is the mean. Objectives above 0 are modelled by their logarithm.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.errors import InputError
from astrarium.search.space import Point

__all__ = ["Surrogate", "fit", "importances"]

F64 = npt.NDArray[np.float64]
TREES, LEAF, ROWS, HELD = 40, 4, 4000, 4      # every fourth trial is held out

_Tree = tuple[npt.NDArray[np.int64], F64, npt.NDArray[np.int64], npt.NDArray[np.int64], F64]


class Surrogate(Struct, frozen=True):
    """A fitted proxy. `r2` and `relative_error` (root mean square, of the value) are of the trials left out, `held`."""

    trees: tuple[_Tree, ...]
    logarithm: bool
    r2: float
    relative_error: float
    held: tuple[F64, F64]

    def predict(self, points: Sequence[Point]) -> F64:
        """The modelled objective of each point [points]."""
        found = self._raw(np.array(points, dtype=float))
        return np.asarray(np.exp(found) if self.logarithm else found)

    def _raw(self, features: F64) -> F64:
        found: F64 = np.mean([_answers(tree, features) for tree in self.trees], axis=0)
        return found


def fit(points: Sequence[Point], values: Sequence[float], seed: int = 0) -> Surrogate:
    """A surrogate of feasible trials (at most 4,000 of them, evenly taken). Raises InputError for fewer than 20."""
    if len(points) < 20:
        raise InputError("surrogate", f"{len(points)} feasible distinct trials are too few", expected="20 or more")
    step = max(1, math.ceil(len(points) / ROWS))
    features, raw = np.array(points[::step], dtype=float), np.array(values[::step], dtype=float)
    logarithm = bool((raw > 0).all())
    target = np.log(raw) if logarithm else raw
    order = np.random.default_rng(seed).permutation(len(target))
    held, kept = order[::HELD], np.delete(order, np.s_[::HELD])
    rng = np.random.default_rng(seed + 1)
    trees = tuple(_grown(features[kept], target[kept], rng) for _ in range(TREES))
    model = Surrogate(trees, logarithm, 0.0, 0.0, (features[held], target[held]))
    answers = model._raw(features[held])
    spread = float(np.mean((target[held] - target[held].mean()) ** 2))
    r2 = 1.0 - float(np.mean((answers - target[held]) ** 2)) / spread if spread else 1.0
    true, found = (np.exp(target[held]), np.exp(answers)) if logarithm else (target[held], answers)
    scale = np.where(true == 0, 1.0, np.abs(true))
    return Surrogate(trees, logarithm, r2, float(np.sqrt(np.mean(((found - true) / scale) ** 2))), model.held)


def importances(model: Surrogate, seed: int = 0, repeats: int = 5) -> F64:
    """Permutation importance of each knob [axes]: by how much the error on held-out trials grows when the knob's values
    are shuffled among them, as a share of the objective's variance; never below 0."""
    features, target = model.held
    rng = np.random.default_rng(seed)
    spread = float(np.mean((target - target.mean()) ** 2)) or 1.0
    base = float(np.mean((model._raw(features) - target) ** 2))
    found = np.zeros(features.shape[1])
    for axis in range(features.shape[1]):
        for _ in range(repeats):
            mixed = features.copy()
            mixed[:, axis] = rng.permutation(mixed[:, axis])
            found[axis] += float(np.mean((model._raw(mixed) - target) ** 2)) - base
    return np.maximum(0.0, found / repeats / spread)


def _grown(features: F64, target: F64, rng: np.random.Generator) -> _Tree:
    """One tree as columns: axis (-1: a leaf), cut, left, right, answer."""
    nodes: list[list[Any]] = []
    stack = [(np.arange(len(target)), -1, 0)]
    tries = max(1, round(features.shape[1] / 2))
    while stack:
        rows, parent, side = stack.pop()
        here = len(nodes)
        nodes.append([-1, 0.0, -1, -1, float(target[rows].mean())])
        if parent >= 0:
            nodes[parent][2 + side] = here
        cut = _cut(features[rows], target[rows], rng, tries) if len(rows) >= 2 * LEAF else None
        if cut is None:
            continue
        nodes[here][0], nodes[here][1] = cut
        below = features[rows, cut[0]] <= cut[1]
        stack.append((rows[below], here, 0))
        stack.append((rows[~below], here, 1))
    axis, place, left, right, answer = zip(*nodes)
    return (np.array(axis), np.array(place), np.array(left), np.array(right), np.array(answer))


def _cut(features: F64, target: F64, rng: np.random.Generator, tries: int) -> tuple[int, float] | None:
    """The best of some random cuts; None where nothing can be cut."""
    low, high = features.min(axis=0), features.max(axis=0)
    open_ = np.nonzero(high > low)[0]
    if not len(open_) or target.min() == target.max():
        return None
    axes = rng.permutation(open_)[:tries]
    cuts = rng.uniform(low[axes], high[axes])
    below = features[:, axes] <= cuts
    count = below.sum(axis=0)
    total, inside = target.sum(), target @ below
    with np.errstate(divide="ignore", invalid="ignore"):
        score = inside**2 / count + (total - inside) ** 2 / (len(target) - count)
    score[(count == 0) | (count == len(target))] = -np.inf
    best = int(np.argmax(score))
    return (int(axes[best]), float(cuts[best])) if np.isfinite(score[best]) else None


def _answers(tree: _Tree, features: F64) -> F64:
    axis, cut, left, right, answer = tree
    at = np.zeros(len(features), dtype=np.int64)
    rows = np.arange(len(features))
    while True:
        open_ = axis[at] >= 0
        if not open_.any():
            return answer[at]
        moving = rows[open_]
        node = at[moving]
        below = features[moving, axis[node]] <= cut[node]
        at[moving] = np.where(below, left[node], right[node])
