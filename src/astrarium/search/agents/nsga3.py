"""NSGA-III (pymoo): many objectives, spread along reference directions (Deb and Jain 2014)."""

from __future__ import annotations

from typing import ClassVar

from astrarium.errors import InputError
from astrarium.search.agents.base import Agent, Batch, Options
from astrarium.search.agents.pymoo_bridge import PymooBridge, first_generation, pymoo_modules
from astrarium.search.goal import Goal
from astrarium.search.space import Space

__all__ = ["Nsga3"]


class Nsga3(Options, frozen=True, kw_only=True):
    """pymoo's NSGA3 with as many reference directions (Riesz energy) as points in a generation."""

    tag: ClassVar[str] = "nsga3"
    batch: Batch = 32

    def start(self, space: Space, goal: Goal, seed: int) -> Agent:
        """A search from its beginning. Raises InputError where pymoo is absent, or for one objective."""
        if len(goal.objectives) < 2:
            raise InputError("agent", "nsga3 is for several objectives", expected="nsga2, or two objectives or more")
        pymoo = pymoo_modules("nsga3")
        directions = pymoo.util.ref_dirs.get_reference_directions("energy", len(goal.objectives), self.batch, seed=seed)
        algorithm = pymoo.algorithms.moo.nsga3.NSGA3(directions, pop_size=self.batch,
                                                     sampling=first_generation(space, self.batch, seed))
        return PymooBridge(pymoo, algorithm, space, len(goal.objectives), seed)
