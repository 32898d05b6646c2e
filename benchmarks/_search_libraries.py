"""Optuna, pymoo and BoTorch on a space, used as their manuals do, without any agent of ours.

Knobs whose values are ordered are whole numbers, others are categories. A design that breaks a constraint is moved to
the nearest feasible one, which is what gets the value; requirements are the library's own constraints.
"""

from __future__ import annotations

import importlib
import math
import random
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from astrarium.search.axes import Point
from astrarium.search.space import Space
from astrarium.search.trial import Verdict

__all__ = ["LIBRARIES"]

Judge = Callable[[Point], Verdict]
Library = Callable[[Space, Judge, int, int, int], None]
"""Searches a space with a judge: number of requirements, trials, seed."""
POPULATION = 32


class _Asked:
    """Judges wishes; a refused design is worth the worst value so far."""

    def __init__(self, space: Space, judge: Judge):
        self.space, self.judge, self.worst = space, judge, 0.0

    def __call__(self, wish: Sequence[float]) -> tuple[float, list[float]]:
        """The value of the nearest feasible design, and how far it misses each requirement (above 0: it does)."""
        verdict = self.judge(self.space.projector.project(wish))
        value = self.worst if verdict.values is None else verdict.values[0]
        self.worst = max(self.worst, value)
        return value, [-slack for slack in verdict.slacks]


def _optuna(sampler: Callable[[Any, int, Any], Any]) -> Library:
    def run(space: Space, judge: Judge, limits: int, trials: int, seed: int) -> None:
        optuna: Any = importlib.import_module("optuna")
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        asked = _Asked(space, judge)

        def objective(trial: Any) -> float:
            value, missed = asked([
                trial.suggest_int(axis.name, 0, axis.size - 1) if axis.ordered
                else trial.suggest_categorical(axis.name, list(range(axis.size))) for axis in space.axes])
            trial.set_user_attr("missed", missed)
            return value

        def constraints(trial: Any) -> list[float]:
            return list(trial.user_attrs["missed"])

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = sampler(optuna.samplers, seed, {"constraints_func": constraints} if limits else {})
            optuna.create_study(sampler=made).optimize(objective, n_trials=trials)
    return run


def _pymoo(space: Space, judge: Judge, limits: int, trials: int, seed: int) -> None:
    problem_module: Any = importlib.import_module("pymoo.core.problem")
    rounding = importlib.import_module("pymoo.operators.repair.rounding").RoundingRepair
    asked = _Asked(space, judge)

    class Problem(problem_module.ElementwiseProblem):      # type: ignore[misc]
        """The space as whole numbers."""

        def __init__(self) -> None:
            super().__init__(n_var=len(space.axes), n_obj=1, n_ieq_constr=limits, xl=0,
                             xu=np.array([axis.size - 1 for axis in space.axes]), vtype=int)

        def _evaluate(self, x: Any, out: Any, *_: Any, **__: Any) -> None:
            out["F"], missed = asked([int(each) for each in x])
            if limits:
                out["G"] = missed

    crossover = importlib.import_module("pymoo.operators.crossover.sbx").SBX
    mutation = importlib.import_module("pymoo.operators.mutation.pm").PM
    algorithm = importlib.import_module("pymoo.algorithms.soo.nonconvex.ga").GA(
        pop_size=POPULATION, sampling=importlib.import_module("pymoo.operators.sampling.rnd").IntegerRandomSampling(),
        crossover=crossover(prob=1.0, eta=3.0, vtype=float, repair=rounding()),
        mutation=mutation(prob=1.0, eta=3.0, vtype=float, repair=rounding()), eliminate_duplicates=True)
    minimize = importlib.import_module("pymoo.optimize").minimize
    minimize(Problem(), algorithm, ("n_eval", trials), seed=seed, verbose=False)


def _botorch(space: Space, judge: Judge, _: int, trials: int, seed: int) -> None:
    """A SingleTaskGP of the logarithm, its LogEI over 2,000 drawn feasible designs, after 16 random ones."""
    torch: Any = importlib.import_module("torch")
    gp = importlib.import_module("botorch.models").SingleTaskGP
    standardize = importlib.import_module("botorch.models.transforms").Standardize
    fit = importlib.import_module("botorch.fit").fit_gpytorch_mll
    marginal = importlib.import_module("gpytorch.mlls").ExactMarginalLogLikelihood
    improvement = importlib.import_module("botorch.acquisition").LogExpectedImprovement
    torch.manual_seed(seed)
    draw, asked = random.Random(seed), _Asked(space, judge)
    rows, values = list[Any](), list[float]()

    def row(point: Point) -> list[float]:
        return [each for axis, index in zip(space.axes, point) for each in
                ([index / max(1, axis.size - 1)] if axis.ordered else [float(index == at) for at in range(axis.size)])]
    for trial in range(trials):
        drawn = [space.sample(draw) for _ in range(1 if trial < 16 else 2000)]
        chosen = drawn[0]
        if trial >= 16:
            x, y = torch.tensor(rows, dtype=torch.double), torch.tensor(values, dtype=torch.double)[:, None]
            model = gp(x, y, outcome_transform=standardize(1))
            fit(marginal(model.likelihood, model))
            worth = improvement(model, best_f=y.min(), maximize=False)
            with torch.no_grad():
                at = torch.tensor([row(point) for point in drawn], dtype=torch.double)[:, None]
                chosen = drawn[int(worth(at).argmax())]
        value, missed = asked(chosen)
        rows.append(row(chosen))
        values.append(math.log(asked.worst if any(each > 0 for each in missed) else value))


LIBRARIES: dict[str, Library] = {
    "optuna TPE": _optuna(lambda samplers, seed, more: samplers.TPESampler(seed=seed, **more)),
    "optuna TPE multivariate": _optuna(lambda samplers, seed, more: samplers.TPESampler(
        seed=seed, multivariate=True, **more)),
    "optuna NSGA-II": _optuna(lambda samplers, seed, more: samplers.NSGAIISampler(
        seed=seed, population_size=POPULATION, **more)),
    "optuna CMA-ES": _optuna(lambda samplers, seed, more: samplers.CmaEsSampler(seed=seed)),
    "optuna GP": _optuna(lambda samplers, seed, more: samplers.GPSampler(seed=seed, **more)),
    "pymoo GA": _pymoo,
    "botorch": _botorch,
}
