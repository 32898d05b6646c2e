"""Analyse a study: best designs, importance of knobs, sensitivities.

Importances come from a surrogate: extremely randomised trees (Geurts, Ernst and Wehenkel 2006), with their error on
held-out trials. At every node a random cut for each of some random knobs, the one that leaves the least variance is
taken; the forest's answer is the mean. Objectives above 0 are modelled by their logarithm.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.arrays import F64
from astrarium.errors import InputError
from astrarium.search.axes import Point
from astrarium.search.evaluate import Evaluator
from astrarium.search.fidelity import on_model
from astrarium.search.intervals import student
from astrarium.search.space import Space
from astrarium.search.studyfile import StoredStudy
from astrarium.search.trial import Trial, Verdict

__all__ = ["Importance", "Recheck", "Sensitivity", "Surrogate", "around_mean", "best_trials", "fit", "importances",
           "knob_importances", "most_important", "rechecked", "sensitivities"]

Told = Callable[[str, int, int], None]      # what is simulated, how many are done, of how many
TREES, LEAF, ROWS, HELD = 40, 4, 4000, 4      # every fourth trial is held out
_Tree = tuple[npt.NDArray[np.int64], F64, npt.NDArray[np.int64], npt.NDArray[np.int64], F64]


class Sensitivity(Struct, frozen=True):
    """One knob of the best design at another value; other knobs (`moved`) change only as the constraints require."""

    knob: str
    value: Any
    moved: tuple[str, ...]
    verdict: Verdict


class Importance(Struct, frozen=True):
    """Permutation importance of a knob, with its 95 % interval over the held-out trials (for the model as it is)."""

    knob: str
    share: float
    low: float
    high: float


class Recheck(Struct, frozen=True):
    """A design's first objective on another network back end; `other` is None if that refuses it (`problem`)."""

    trial: Trial
    other: float | None
    problem: str = ""


def sign(study: StoredStudy) -> float:
    """1 if less of the first objective is better, else -1."""
    return -1.0 if study.plan.goal.objectives[0].maximize else 1.0


def value_of(trial: Trial) -> float:
    """The first objective of a trial that has one."""
    assert trial.verdict.values is not None
    return trial.verdict.values[0]


def best_trials(study: StoredStudy, count: int = 10) -> list[Trial]:
    """The best `count` distinct feasible designs by the first objective; of equal ones the earlier comes first."""
    good = (trial for trial in study.trials() if trial.same_as is None and trial.verdict.feasible)
    return heapq.nsmallest(count, good, key=lambda trial: (sign(study) * value_of(trial), trial.number))


def knob_importances(studies: Sequence[StoredStudy]) -> tuple[Surrogate, list[Importance]]:
    """Fit a surrogate to the distinct feasible trials of studies of one space. Returns it with the permutation
    importance of each knob, the most important first. Raises InputError if there are too few trials."""
    known: dict[Point, float] = {}
    for study in studies:
        for trial in study.trials():
            if trial.same_as is None and trial.verdict.feasible:
                known.setdefault(trial.point, value_of(trial))
    model = fit(list(known), list(known.values()))
    shares, names = importances(model), [axis.name for axis in studies[0].plan.space.axes]
    found = [Importance(name, *around_mean(shares[:, place])) for place, name in enumerate(names)]
    return model, sorted(found, key=lambda each: -each.share)


def around_mean(values: F64) -> tuple[float, float, float]:
    """A mean and its 95 % interval (Student's t), at least 0."""
    half = student(len(values) - 1) * float(values.std(ddof=1)) / math.sqrt(len(values))
    mean = float(values.mean())
    return max(0.0, mean), max(0.0, mean - half), max(0.0, mean + half)


def most_important(found: Sequence[Importance]) -> str | None:
    """The knob whose interval of importance is above that of every other; None if no knob's is. `found`: the most
    important first."""
    first = found[0]
    return first.knob if first.low > max((other.high for other in found[1:]), default=0.0) else None


def sensitivities(study: StoredStudy, trial: Trial, progress: Told | None = None) -> list[Sensitivity]:
    """Simulate every other value of every knob (a continuum at its ends), one knob at a time around a trial."""
    judge, wanted = Evaluator(study.plan.space, study.plan.goal), list(_around(study.plan.space, trial))
    found = list[Sensitivity]()
    for knob, value, moved, point in wanted:
        if progress is not None:
            progress("sensitivities", len(found), len(wanted))
        found.append(Sensitivity(knob, value, moved, judge(point)))
    return found


def _around(space: Space, trial: Trial) -> Iterator[tuple[str, Any, tuple[str, ...], Point]]:
    """Yield (knob, value, knobs that move with it, point) for every other value of every knob around a trial."""
    for place, axis in enumerate(space.axes):
        ends = range(axis.size) if axis.size else (axis.domain.low, axis.domain.high)
        for wanted in ends:
            if wanted == trial.point[place]:
                continue
            wish = list(trial.point)
            wish[place] = wanted
            point = space.projector.project(wish, pinned=place)
            if point[place] != wanted:
                continue
            moved = tuple(other.name for index, other in enumerate(space.axes)
                          if index != place and point[index] != trial.point[index])
            yield axis.name, space.values(point)[axis.name], moved, point


def rechecked(study: StoredStudy, trials: Sequence[Trial], backend: str = "contention",
              progress: Told | None = None) -> list[Recheck]:
    """Simulate the designs of `trials` again with another network back end."""
    judge = Evaluator(on_model(study.plan.space, backend), study.plan.goal)
    found = list[Recheck]()
    for trial in trials:
        if progress is not None:
            progress(f"designs on {backend}", len(found), len(trials))
        verdict = judge(trial.point)
        found.append(Recheck(trial, verdict.values[0] if verdict.values else None, verdict.problem))
    return found


class Surrogate(Struct, frozen=True):
    """A fitted surrogate. `r2` and `relative_error` (root mean square) are of the held-out trials `held`."""

    trees: tuple[_Tree, ...]
    logarithm: bool
    r2: float
    relative_error: float
    held: tuple[F64, F64]

    def predict(self, points: Sequence[Point]) -> F64:
        """The modelled objective of each point, an array [points]."""
        found = self._raw(np.array(points, dtype=float))
        return np.asarray(np.exp(found) if self.logarithm else found)

    def _raw(self, features: F64) -> F64:
        found: F64 = np.mean([_answers(tree, features) for tree in self.trees], axis=0)
        return found


def fit(points: Sequence[Point], values: Sequence[float], seed: int = 0) -> Surrogate:
    """Fit a surrogate to feasible trials (at most 4,000, taken evenly). Raises InputError for fewer than 20."""
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
    """Permutation importance of each knob, an array [held-out trials, axes], whose mean over the trials it is: the
    increase of a trial's squared error when the values of the knob are shuffled, as a share of the objective's
    variance."""
    features, target = model.held
    rng = np.random.default_rng(seed)
    spread = float(np.mean((target - target.mean()) ** 2)) or 1.0
    base = (model._raw(features) - target) ** 2
    found = np.zeros(features.shape)
    for axis in range(features.shape[1]):
        for _ in range(repeats):
            mixed = features.copy()
            mixed[:, axis] = rng.permutation(mixed[:, axis])
            found[:, axis] += (model._raw(mixed) - target) ** 2 - base
    return found / repeats / spread


def _grown(features: F64, target: F64, rng: np.random.Generator) -> _Tree:
    """Grow one tree; its columns: axis (-1: a leaf), cut, left, right, answer."""
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
    """The best of some random cuts; None if nothing can be cut."""
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
