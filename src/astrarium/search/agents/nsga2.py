"""NSGA-II of pymoo, on value indexes that are moved to the nearest feasible point."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from astrarium.search.agents.base import Agent, Batch, Options, Scaled, Told, Values, needed
from astrarium.search.axes import Point
from astrarium.search.goal import Goal
from astrarium.search.space import Space

__all__ = ["Nsga2"]


def _modules() -> Any:
    """Import pymoo with its modules. Raises InputError with the pip line."""
    return needed("nsga2", "search", "pymoo", "pymoo.algorithms.moo.nsga2",
                  "pymoo.core.problem", "pymoo.core.population", "pymoo.core.evaluator", "pymoo.problems.static",
                  "pymoo.termination", "pymoo.core.repair", "pymoo.core.duplicate",
                  "pymoo.operators.crossover.sbx", "pymoo.operators.mutation.pm")


def _first_generation(space: Space, size: int, seed: int) -> Any:
    """Uniform feasible points as rows [size, axes]."""
    rng = random.Random(seed)
    return np.array([space.sample(rng) for _ in range(size)], dtype=float)


def _operators(pymoo: Any, space: Space, seen: set[Point]) -> dict[str, Any]:
    """Operators of an algorithm: whole steps, children moved to the nearest feasible points, and no point of `seen`."""

    class Nearest(pymoo.core.repair.Repair):      # type: ignore[misc]
        """Moves children to the nearest feasible points."""

        def _do(self, _: Any, wishes: Any, **__: Any) -> Any:
            return np.array([space.projector.project(wish) for wish in wishes.tolist()], dtype=float)

    class Unseen(pymoo.core.duplicate.DuplicateElimination):      # type: ignore[misc]
        """Drops points that are there already."""

        def _do(self, children: Any, others: Any, repeated: Any) -> Any:
            earlier = set(seen) if others is None else {tuple(each.X) for each in others}
            for place, each in enumerate(children):
                repeated[place] |= tuple(each.X) in earlier
                if others is None:
                    earlier.add(tuple(each.X))
            return repeated

    return {"repair": Nearest(), "eliminate_duplicates": Unseen(),
            "crossover": pymoo.operators.crossover.sbx.SBX(prob=1.0, eta=3.0),
            "mutation": pymoo.operators.mutation.pm.PM(prob=1.0, eta=3.0)}


class _Nsga2:
    """An algorithm behind ask and tell; `seen`: the points that its operators leave out."""

    def __init__(self, pymoo: Any, algorithm: Any, space: Space, objectives: int, seed: int, seen: set[Point]):
        self.pymoo, self.algorithm, self.space, self.seen = pymoo, algorithm, space, seen
        self.rng = random.Random(seed)
        self.scaled = Scaled(objectives)
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
                self.generation = self.pymoo.core.population.Population.new("X", self._unseen())
            if not len(self.generation):
                return []
            wishes = self.generation.get("X")
            self.points: list[Point] = [self.space.projector.project(wish) for wish in wishes.tolist()]
            self.seen.update(self.points)
            self.worth: list[Values] = []
            self.waiting = list(range(len(self.points)))
        return [self.points[place] for place in self.waiting[:count]]

    def _unseen(self) -> Any:
        """Random points that were not tried, for a population without new children; none if every design is known."""
        found = set[Point]()
        while len(found) < self.algorithm.pop_size and (
                self.space.continua or len(self.seen) + len(found) < self.space.count):
            point = self.space.sample(self.rng)
            if point not in self.seen:
                found.add(point)
        return np.array(sorted(found), dtype=float)

    def tell(self, told: Sequence[Told]) -> None:
        """Collect values; the algorithm learns those of a whole generation."""
        self.worth.extend(map(self.scaled, told))
        self.waiting = self.waiting[len(told):]
        if self.waiting:
            return
        static = self.pymoo.problems.static.StaticProblem(self.problem, F=np.array(self.worth))
        self.pymoo.core.evaluator.Evaluator().eval(static, self.generation)
        self.algorithm.tell(infills=self.generation)


class Nsga2(Options, frozen=True, kw_only=True):
    """pymoo's NSGA2 with the operators that its manual has for whole numbers; the batch is the population."""

    tag: ClassVar[str] = "nsga2"
    batch: Batch = 32

    def start(self, space: Space, goal: Goal, seed: int) -> Agent:
        """Start a search. Raises InputError if pymoo is not installed."""
        pymoo, seen = _modules(), set[Point]()
        algorithm = pymoo.algorithms.moo.nsga2.NSGA2(pop_size=self.batch, **_operators(pymoo, space, seen),
                                                     sampling=_first_generation(space, self.batch, seed))
        return _Nsga2(pymoo, algorithm, space, len(goal.objectives), seed, seen)
