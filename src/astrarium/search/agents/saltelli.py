"""A designed sample for Sobol indices: which knobs the spread of the objective comes from (see `search.sobol`).

A *factor* is what can vary by itself: a knob, or several that constraints tie. The sample comes in blocks (A. Saltelli
et al., "Variance based sensitivity analysis of model output", Computer Physics Communications 181, 2010): two feasible
designs A and B, drawn independently, and for each factor the design A with that factor from B.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from typing import ClassVar

from astrarium.search.agents.base import Agent, Batch, Options, Told
from astrarium.search.axes import Point
from astrarium.search.goal import Goal
from astrarium.search.space import Space

__all__ = ["Saltelli", "factors_of", "sample_blocks"]


class Saltelli(Options, frozen=True, kw_only=True):
    """A designed sample, from which `astrarium report` computes Sobol indices. It does not look for good designs."""

    tag: ClassVar[str] = "saltelli"
    batch: Batch = 32

    def start(self, space: Space, goal: Goal, seed: int) -> Agent:      # noqa: ARG002
        """Start a sample."""
        return _Saltelli(space, seed)


class _Saltelli:
    def __init__(self, space: Space, seed: int):
        self.points = itertools.chain.from_iterable(sample_blocks(space, seed))

    def ask(self, count: int) -> list[Point]:
        """The next points of the sample."""
        return list(itertools.islice(self.points, count))

    def tell(self, told: Sequence[Told]) -> None:
        """Nothing is learned."""


def factors_of(space: Space) -> list[tuple[int, ...]]:
    """The factors of a space, each as the numbers of its axes, in the order of their first axes."""
    tied = [tuple(sorted(component.places)) for component in space.components]
    return sorted([*tied, *((place,) for place in space.continua)])


def sample_blocks(space: Space, seed: int) -> Iterator[list[Point]]:
    """Yield blocks without end: the points A, B, and A with each factor in turn from B."""
    rng, factors = random.Random(seed), factors_of(space)
    while True:
        one, other = space.sample(rng), space.sample(rng)
        yield [one, other, *(_mixed(one, other, factor) for factor in factors)]


def _mixed(one: Point, other: Point, factor: Sequence[int]) -> Point:
    found = list(one)
    for place in factor:
        found[place] = other[place]
    return tuple(found)
