"""Ant colony: ants walk through the space knob by knob, along trails that good designs have strengthened."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Annotated, ClassVar

from astrarium.config import Knob
from astrarium.errors import InputError
from astrarium.search.agents.base import Agent, Batch, InFlight, Merit, Merits, Options, Told, one_objective
from astrarium.search.axes import Point
from astrarium.search.goal import Goal
from astrarium.search.space import Space

__all__ = ["AntColony"]

TRIES = 8      # walks of an ant to a design that is not known


class AntColony(Options, frozen=True, kw_only=True):
    """Ant colony system (Dorigo and Gambardella 1997) with one trail per value of a knob; constraints hold by
    construction, for an ant sees only values from which a feasible design can be reached. COSMIC's grid (DeepSwarm's
    names): 8 or 16 ants, greediness and evaporation 0.25, 0.5 or 0.75, decay and first pheromone 0.1."""

    tag: ClassVar[str] = "ant_colony"
    batch: Batch = 16
    in_flight: InFlight = 0
    greediness: Annotated[float, Knob("Probability that an ant takes the strongest trail.", ge=0)] = 0.5
    evaporation: Annotated[float, Knob("How far the best ant's trail moves to its worth.", gt=0)] = 0.5
    decay: Annotated[float, Knob("How far a trail that an ant has taken moves back to `pheromone`.", ge=0)] = 0.1
    pheromone: Annotated[float, Knob("Pheromone of every trail at the start.", gt=0)] = 0.1

    def start(self, space: Space, goal: Goal, seed: int) -> Agent:
        """Start a search; the batch is the number of ants. Raises InputError for several objectives, and for a
        continuum."""
        one_objective("ant_colony", goal)
        if space.continua:
            raise InputError("agent", f"ant_colony has no trail for {space.axes[space.continua[0]].name}",
                             expected="a step or values for it")
        return _Colony(self, space, seed)


class _Colony:
    def __init__(self, options: AntColony, space: Space, seed: int):
        self.options, self.space, self.rng = options, space, random.Random(seed)
        self.trails = [[options.pheromone] * (axis.size + 1) for axis in space.axes]      # the last one is -1
        self.best: tuple[Merit, Point | None] = ((math.inf, math.inf), None)
        self.merit, self.known = Merits(), set[Point]()

    def hear(self, told: Sequence[Told]) -> None:
        """The best of the points strengthens its trails, as that of a round does."""
        self.tell(told)

    def ask(self, count: int) -> list[Point]:
        """The points of `count` ants."""
        return [self._new() for _ in range(count)]

    def _new(self) -> Point:
        """The point of an ant, which walks again while its design is known, a few times."""
        for _ in range(TRIES):
            point = self._walk()
            if point not in self.known:
                break
        self.known.add(point)
        return point

    def _walk(self) -> Point:
        found: list[int] = [0] * len(self.space.axes)
        for part in self.space.components:
            trails = [self.trails[place] for place in part.places]
            choice = part.diagram.walk(lambda level, live, trails=trails: self._step(trails[level], live))  # type: ignore[misc]
            for place, value in zip(part.places, choice):
                found[place] = value
        for place, value in enumerate(found):      # the local rule: later ants look elsewhere
            trail = self.trails[place]
            trail[value] += self.options.decay * (self.options.pheromone - trail[value])
        return tuple(found)

    def _step(self, trail: Sequence[float], live: tuple[int, ...]) -> int:
        """The place of the live value that an ant takes."""
        weights = [trail[value] for value in live]
        if self.rng.random() < self.options.greediness:
            most = max(weights)
            equal = [index for index, weight in enumerate(weights) if weight == most]
            return equal[0] if len(equal) == 1 else self.rng.choice(equal)
        at = self.rng.random() * sum(weights)
        for index, weight in enumerate(weights):
            at -= weight
            if at < 0:
                return index
        return len(weights) - 1

    def tell(self, told: Sequence[Told]) -> None:
        """Strengthen the trails of the best ant of this round and of the best ever, whose worth is 1."""
        found = [(self.merit(each), each.point) for each in told]
        self.known.update(point for _, point in found)
        round_ = min(found, key=lambda each: each[0])
        if round_[0] < self.best[0]:
            self.best = round_
        for merit, point in (round_, self.best):
            if point is not None and math.isfinite(merit[0]):
                self._strengthen(point, _worth(self.best[0], merit))

    def _strengthen(self, point: Point, worth: float) -> None:
        for place, value in enumerate(point):
            trail = self.trails[place]
            trail[value] += self.options.evaporation * (worth - trail[value])


def _worth(best: Merit, merit: Merit) -> float:
    """The worth of a trial: 1 for the best, less for worse ones, for values of any sign."""
    if merit[0] or best[0]:
        return 0.0 if not best[0] else best[0] / merit[0]
    first, value = best[1], merit[1]
    if first > 0:
        return first / value
    return value / first if value < 0 and first < 0 else 1.0 if value == first else 0.0
