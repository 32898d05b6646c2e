"""Exact search: the optimum, with a proof that no other design of the space can be better.

Each design has a floor below its objective (see `search.floors`). First a genetic search finds good designs. Then the
floors of all designs are looked at: partial designs whose interval of floors lies above the best value are cut off
whole, the rest is computed block by block (numpy); those below the best value are simulated in the order of their
floors. When the next floor is not below the best value, that is the optimum; until then the optimum is not below it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt

from astrarium.config import Knob
from astrarium.errors import InputError
from astrarium.search.agents.base import Agent, Batch, Options, Values, one_objective
from astrarium.search.agents.genetic import Genetic
from astrarium.search.components import Component
from astrarium.search.expression import Const, Node, bounds, names_in, put
from astrarium.search.expression.vector import vector
from astrarium.search.floors import SAFE, objective_floor
from astrarium.search.goal import Goal, Judge
from astrarium.search.scope import plain
from astrarium.search.space import Point, Space

__all__ = ["Exact", "ExactSearch", "Proof"]

BLOCK = 1 << 17           # designs whose floors are computed together
CHOICES = 1 << 17         # combinations of one component
KEPT = 4_000_000          # floors kept in memory; beyond, only the lowest


class Exact(Options, frozen=True, kw_only=True):
    """Branch and bound on floors. `gap`: stop when the best value is proved to be within this share of the optimum."""

    tag: ClassVar[str] = "exact"
    batch: Batch = 64
    warm: Annotated[int, Knob("Trials of the genetic search that comes first.", ge=1)] = 512
    gap: Annotated[float, Knob("Proved distance to the optimum at which to stop, as a share.", ge=0)] = 0.0
    floor: Annotated[str | None, Knob("An expression over design paths that the makespan (ns) never falls below, for "
                                      "which you vouch; left out: the built-in one.")] = None

    def start(self, space: Space, goal: Goal, seed: int) -> Agent:
        """A search from its beginning. Raises InputError where there is no floor, or a knob is a continuum."""
        one_objective("exact", goal)
        if space.continua:
            raise InputError("agent", f"exact cannot enumerate {space.axes[space.continua[0]].name}",
                             expected="a step or values for it")
        return ExactSearch(self, space, goal, seed)


@dataclass(frozen=True)
class Proof:
    """What is proved: no design of the space has an objective below `bound`; `gap` is (best - bound) / best."""

    bound: float
    gap: float
    complete: bool


@dataclass(frozen=True)
class _Floors:
    """Floors below the best value, ascending, with the number of the design among the relevant parts' combinations."""

    values: npt.NDArray[np.float64]
    numbers: npt.NDArray[np.int64]
    rest: float      # no floor that was left out is below this


