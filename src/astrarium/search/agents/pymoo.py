"""Agents on pymoo: NSGA-II and NSGA-III. Real vectors of value indexes, moved to the nearest feasible point."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from astrarium.errors import InputError
from astrarium.search.agents.base import Agent, Batch, Options, Scale, Told, Values, needed
from astrarium.search.axes import Point
from astrarium.search.goal import Goal
from astrarium.search.space import Space

__all__ = ["Nsga2", "Nsga3", "PymooBridge", "pymoo_modules"]


def pymoo_modules(agent: str) -> Any:
    """Import pymoo with the modules that agents use. Raises InputError with the pip line."""
    return needed(agent, "search", "pymoo", "pymoo.algorithms.moo.nsga2", "pymoo.algorithms.moo.nsga3",
                  "pymoo.core.problem", "pymoo.core.population", "pymoo.core.evaluator", "pymoo.problems.static",
                  "pymoo.util.ref_dirs", "pymoo.termination")


def first_generation(space: Space, size: int, seed: int) -> Any:
    """Uniform feasible points as rows [size, axes]."""
    rng = random.Random(seed)
    return np.array([space.sample(rng) for _ in range(size)], dtype=float)


class PymooBridge:
    """An algorithm behind ask and tell. A generation may be smaller than asked for: repeated points are dropped."""

    def __init__(self, pymoo: Any, algorithm: Any, space: Space, objectives: int, seed: int):
        self.pymoo, self.algorithm, self.space = pymoo, algorithm, space
        self.scales = [Scale() for _ in range(objectives)]
        low = [axis.domain.low if not axis.size else -1.0 if axis.when is not None else 0.0 for axis in space.axes]
        high = [axis.domain.high if not axis.size else axis.size - 1.0 for axis in space.axes]
        problem = pymoo.core.problem.Problem(n_var=len(space.axes), n_obj=objectives, xl=np.array(low),
                                             xu=np.array(high) + 1e-9)
        self.problem = problem
        algorithm.setup(problem, seed=seed, termination=pymoo.termination.get_termination("n_gen", 2**31),
                        verbose=False)
        self.waiting: list[int] = []
        self.generation: Any = None

    def hear(self, told: Sequence[Told]) -> None:
        """The points stand in the place of the first random ones in the first generation."""
        first = self.algorithm.initialization.sampling
        for row, each in zip(first, told):
            row[:] = each.point

    def ask(self, count: int) -> list[Point]:
        """Points of the current generation, or of the next one if all values are known."""
        if not self.waiting:
            self.generation = self.algorithm.ask()
            if self.generation is None or not len(self.generation):
                return []
            wishes = self.generation.get("X")
            points = [self.space.projector.project([float(each) for each in wish]) for wish in wishes]
            self.generation.set("X", np.array(points, dtype=float))
            self.points: list[Point] = points
            self.worth: list[Values] = []
            self.waiting = list(range(len(points)))
        return [self.points[place] for place in self.waiting[:count]]

    def tell(self, told: Sequence[Told]) -> None:
        """Collect values; the algorithm learns those of a whole generation."""
        self.worth.extend(tuple(scale(value) for scale, value in zip(self.scales, each.values)) for each in told)
        self.waiting = self.waiting[len(told):]
        if self.waiting:
            return
        static = self.pymoo.problems.static.StaticProblem(self.problem, F=np.array(self.worth))
        self.pymoo.core.evaluator.Evaluator().eval(static, self.generation)
        self.algorithm.tell(infills=self.generation)


class Nsga2(Options, frozen=True, kw_only=True):
    """pymoo's NSGA2 with its default operators; the batch is the population."""

    tag: ClassVar[str] = "nsga2"
    batch: Batch = 32

    def start(self, space: Space, goal: Goal, seed: int) -> Agent:
        """Start a search. Raises InputError if pymoo is not installed."""
        pymoo = pymoo_modules("nsga2")
        algorithm = pymoo.algorithms.moo.nsga2.NSGA2(pop_size=self.batch,
                                                     sampling=first_generation(space, self.batch, seed))
        return PymooBridge(pymoo, algorithm, space, len(goal.objectives), seed)


class Nsga3(Options, frozen=True, kw_only=True):
    """pymoo's NSGA3 with as many reference directions (Riesz energy) as points in a generation."""

    tag: ClassVar[str] = "nsga3"
    batch: Batch = 32

    def start(self, space: Space, goal: Goal, seed: int) -> Agent:
        """Start a search. Raises InputError for one objective, and if pymoo is not installed."""
        if len(goal.objectives) < 2:
            raise InputError("agent", "nsga3 is for several objectives", expected="nsga2, or two objectives or more")
        pymoo = pymoo_modules("nsga3")
        directions = pymoo.util.ref_dirs.get_reference_directions("energy", len(goal.objectives), self.batch, seed=seed)
        algorithm = pymoo.algorithms.moo.nsga3.NSGA3(directions, pop_size=self.batch,
                                                     sampling=first_generation(space, self.batch, seed))
        return PymooBridge(pymoo, algorithm, space, len(goal.objectives), seed)
