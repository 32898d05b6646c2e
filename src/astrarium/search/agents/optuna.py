"""Agents on Optuna's samplers: tree-structured Parzen estimator, CMA-ES, Gaussian process.

A sampler proposes knob by knob; the nearest feasible point is taken and told back to it.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

from astrarium.config import Knob
from astrarium.errors import InputError
from astrarium.search.agents.base import Agent, Batch, Options, Scale, Told, needed, one_objective
from astrarium.search.axes import Point
from astrarium.search.goal import Goal
from astrarium.search.space import Space

__all__ = ["Bayesian", "Bridge", "CmaEs", "Tpe", "distributions", "optuna_module"]

TAUGHT = 4    # known wishes in a row that a model is taught
IDLE = 8      # tries to find a point that was not told yet


def optuna_module(agent: str, *more: str, extra: str = "search") -> Any:
    """Import Optuna and silence its log. Raises InputError with the pip line."""
    optuna: Any = needed(agent, extra, "optuna", *more)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def distributions(optuna: Any, space: Space, ordered: bool = False) -> dict[str, Any]:
    """Axis name -> Optuna distribution: value indexes as whole numbers if the values are ordered (`ordered`: always),
    else categories."""
    found: dict[str, Any] = {}
    kinds = optuna.distributions
    for axis in space.axes:
        low, size = -1 if axis.when is not None else 0, axis.size
        if not size:
            found[axis.name] = kinds.FloatDistribution(axis.domain.low, axis.domain.high, log=axis.domain.log)
        elif axis.ordered or ordered or size == 1:
            found[axis.name] = kinds.IntDistribution(low, size - 1)
        else:
            found[axis.name] = kinds.CategoricalDistribution(tuple(range(low, size)))
    return found


class Bridge:
    """A sampler behind ask and tell. `lamarckian`: the study learns the feasible points themselves, not the wishes
    (samplers that keep a state per trial, such as CMA-ES, learn the wish with the worth of its nearest point). `model`:
    the sampler's next wish depends on what it learnt alone, so that a wish whose nearest point is known is taught with
    that point's value, or it would come again for ever; if this does not help, the next point is a random one."""

    def __init__(self, optuna: Any, sampler: Any, space: Space, *, lamarckian: bool = True, ordered: bool = False,
                 model: bool = False, seed: int = 0):
        self.optuna, self.space, self.lamarckian = optuna, space, lamarckian
        self.study = optuna.create_study(sampler=sampler)
        self.distributions = distributions(optuna, space, ordered)
        self.scale = Scale()
        self.open: list[Any] = []
        self.told: dict[Point, float] = {}
        self.model, self.draw = model, random.Random(seed)

    def ask(self, count: int) -> list[Point]:
        """The feasible points nearest to the sampler's next wishes."""
        found: list[Point] = []
        self.open = []
        for _ in range(count):
            trial, point = self._new()
            self.open.append(trial)
            found.append(point)
        return found

    def _new(self) -> tuple[Any, Point]:
        """One wish and its nearest point; a sampler that repeats a point is asked again, a few times."""
        for attempt in range(IDLE):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")      # experimental samplers say so at every call
                trial = self.study.ask(self.distributions)
            wish = [trial.params[axis.name] for axis in self.space.axes]
            point = self.space.projector.project(wish)
            if self.model and attempt == TAUGHT and point in self.told:
                return trial, self._unknown()
            if not self.lamarckian or point not in self.told or attempt == IDLE - 1:
                break
            taught = self.model and tuple(wish) != point
            self._finish(trial, self.told[point] if taught else None)
        return trial, point

    def _unknown(self) -> Point:
        """A random point, if possible one whose value is not known."""
        found = (self.space.sample(self.draw) for _ in range(IDLE))
        return next((point for point in found if point not in self.told), self.space.sample(self.draw))

    def _finish(self, trial: Any, value: float | None) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if value is None:
                self.study.tell(trial, state=self.optuna.trial.TrialState.FAIL)
            else:
                self.study.tell(trial, value)

    def tell(self, told: Sequence[Told]) -> None:
        """Tell the sampler the scaled values."""
        for trial, each in zip(self.open, told):
            point, scaled = each.point, self.scale(each.values[0])
            if not self.lamarckian:
                self._finish(trial, scaled)
                continue
            self._finish(trial, None)
            self._teach(point, scaled)
        self.open = []

    def hear(self, told: Sequence[Told]) -> None:
        """Teach the sampler points that it did not wish for."""
        for each in told:
            self._teach(each.point, self.scale(each.values[0]))

    def _teach(self, point: Point, scaled: float) -> None:
        if point in self.told:
            return
        self.told[point] = scaled
        params = {axis.name: each for axis, each in zip(self.space.axes, point)}
        self.study.add_trial(self.optuna.trial.create_trial(params=params, distributions=self.distributions,
                                                            value=scaled))


class Tpe(Options, frozen=True, kw_only=True):
    """Optuna's TPESampler: densities of good and of other points, per knob (Bergstra et al. 2011)."""

    tag: ClassVar[str] = "tpe"
    batch: Batch = 1
    startup: Annotated[int, Knob("Random points before the model is used.", ge=1)] = 20
    multivariate: Annotated[bool, Knob("Model knobs together rather than one by one.")] = True

    def start(self, space: Space, goal: Goal, seed: int) -> Agent:
        """Start a search. Raises InputError for several objectives, and if Optuna is not installed."""
        one_objective("tpe", goal)
        optuna = optuna_module("tpe")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=self.startup,
                                                 multivariate=self.multivariate, constant_liar=self.batch > 1)
        return Bridge(optuna, sampler, space)


class CmaEs(Options, frozen=True, kw_only=True):
    """Optuna's CmaEsSampler on value indexes; knobs without an order are treated as if they had one."""

    tag: ClassVar[str] = "cma_es"
    batch: Batch = 16

    def start(self, space: Space, goal: Goal, seed: int) -> Agent:
        """Start a search; the batch is the population. Raises InputError for several objectives, for one knob, and if a
        library is not installed."""
        one_objective("cma_es", goal)
        optuna = optuna_module("cma_es", "cmaes")
        if len(space.axes) < 2:
            raise InputError("agent", "cma_es needs two knobs or more", expected="another agent")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sampler = optuna.samplers.CmaEsSampler(seed=seed, popsize=self.batch, with_margin=False,
                                                   independent_sampler=optuna.samplers.RandomSampler(seed=seed),
                                                   warn_independent_sampling=False)
        return Bridge(optuna, sampler, space, lamarckian=False, ordered=True)


class Bayesian(Options, frozen=True, kw_only=True):
    """Optuna's GPSampler: Matern kernel with a length scale per knob, log expected improvement. Its time grows with the
    cube of the trials: meant for a few hundred. COSMIC ran scikit-optimize's BayesSearchCV with seeds 1 to 4."""

    tag: ClassVar[str] = "bayesian"
    batch: Batch = 1
    startup: Annotated[int, Knob("Random points before the model is used.", ge=1)] = 20

    def start(self, space: Space, goal: Goal, seed: int) -> Agent:
        """Start a search. Raises InputError for several objectives, and if a library is not installed."""
        one_objective("bayesian", goal)
        optuna = optuna_module("bayesian", "torch", "scipy", extra="bayesian")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sampler = optuna.samplers.GPSampler(seed=seed, n_startup_trials=self.startup, deterministic_objective=True)
        return Bridge(optuna, sampler, space, model=True, seed=seed)
