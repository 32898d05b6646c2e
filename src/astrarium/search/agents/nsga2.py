"""NSGA-II (pymoo): several objectives, non-dominated sorting and crowding distance (Deb et al. 2002)."""

from __future__ import annotations

from typing import ClassVar

from astrarium.search.agents.base import Agent, Batch, Options
from astrarium.search.agents.pymoo_bridge import PymooBridge, first_generation, pymoo_modules
from astrarium.search.goal import Goal
from astrarium.search.space import Space

__all__ = ["Nsga2"]


class Nsga2(Options, frozen=True, kw_only=True):
    """pymoo's NSGA2 with its default operators; the batch is the population."""

    tag: ClassVar[str] = "nsga2"
    batch: Batch = 32

    def start(self, space: Space, goal: Goal, seed: int) -> Agent:
        """A search from its beginning. Raises InputError where pymoo is absent."""
        pymoo = pymoo_modules("nsga2")
        algorithm = pymoo.algorithms.moo.nsga2.NSGA2(pop_size=self.batch,
                                                     sampling=first_generation(space, self.batch, seed))
        return PymooBridge(pymoo, algorithm, space, len(goal.objectives), seed)
