"""Simulated annealing: several chains, each moving to a better neighbour, or by chance to a worse one."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Annotated, ClassVar

from astrarium.config import Knob
from astrarium.search.agents.base import Agent, Batch, Merit, Merits, Options, Told, one_objective
from astrarium.search.axes import Point
from astrarium.search.goal import Goal
from astrarium.search.space import Space

__all__ = ["Annealing"]

NOTHING: Merit = (math.inf, math.inf)


class Annealing(Options, frozen=True, kw_only=True):
    """Chains (as many as the batch) with geometric cooling over relative differences; a chain that has cooled down
    starts again from the best point found."""

    tag: ClassVar[str] = "annealing"
    batch: Batch = 4
    hot: Annotated[float, Knob("First temperature: the relative loss accepted with probability 1/e.", gt=0)] = 0.1
    cold: Annotated[float, Knob("Last temperature.", gt=0)] = 0.003
    steps: Annotated[int, Knob("Moves of one chain from hot to cold.", ge=2)] = 50
    reach: Annotated[float, Knob("How far a move goes: share of an ordered knob's range.", gt=0)] = 0.3

    def start(self, space: Space, goal: Goal, seed: int) -> Agent:
        """Start a search. Raises InputError for several objectives."""
        one_objective("annealing", goal)
        return _Annealing(self, space, seed)


class _Chain:
    def __init__(self) -> None:
        self.point: Point | None = None
        self.merit, self.step = NOTHING, 0


class _Annealing:
    def __init__(self, options: Annealing, space: Space, seed: int):
        self.options, self.space, self.rng = options, space, random.Random(seed)
        self.chains = [_Chain() for _ in range(options.batch)]
        self.best: tuple[Merit, Point | None] = (NOTHING, None)
        self.merit = Merits()

    def hear(self, told: Sequence[Told]) -> None:
        """Chains begin at the best of the points, one each."""
        merits = [self.merit(each) for each in told]
        best = sorted(range(len(told)), key=merits.__getitem__)
        for chain, number in zip(self.chains, best):
            chain.merit, chain.point = merits[number], told[number].point
        if best and merits[best[0]] < self.best[0]:
            self.best = (merits[best[0]], told[best[0]].point)

    def ask(self, count: int) -> list[Point]:
        """The next point of each chain."""
        return [self._move(chain) for chain in self.chains[:count]]

    def _move(self, chain: _Chain) -> Point:
        if chain.point is None or not math.isfinite(chain.merit[0]):
            return self.space.sample(self.rng)
        if chain.step >= self.options.steps and self.best[1] is not None:
            chain.point, chain.merit, chain.step = self.best[1], self.best[0], 0
        place = self.rng.randrange(len(self.space.axes))
        point = self.space.projector.moved(chain.point, place, self.rng, self.options.reach)
        while self.rng.random() < 0.3:      # now and then several knobs at once
            place = self.rng.randrange(len(self.space.axes))
            point = self.space.projector.moved(point, place, self.rng, self.options.reach)
        return point

    def tell(self, told: Sequence[Told]) -> None:
        """Move each chain to its new point, or leave it."""
        for chain, each in zip(self.chains, told):
            point, merit = each.point, self.merit(each)
            if merit < self.best[0]:
                self.best = (merit, point)
            if chain.point is None or self._accepted(chain, merit):
                chain.point, chain.merit = point, merit
            chain.step += 1

    def _accepted(self, chain: _Chain, merit: Merit) -> bool:
        """Whether a chain moves: to what is better, else by chance the less it loses; never to what misses more."""
        if merit <= chain.merit:
            return True
        if merit[0] > chain.merit[0] or not math.isfinite(merit[1]):
            return False
        share = min(1.0, chain.step / (self.options.steps - 1))
        temperature = self.options.hot * (self.options.cold / self.options.hot) ** share
        loss = (merit[1] - chain.merit[1]) / (abs(chain.merit[1]) or 1.0)
        return self.rng.random() < math.exp(-loss / temperature)
