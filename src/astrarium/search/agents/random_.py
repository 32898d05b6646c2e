"""Random walk: every feasible point is as likely as any other, each time anew. The yardstick of all other agents."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import ClassVar

from astrarium.search.agents.base import Agent, Batch, Options, Values
from astrarium.search.goal import Goal
from astrarium.search.space import Point, Space

__all__ = ["Random"]


class Random(Options, frozen=True, kw_only=True):
    """Uniform samples of the feasible points (COSMIC's random walker, which draws every knob by itself)."""

    tag: ClassVar[str] = "random"
    batch: Batch = 32

    def start(self, space: Space, goal: Goal, seed: int) -> Agent:      # noqa: ARG002
        """A search from its beginning."""
        return _Random(space, seed)


class _Random:
    def __init__(self, space: Space, seed: int):
        self.space, self.rng = space, random.Random(seed)

    def ask(self, count: int) -> list[Point]:
        """`count` samples."""
        return [self.space.sample(self.rng) for _ in range(count)]

    def tell(self, points: Sequence[Point], values: Sequence[Values]) -> None:
        """Nothing is learned."""
