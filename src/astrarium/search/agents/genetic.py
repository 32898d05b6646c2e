"""Genetic algorithm: a population that is crossed, mutated and repaired to the nearest feasible point."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Annotated, ClassVar

from astrarium.config import Knob
from astrarium.search.agents.base import Agent, Batch, InFlight, Merit, Merits, Options, Told, one_objective
from astrarium.search.axes import Point
from astrarium.search.goal import Goal
from astrarium.search.space import Space

__all__ = ["Genetic"]

TRIES = 8      # mutations of a child that is known, before a random point takes its place


class Genetic(Options, frozen=True, kw_only=True):
    """Generations with tournament selection, uniform crossover and mutation; the best of parents and children survive,
    and no design is tried twice. COSMIC ran scikit-opt's GA with populations of 32 and 64 and mutation probabilities of
    0.01 and 0.05."""

    tag: ClassVar[str] = "genetic"
    repeats: ClassVar[bool] = False
    batch: Batch = 32
    in_flight: InFlight = 0
    mutation: Annotated[float, Knob("Probability that a knob of a child is changed.", ge=0)] = 0.05
    crossover: Annotated[float, Knob("Probability that a child has two parents.", ge=0)] = 0.9
    tournament: Annotated[int, Knob("Points among which the best becomes a parent.", ge=1)] = 3

    def start(self, space: Space, goal: Goal, seed: int) -> Agent:
        """Start a search; the batch is the population. Raises InputError for several objectives."""
        one_objective("genetic", goal)
        return _Genetic(self, space, seed)


class _Genetic:
    def __init__(self, options: Genetic, space: Space, seed: int):
        self.options, self.space, self.rng = options, space, random.Random(seed)
        self.population: list[tuple[Merit, Point]] = []
        self.merit, self.known = Merits(), set[Point]()

    def hear(self, told: Sequence[Told]) -> None:
        """The points are of the first generation; random ones fill it."""
        self.tell(told)

    def ask(self, count: int) -> list[Point]:
        """The points of the next generation; none if every design is known."""
        found: list[Point] = []
        grown = len(self.known) >= self.options.batch and bool(self.population)
        left = max(1, self.options.batch - len(self.known))
        for _ in range(count if grown else min(count, left)):
            point = self._new(grown)
            if point is not None:
                self.known.add(point)
                found.append(point)
        return found

    def _new(self, grown: bool) -> Point | None:
        """A child, or in the first generation a random point, that is not known; None if there is none."""
        child = self._child() if grown else self.space.sample(self.rng)
        for _ in range(TRIES):
            if child not in self.known:
                return child
            child = self._mutated(child, at_least_one=True)
        left = self.space.continua or len(self.known) < self.space.count
        return next(point for point in iter(lambda: self.space.sample(self.rng), None)
                    if point not in self.known) if left else None

    def tell(self, told: Sequence[Told]) -> None:
        """The best of the population and the new points survive."""
        merged = {point: merit for merit, point in self.population}
        for each in told:
            merged[each.point] = self.merit(each)
            self.known.add(each.point)
        ranked = sorted(merged.items(), key=lambda each: each[1])
        self.population = [(merit, point) for point, merit in ranked[:self.options.batch]]

    def _parent(self) -> Point:
        merit, point = self.population[min(self.rng.randrange(len(self.population))
                                           for _ in range(self.options.tournament))]
        return point if math.isfinite(merit[0]) else self.space.sample(self.rng)

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
