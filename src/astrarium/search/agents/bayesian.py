"""Bayesian optimisation: Gaussian processes of the objective and of each requirement choose the next designs."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Annotated, ClassVar

import numpy as np

from astrarium.config import Knob
from astrarium.search.agents.base import Agent, Batch, InFlight, Merit, Merits, Options, Scale, Told, Values
from astrarium.search.agents.gaussian import Floats, Model, Prediction, fit, log_cdf, log_improvement, one_thread
from astrarium.search.axes import Axis, Point
from astrarium.search.goal import Goal
from astrarium.search.space import Space

__all__ = ["Bayesian"]

STEPS = 20                      # of the optimiser of hyper-parameters
CENTERS, AROUND, DRAWN = 5, 40, 100      # candidates: the best designs, moves from each, random ones
CLIMBS, CLIMBERS, MOVES = 3, 5, 20       # then moves from the best candidates, a few times
MOST = 300                      # trials in a model
SHORT = 60                      # candidates among which a batch is chosen
NEAR = 0.2                      # reach of a short move
USUAL = 0.7                     # quantile of the feasible values above which values are equal for the model


class Bayesian(Options, frozen=True, kw_only=True):
    """Expected improvement times the probability that the requirements are met, over feasible designs around the best
    ones. Several objectives become one by drawn weights, others for each batch (ParEGO, Knowles 2006). The model of
    more than 300 trials is of the best 150 and the last 150."""

    tag: ClassVar[str] = "bayesian"
    repeats: ClassVar[bool] = False
    batch: Batch = 4
    in_flight: InFlight = 0
    startup: Annotated[int, Knob("Random designs before the model is used.", ge=2)] = 16

    def start(self, space: Space, goal: Goal, seed: int) -> Agent:
        """Start a search."""
        return _Bayesian(self, space, goal, seed)


class _Features:
    """Points as rows of numbers within 0 and 1: one per ordered knob or continuum, one per value of other knobs."""

    def __init__(self, axes: Sequence[Axis]):
        self.axes = axes
        self.tables = [_table(axis) for axis in axes]
        self.columns = [place for place, table in enumerate(self.tables) for _ in range(table.shape[1])]

    def __call__(self, points: Sequence[Point]) -> Floats:
        """Rows [points, features]."""
        columns = list(zip(*points))
        return np.concatenate([table[np.array(column)] if axis.size else _share(axis, column)
                               for axis, table, column in zip(self.axes, self.tables, columns)], axis=1)


def _table(axis: Axis) -> Floats:
    """The features of each value of a knob, those of -1 (not chosen) last."""
    if axis.size and not axis.ordered and axis.size > 2:
        found = np.vstack([np.eye(axis.size) * math.sqrt(0.5), np.zeros((1, axis.size))])
    else:
        found = np.append(np.linspace(0.0, 1.0, axis.size) if axis.size > 1 else np.zeros(1), 0.0)[:, None]
    if axis.when is None:
        return found
    chosen = np.append(np.zeros(len(found) - 1), 1.0)[:, None]
    return np.hstack([found, chosen])


def _share(axis: Axis, column: Sequence[float]) -> Floats:
    low, high, values = axis.domain.low, axis.domain.high, np.array(column, dtype=float)[:, None]
    if axis.domain.log:
        return np.asarray(np.log(values / low) / math.log(high / low))
    return (values - low) / (high - low)


class _Trials:
    """What the models learn from. `outputs`: per trial the objective that is aimed at, the slack of each requirement,
    and whether it was refused without a slack below 0 (1: it was); None for what is not known."""

    def __init__(self, space: Space, goal: Goal):
        self.features, limits = _Features(space.axes), len(goal.requirements)
        self.signs = [-1.0 if each.maximize else 1.0 for each in goal.objectives]
        self.known: dict[Point, int] = {}
        self.rows: list[Floats] = []
        self.objectives: list[Values | None] = []
        self.outputs: list[list[float | None]] = []
        self.missed: list[float] = []
        self._merit, self._scales = Merits(), [*(Scale() for _ in self.signs), *(Scale(1.0) for _ in range(limits))]
        self._count = limits + 2
        self._most = math.inf      # the objective counts as this at most

    def add(self, told: Told) -> None:
        """Learn from a trial."""
        if told.point in self.known:
            return
        verdict, scales = told.verdict, self._scales
        values = told.values if verdict.values is None else [
            sign * value for sign, value in zip(self.signs, verdict.values)]
        known = all(math.isfinite(value) for value in values)
        missed = any(slack < 0 for slack in verdict.slacks)
        slacks: list[float | None] = [None] * (len(scales) - len(self.signs))
        for place, slack in enumerate(verdict.slacks):
            if known or slack < 0:      # else a slack of 0 is one that was not computed
                slacks[place] = scales[len(self.signs) + place](slack)
        self.known[told.point] = len(self.rows)
        self.rows.append(self.features([told.point])[0])
        self.objectives.append(tuple([scale(value) for scale, value in zip(scales, values)]) if known else None)
        self.outputs.append([None, *slacks, None if missed and not known else float(not known)])
        self.missed.append(self._merit(told)[0])

    def aim(self, weights: Sequence[float]) -> None:
        """Make one objective of several: the largest weighted one, plus a twentieth of their sum."""
        known = [each for each in self.objectives if each is not None]
        if not known:
            return
        low = [min(column) for column in zip(*known)]
        wide = [max(column) - least or 1.0 for column, least in zip(zip(*known), low)]
        for output, objectives in zip(self.outputs, self.objectives):
            if objectives is not None:
                parts = [weight * (value - least) / width
                         for weight, value, least, width in zip(weights, objectives, low, wide)]
                output[0] = max(parts) + 0.05 * sum(parts)
        feasible = [output[0] for output, missed in zip(self.outputs, self.missed) if not missed]
        self._most = float(np.quantile(np.array(feasible, dtype=float), USUAL)) if feasible else math.inf

    def best(self, count: int) -> list[Point]:
        """The best points so far."""
        points = list(self.known)
        return [points[number] for number in self._ranked()[:count]]

    def _ranked(self) -> list[int]:
        """The trials, the best first."""
        def merit(number: int) -> Merit:
            value = self.outputs[number][0]
            return self.missed[number], math.inf if value is None else value
        return sorted(range(len(self.rows)), key=merit)

    @property
    def least(self) -> float:
        """The least value of a feasible trial; infinity if there is none."""
        return min((output[0] for output, missed in zip(self.outputs, self.missed)
                    if not missed and output[0] is not None), default=math.inf)

    def models(self) -> list[Model | None]:
        """A model per output; None for one that is equal everywhere."""
        count = len(self.rows)
        learnt = range(count) if count <= MOST else sorted({*self._ranked()[:MOST // 2],
                                                            *range(count - MOST // 2, count)})
        return [self._model(output, learnt) for output in range(self._count)]

    def _model(self, output: int, learnt: Sequence[int]) -> Model | None:
        rows = [number for number in learnt if self.outputs[number][output] is not None]
        values = np.array([self.outputs[number][output] for number in rows], dtype=float)
        if output == 0:
            values = np.minimum(values, self._most)      # how bad a bad design is does not matter
        if len(rows) < 2 or values.min() == values.max():
            return None
        return fit(np.array([self.rows[number] for number in rows]), values, self.features.columns, STEPS)


class _Bayesian:
    def __init__(self, options: Bayesian, space: Space, goal: Goal, seed: int):
        self.options, self.space, self.rng = options, space, random.Random(seed)
        self.trials = _Trials(space, goal)
        self.open: dict[Point, None] = {}      # points without a result

    def hear(self, told: Sequence[Told]) -> None:
        """The models learn from the points."""
        self.tell(told)

    def tell(self, told: Sequence[Told]) -> None:
        """Add the trials to the models' data."""
        for each in told:
            self.trials.add(each)
            self.open.pop(each.point, None)

    def ask(self, count: int) -> list[Point]:
        """The most promising points; none if every design is known."""
        tried = len(self.trials.known) + len(self.open)
        if not self.space.continua:
            count = min(count, self.space.count - tried)
        found: list[Point] = []
        if tried >= self.options.startup and self.trials.known and count > 0:
            self.trials.aim([-math.log(1.0 - self.rng.random()) for _ in self.trials.signs])
            with one_thread():
                found = self._candidates().choose(count, list(self.open))
        found += self._new(count - len(found), {*found, *self.open})
        self.open.update(dict.fromkeys(found))
        return found

    def _candidates(self) -> _Pool:
        """Moves from the best points, random points, and moves from the most promising of these."""
        best = self.trials.best(CENTERS)
        found = {self._moved(center, NEAR if number % 2 else 1.0) for center in best for number in range(AROUND)}
        points = [point for point in sorted(found) if point not in self.trials.known]
        pool = _Pool(self.trials, points + [self.space.sample(self.rng) for _ in range(DRAWN)])
        for _ in range(CLIMBS):
            pool.add([self._moved(start, NEAR if number % 2 else 1.0) for start in pool.best(CLIMBERS)
                      for number in range(MOVES)])
        return pool

    def _moved(self, point: Point, reach: float) -> Point:
        """A point that differs in one knob or a few."""
        while True:
            place = self.rng.randrange(len(point))
            point = self.space.projector.moved(point, place, self.rng, reach)
            if self.rng.random() < 0.6:
                return point

    def _new(self, count: int, taken: set[Point]) -> list[Point]:
        """Random points that are not known."""
        found: list[Point] = []
        while len(found) < count:
            point = self.space.sample(self.rng)
            if point not in self.trials.known and point not in taken:
                taken.add(point)
                found.append(point)
        return found


