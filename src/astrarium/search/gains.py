"""By how much one design is better than another for a search's objective, split by knob.

A knob's factor is the exponential of its Shapley value for the logarithm of the objective (see `search.explain`), so
that the factors multiply to the whole gain. Between the best designs of a single-stack search and of a full-stack
search, they are what the full stack gains by each knob.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from msgspec import Struct

from astrarium.design import Design
from astrarium.errors import InputError
from astrarium.search.analysis import best_trials
from astrarium.search.differences import Difference
from astrarium.search.evaluate import Evaluator
from astrarium.search.explain import explain
from astrarium.search.goal import Goal
from astrarium.search.space import Space
from astrarium.search.studyfile import StoredStudy

__all__ = ["Gain", "Gains", "best_gains", "gains"]

UNIT = 1e12     # `explain` splits whole numbers: logarithms times this


class Gain(Struct, frozen=True):
    """What one knob (or several that only change together) gains. `alone`: if it is the only change to the first design
    (None: refused); `factor`: its share of the whole gain, with its relative standard `error` (0: exact)."""

    knobs: tuple[Difference, ...]
    alone: float | None
    factor: float
    error: float = 0.0


class Gains(Struct, frozen=True):
    """The gain of the second design over the first (`before` and `after`: their objectives; above 1: the second is
    better). `parts`: largest factor first; `exact`: whether all orders counted, else `orders` drawn ones."""

    objective: str
    before: float
    after: float
    gain: float
    parts: tuple[Gain, ...]
    exact: bool
    orders: int
    simulated: int
    refused: int


def gains(first: Design, second: Design, goal: Goal, *, orders: int = 64, seed: int = 0) -> Gains:
    """Split the gain of the second design over the first, for the first objective of `goal` (over its cases), by knob.

    Args:
        first: The design before.
        second: The design after.
        goal: Its requirements do not count.
        orders: Orders to draw if more than 8 knobs differ; 4 or more.
        seed: Seed of the drawn orders.

    Raises:
        InputError: if one of the two designs cannot run, and for an objective that is not above 0.
    """
    objective = goal.objectives[0]
    sign = 1.0 if objective.maximize else -1.0
    found = explain(first, second, orders=orders, seed=seed, run=_logarithm(Goal((objective,), (), goal.cases)))

    def times(logarithm: float) -> float:
        return math.exp(sign * logarithm / UNIT)

    parts = [Gain(change.knobs, None if change.alone is None else times(change.alone), times(change.contribution),
                  change.error / UNIT) for change in found.changes]
    before, after = (math.exp(value / UNIT) for value in (found.before, found.after))
    return Gains(objective.name, before, after, times(found.difference),
                 tuple(sorted(parts, key=lambda part: -part.factor)), found.exact, found.orders, found.simulated,
                 found.refused)


def best_gains(first: StoredStudy, second: StoredStudy, *, orders: int = 64, seed: int = 0) -> Gains:
    """Split the gain of the best design of one study over that of another, as `gains`. Raises InputError for studies of
    other objectives or cases, and for one without a feasible trial."""
    goal = second.plan.goal
    if second.functions or first.functions:
        raise InputError("minimize", "was a Python function, which a study file does not hold",
                         expected="an expression")
    if (first.plan.goal.objectives[0], first.plan.goal.cases) != (goal.objectives[0], goal.cases):
        raise InputError(first.path, f"has another objective, or other cases, than {second.path}",
                         expected="two studies with one goal")
    return gains(_best(first), _best(second), goal, orders=orders, seed=seed)


def _best(study: StoredStudy) -> Design:
    best = best_trials(study, 1)
    if not best:
        raise InputError(study.path, "has no feasible trial", expected="a study with one")
    study.refuse_other_inputs("studies of the inputs of now")
    return study.plan.space.design(best[0].point)


def _logarithm(goal: Goal) -> Callable[[Design], int]:
    """A function from a design to the logarithm of its objective."""
    def run(design: Design) -> int:
        verdict = Evaluator(Space(design, variables={"design": [0]}), goal)((0,))
        if verdict.values is None:
            raise InputError("design", verdict.problem)
        if verdict.values[0] <= 0:
            raise InputError(goal.objectives[0].name, f"is {verdict.values[0]:g}, which has no logarithm",
                             expected="an objective above 0")
        return round(math.log(verdict.values[0]) * UNIT)
    return run
