"""Genetic algorithm: a population that is crossed, mutated and repaired to the nearest feasible point."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Annotated, ClassVar

from astrarium.config import Knob
from astrarium.search.agents.base import Agent, Batch, Options, Told, one_objective
from astrarium.search.axes import Point
from astrarium.search.goal import Goal
from astrarium.search.space import Space

__all__ = ["Genetic"]


class Genetic(Options, frozen=True, kw_only=True):
    """Generations with tournament selection, uniform crossover, mutation, and an elite that survives. COSMIC ran
    scikit-opt's GA with populations of 32 and 64 and mutation probabilities of 0.01 and 0.05."""

    tag: ClassVar[str] = "genetic"
    batch: Batch = 32
    mutation: Annotated[float, Knob("Probability that a knob of a child is changed.", ge=0)] = 0.05
    crossover: Annotated[float, Knob("Probability that a child has two parents.", ge=0)] = 0.9
    tournament: Annotated[int, Knob("Points among which the best becomes a parent.", ge=1)] = 3
    elite: Annotated[int, Knob("Best points that stay in the population.", ge=0)] = 2

    def start(self, space: Space, goal: Goal, seed: int) -> Agent:
        """Start a search; the batch is the population. Raises InputError for several objectives."""
        one_objective("genetic", goal)
        return _Genetic(self, space, seed)


class _Genetic:
    def __init__(self, options: Genetic, space: Space, seed: int):
        self.options, self.space, self.rng = options, space, random.Random(seed)
        self.population: list[tuple[float, Point]] = []
        self.starts: dict[Point, float] = {}

    def hear(self, told: Sequence[Told]) -> None:
        """The points are of the first generation; random ones fill it."""
        self.starts = {each.point: each.values[0] for each in told}

    def ask(self, count: int) -> list[Point]:
        """The points of the next generation."""
        if not self.population:
            return [self.space.sample(self.rng) for _ in range(max(1, count - len(self.starts)))]
        known = {point for _, point in self.population}
        found: list[Point] = []
        for _ in range(count):
            child = self._child()
            for _ in range(8):      # a child that is there already teaches nothing
                if child not in known:
                    break
                child = self._mutated(child, at_least_one=True)
            known.add(child)
            found.append(child)
        return found

    def tell(self, told: Sequence[Told]) -> None:
        """Make the new generation and the elite of the old one the population."""
        elite = self.population[:self.options.elite]
        merged, self.starts = {**self.starts, **{point: value for value, point in elite}}, {}
        merged |= {each.point: each.values[0] for each in told}
        self.population = sorted(((value, point) for point, value in merged.items()), key=lambda each: each[0])

    def _parent(self) -> Point:
        picked = min(self.rng.randrange(len(self.population)) for _ in range(self.options.tournament))
        value, point = self.population[picked]
        return point if math.isfinite(value) else self.space.sample(self.rng)

    def _child(self) -> Point:
        one = self._parent()
        if self.rng.random() < self.options.crossover:
            two = self._parent()
            mixed = [a if self.rng.random() < 0.5 else b for a, b in zip(one, two)]
            one = self.space.projector.project(mixed)
        return self._mutated(one, at_least_one=False)

    def _mutated(self, point: Point, *, at_least_one: bool) -> Point:
        random_, rate = self.rng.random, self.options.mutation
        places = [place for place in range(len(point)) if random_() < rate]
        if at_least_one and not places:
            places = [self.rng.randrange(len(point))]
        for place in places:
            point = self.space.projector.moved(point, place, self.rng)
        return point