class _Pool:
    """Candidates with their predictions and worth: the logarithm of the expected improvement, plus that of the
    probability of each requirement."""

    def __init__(self, trials: _Trials, points: Sequence[Point]):
        self.trials, self.models = trials, trials.models()
        self.points: list[Point] = []
        self.worth = np.zeros(0)
        self.least = trials.least
        self.add(points)

    def add(self, points: Sequence[Point]) -> None:
        """Add points; known ones and repeated ones are left out."""
        taken = {*self.points, *self.trials.known}
        fresh = [point for point in dict.fromkeys(points) if point not in taken]
        if fresh:
            self.points += fresh
            self.worth = np.append(self.worth, self._worth(len(fresh), self._predicted(fresh), self.least))

    def best(self, count: int) -> list[Point]:
        """The points of the most worth."""
        return [self.points[place] for place in np.argsort(-self.worth, kind="stable")[:count]]

    def choose(self, count: int, running: Sequence[Point]) -> list[Point]:
        """New points to try together: each is chosen as if the earlier ones and those that run had their predicted
        values."""
        top = [*running, *(point for point in self.best(SHORT + len(running)) if point not in running)]
        if not top:
            return []
        predicted, least, chosen = self._predicted(top), self.least, list[int]()
        while len(chosen) < min(count + len(running), len(top)):
            place = len(chosen)
            if place >= len(running):
                worth = self._worth(len(top), predicted, least)
                worth[chosen] = -math.inf
                place = int(np.argmax(worth))
            chosen.append(place)
            for each in predicted:
                if each is not None:
                    each.believe(place)
            if predicted[0] is not None and math.isfinite(least):
                least = min(least, float(predicted[0].mean[place]))
        return [top[place] for place in chosen[len(running):]]

    def _predicted(self, points: Sequence[Point]) -> list[Prediction | None]:
        rows = self.trials.features(points)
        return [None if model is None else model.at(rows) for model in self.models]

    def _worth(self, count: int, predicted: Sequence[Prediction | None], least: float) -> Floats:
        found = np.zeros(count)
        objective, *slacks, refusal = predicted
        if objective is not None and math.isfinite(least):
            found += log_improvement(objective.mean, objective.deviation, least)
        for slack in slacks:
            if slack is not None:
                found += log_cdf(slack.mean / slack.deviation)
        if refusal is not None:
            found += log_cdf((0.5 - refusal.mean) / refusal.deviation)
        return np.round(found, 9)      # equal designs tie on every machine
