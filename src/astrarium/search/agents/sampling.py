"""Agents that learn nothing: random points, the yardstick of all other agents; and every point once."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from typing import ClassVar

from astrarium.errors import InputError
from astrarium.search.agents.base import Agent, Batch, InFlight, Options, Told
from astrarium.search.axes import Point
from astrarium.search.goal import Goal
from astrarium.search.space import Space

__all__ = ["Grid", "Random"]


class Random(Options, frozen=True, kw_only=True):
    """Uniform samples of the feasible points (COSMIC's random walker, which draws every knob by itself)."""

    tag: ClassVar[str] = "random"
    batch: Batch = 32
    in_flight: InFlight = 0

    def start(self, space: Space, goal: Goal, seed: int) -> Agent:      # noqa: ARG002
        """Start a search."""
        return _Random(space, seed)


class _Random:
    def __init__(self, space: Space, seed: int):
        self.space, self.rng = space, random.Random(seed)

    def ask(self, count: int) -> list[Point]:
        """Draw `count` points."""
        return [self.space.sample(self.rng) for _ in range(count)]

    def tell(self, told: Sequence[Told]) -> None:
        """Nothing is learned."""


class Grid(Options, frozen=True, kw_only=True):
    """Exhaustive: the points in bit-reversed order of their number (van der Corput), so it may stop at any time."""

    tag: ClassVar[str] = "grid"
    repeats: ClassVar[bool] = False
    batch: Batch = 32
    in_flight: InFlight = 0

    def start(self, space: Space, goal: Goal, seed: int) -> Agent:      # noqa: ARG002
        """Start a search; the seed has no effect. Raises InputError if a knob is a continuum."""
        if space.continua:
            names = ", ".join(space.axes[place].name for place in space.continua)
            raise InputError("agent", f"grid cannot enumerate {names}", expected="a step or values for it")
        return _Grid(space)


class _Grid:
    def __init__(self, space: Space):
        self.space, self.numbers = space, spread_numbers(space.count)
        self.known: frozenset[int] = frozenset()

    def hear(self, told: Sequence[Told]) -> None:
        """Leave out the starts."""
        self.known = frozenset(self.space.number(each.point) for each in told)

    def ask(self, count: int) -> list[Point]:
        """The next points; none after the last."""
        fresh = (number for number in self.numbers if number not in self.known)
        return [self.space.point(number) for number in itertools.islice(fresh, count)]

    def tell(self, told: Sequence[Told]) -> None:
        """Nothing is learned."""


def spread_numbers(count: int) -> Iterator[int]:
    """Yield 0..count-1, each once: k with its bits reversed, for k = 0, 1, 2..."""
    bits = max(1, (count - 1).bit_length())
    for index in range(1 << bits):
        number = int(f"{index:0{bits}b}"[::-1], 2)
        if number < count:
            yield number