class ExactSearch:
    """The search; `proof` says how far it is."""

    def __init__(self, options: Exact, space: Space, goal: Goal, seed: int):
        self.options, self.space = options, space
        judge = Judge(space, goal)
        self.tree: Node = objective_floor(judge, options.floor)
        named = set(names_in(self.tree))
        self.relevant = [part for part in space.components
                         if any(space.axes[place].name in named for place in part.places)]
        self.others = [part for part in space.components if part not in self.relevant]
        for part in self.relevant:
            if part.diagram.count > CHOICES:
                raise InputError("agent", f"exact would look at {part.diagram.count} combinations of one group of "
                                 "knobs", expected=f"at most {CHOICES}")
        self.ranges = judge.ranges()
        self.warm = Genetic().start(space, goal, seed)
        self.warmed, self.best = 0, math.inf
        self.floors: _Floors | None = None
        self.next = 0
        self.waiting: Iterator[Point] = iter(())
        self.least = -math.inf

    def proof(self) -> Proof:
        """What is proved so far."""
        bound = min(self.best, self.least)
        gap = 0.0 if bound == self.best else (self.best - bound) / abs(self.best) if math.isfinite(bound) else math.inf
        return Proof(bound, gap, self.floors is not None and gap <= self.options.gap)

    def ask(self, count: int) -> list[Point]:
        """Points of the genetic search, then designs by rising floor; none when the optimum is proved."""
        if self.warmed < self.options.warm:
            return self.warm.ask(min(count, 32))
        if self.floors is None:
            self.floors = self._all_floors()
        found = list(itertools.islice(self.waiting, count))
        first = self.next - bool(found)
        while len(found) < count and self.next < len(self.floors.values):
            floor = float(self.floors.values[self.next])
            if floor >= self.best * (1 - self.options.gap) and self.best > 0:
                break
            self.waiting = self._designs(int(self.floors.numbers[self.next]))
            self.next += 1
            found += itertools.islice(self.waiting, count - len(found))
        ahead = float(self.floors.values[first]) if first < len(self.floors.values) else math.inf
        self.least = max(self.least, min(ahead, self.floors.rest))      # of every design that was not told before
        return found

    def tell(self, points: Sequence[Point], values: Sequence[Values]) -> None:
        """The best value falls."""
        self.best = min(self.best, *(value for value, in values))
        if self.warmed < self.options.warm:
            self.warm.tell(points, values)
            self.warmed += len(points)

    def _columns(self, part: Component) -> dict[str, npt.NDArray[Any]]:
        """Per axis of a part its value in every combination."""
        choices = np.array([part.diagram.choice(number) for number in range(part.diagram.count)], dtype=np.int64)
        found = {}
        for column, place in enumerate(part.places):
            axis = self.space.axes[place]
            values = np.array([*map(plain, axis.values), *([plain(axis.otherwise)] if axis.when else [])])
            found[axis.name] = values[choices[:, column]]
        return found

    def _all_floors(self) -> _Floors:
        """The floors below the best value of every design that differs in the knobs that the floor depends on."""
        columns = [self._columns(part) for part in self.relevant]
        counts = [part.diagram.count for part in self.relevant]
        split = len(counts)
        while split and math.prod(counts[split - 1:]) <= BLOCK:
            split -= 1
        size = math.prod(counts[split:])
        inner = _crossed(columns[split:])
        kept: list[tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]] = []
        total, rest = 0, math.inf
        for number, tree in self._prefixes(self.tree, columns[:split], counts[:split]):
            values = np.broadcast_to(np.asarray(vector(tree, inner), dtype=np.float64) * SAFE, (size,))
            low = np.nonzero(~(values >= self.best))[0]
            if len(low):
                kept.append((values[low], number * size + low))
                total += len(low)
            if total > 2 * KEPT:
                kept, rest = _lowest(kept, rest)
                total = KEPT
        if not kept:
            return _Floors(np.empty(0), np.empty(0, np.int64), rest)
        values, numbers = np.concatenate([each[0] for each in kept]), np.concatenate([each[1] for each in kept])
        order = np.lexsort((numbers, values))
        return _Floors(values[order], numbers[order], rest)

    def _prefixes(self, tree: Node, columns: Sequence[dict[str, npt.NDArray[Any]]], counts: Sequence[int],
                  number: int = 0) -> Iterator[tuple[int, Node]]:
        """(number, tree that is left) of every combination of the outer parts whose floors may be below the best."""
        if bounds(tree, self.ranges)[0] * SAFE >= self.best:
            return
        if not columns:
            yield number, tree
            return
        for choice in range(counts[0]):
            left = tree
            for name, values in columns[0].items():
                left = put(left, name, Const(values[choice:choice + 1].tolist()[0]))
            yield from self._prefixes(left, columns[1:], counts[1:], number * counts[0] + choice)

    def _designs(self, number: int) -> Iterator[Point]:
        """Every design of the space with these values of the relevant parts."""
        found: list[Any] = [None] * len(self.space.axes)
        for part in reversed(self.relevant):
            number, own = divmod(number, part.diagram.count)
            for place, value in zip(part.places, part.diagram.choice(own)):
                found[place] = value
        for choices in itertools.product(*(range(part.diagram.count) for part in self.others)):
            for part, own in zip(self.others, choices):
                for place, value in zip(part.places, part.diagram.choice(own)):
                    found[place] = value
            yield tuple(found)


def _crossed(columns: Sequence[dict[str, npt.NDArray[Any]]]) -> dict[str, npt.NDArray[Any]]:
    """Columns of every combination of several parts, the last one fastest; shaped to broadcast, then flattened."""
    sizes = [len(next(iter(each.values()))) for each in columns]
    found: dict[str, npt.NDArray[Any]] = {}
    for index, part in enumerate(columns):
        before, after = math.prod(sizes[:index]), math.prod(sizes[index + 1:])
        found |= {name: np.tile(np.repeat(values, after), before) for name, values in part.items()}
    return found


def _lowest(kept: Sequence[tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]], rest: float
            ) -> tuple[list[tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]], float]:
    """The lowest KEPT floors, and the lowest of those left out."""
    values, numbers = np.concatenate([each[0] for each in kept]), np.concatenate([each[1] for each in kept])
    order = np.argsort(values, kind="stable")
    return [(values[order[:KEPT]], numbers[order[:KEPT]])], min(rest, float(values[order[KEPT]]))


