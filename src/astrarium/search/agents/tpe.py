"""Tree-structured Parzen estimator: Optuna's sampler, whose wishes are moved to the nearest feasible points."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

from astrarium.config import Knob
from astrarium.search.agents.base import Agent, Batch, InFlight, Options, Scaled, Told, needed, one_objective
from astrarium.search.axes import Point
from astrarium.search.goal import Goal
from astrarium.search.space import Space

__all__ = ["Tpe"]

TRIES = 8      # wishes until one is nearest to a point that is not known


class Tpe(Options, frozen=True, kw_only=True):
    """Optuna's TPESampler: densities of good and of other points, per knob (Bergstra et al. 2011)."""

    tag: ClassVar[str] = "tpe"
    batch: Batch = 1
    in_flight: InFlight = 0
    startup: Annotated[int, Knob("Random points before the model is used.", ge=1)] = 20
    multivariate: Annotated[bool, Knob("Model knobs together rather than one by one.")] = True

    def start(self, space: Space, goal: Goal, seed: int) -> Agent:
        """Start a search. Raises InputError for several objectives, and if Optuna is not installed."""
        one_objective("tpe", goal)
        optuna: Any = needed("tpe", "search", "optuna")
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sampler = optuna.samplers.TPESampler(
                seed=seed, n_startup_trials=self.startup, multivariate=self.multivariate,
                constant_liar=self.batch > 1 or self.in_flight > 1)
        return _Tpe(optuna, sampler, space)


def _distributions(optuna: Any, space: Space) -> dict[str, Any]:
    """Axis name -> Optuna distribution: value indexes as whole numbers if the values are ordered, else categories."""
    found: dict[str, Any] = {}
    kinds = optuna.distributions
    for axis in space.axes:
        low, size = -1 if axis.when is not None else 0, axis.size
        if not size:
            found[axis.name] = kinds.FloatDistribution(axis.domain.low, axis.domain.high, log=axis.domain.log)
        elif axis.ordered or size == 1:
            found[axis.name] = kinds.IntDistribution(low, size - 1)
        else:
            found[axis.name] = kinds.CategoricalDistribution(tuple(range(low, size)))
    return found


class _Tpe:
    """The sampler behind ask and tell. Its study holds feasible points: a wish that is not one fails, and the point
    nearest to it is added."""

    def __init__(self, optuna: Any, sampler: Any, space: Space):
        self.optuna, self.space = optuna, space
        self.study = optuna.create_study(sampler=sampler)
        self.distributions, self.scaled = _distributions(optuna, space), Scaled()
        self.open: dict[Point, tuple[Any, bool]] = {}      # trials of the study; whether they wished for the very point
        self.known: set[Point] = set()

    def ask(self, count: int) -> list[Point]:
        """The feasible points nearest to the sampler's next wishes."""
        found: list[Point] = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(count):
                found.append(self._new())
        return found

    def _new(self) -> Point:
        """The point of one wish; a sampler that wishes for a known point is asked again, a few times."""
        trial = self.study.ask(self.distributions)
        for _ in range(TRIES):
            wish = tuple([trial.params[axis.name] for axis in self.space.axes])
            point = self.space.projector.project(wish)
            if point not in self.known and point not in self.open:
                break
            self.study.tell(trial, state=self.optuna.trial.TrialState.FAIL)
            trial = self.study.ask(self.distributions)
        self.open[point] = trial, wish == point
        return point

    def tell(self, told: Sequence[Told]) -> None:
        """Tell the sampler the scaled values."""
        for each in told:
            value = self.scaled(each)[0]
            trial, exact = self.open.pop(each.point, (None, False))
            if trial is None:      # the point was told already
                continue
            if exact and each.point not in self.known:
                self.known.add(each.point)
                self.study.tell(trial, value)
            else:
                self.study.tell(trial, state=self.optuna.trial.TrialState.FAIL)
                self._teach(each.point, value)

    def hear(self, told: Sequence[Told]) -> None:
        """Teach the sampler points that it did not wish for."""
        for each in told:
            self._teach(each.point, self.scaled(each)[0])

    def _teach(self, point: Point, value: float) -> None:
        if point in self.known:
            return
        self.known.add(point)
        params = {axis.name: each for axis, each in zip(self.space.axes, point)}
        self.study.add_trial(self.optuna.trial.create_trial(params=params, distributions=self.distributions,
                                                            value=value))
