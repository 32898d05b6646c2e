"""Exact search: the optimum, with a proof that no other design of the space can be better.

Each design has a floor below its objective (see `search.floors`). First designs with low floors and a genetic search
find good ones. Then the floors of all designs are looked at: partial designs whose interval of floors lies above the
best value are cut off whole, the rest is computed block by block (numpy); those below the best value are simulated in
the order of their floors. When the next floor is not below the best value, that is the optimum; until then the optimum
is not below it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.config import Knob
from astrarium.errors import InputError
from astrarium.search.agents.base import Agent, Batch, Options, Proof, Values, one_objective
from astrarium.search.agents.genetic import Genetic
from astrarium.search.axes import Point
from astrarium.search.bounds.branches import Head, heads_of
from astrarium.search.bounds.columns import Columns, by_effect, columns, crossed, dive, left, vectorised
from astrarium.search.bounds.objective import SAFE
from astrarium.search.constraints import Component
from astrarium.search.evaluate import Judge
from astrarium.search.expression import Interval, Node, bounds, names_in
from astrarium.search.goal import Goal
from astrarium.search.space import Space

__all__ = ["Exact", "ExactSearch"]

BLOCK = 1 << 20           # designs whose floors are computed together
CHOICES = 1 << 17         # combinations of one component
KEPT = 4_000_000          # floors kept in memory; beyond, only the lowest
DIVES = 4                 # heads of which the design with the lowest floor is tried first


class Exact(Options, frozen=True, kw_only=True):
    """Branch and bound on floors. `gap`: stop when the best value is proved to be within this share of the optimum."""

    tag: ClassVar[str] = "exact"
    batch: Batch = 64
    warm: Annotated[int, Knob("Trials of the genetic search that comes first.", ge=0)] = 0
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


class _Floors(Struct, frozen=True):
    """Floors below the best value, ascending; their head, and the number of the combination of its relevant parts."""

    values: npt.NDArray[np.float64]
    heads: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.int64]
    rest: float      # no floor that was left out is below this


class _Part(Struct, frozen=True):
    """What a head leaves open: the components that its floor depends on (outer ones first), and the others."""

    head: Head
    relevant: tuple[Component, ...]
    others: tuple[Component, ...]


class ExactSearch:
    """The search; `proof` says how far it is."""

    def __init__(self, options: Exact, space: Space, goal: Goal, seed: int):
        self.options, self.space = options, space
        judge = Judge(space, goal)
        self.heads = heads_of(judge, options.floor)
        self.ranges = judge.ranges()
        self.warm = Genetic().start(space, goal, seed)
        self.warmed, self.best = 0, math.inf
        self.first: list[Point] | None = None       # designs that a walk down the floors leads to
        self.asked: Literal["first", "warm", "floors"] = "first"
        self.opened: list[_Part] = []
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
        """Designs with the lowest floors of the first heads, points of the genetic search, then designs by rising
        floor; none when the optimum is proved."""
        if self.first is None:
            self.first = self._first()
        if self.first:
            self.asked, found, self.first = "first", self.first[:count], self.first[count:]
            return found
        if self.warmed < self.options.warm:
            self.asked = "warm"
            return self.warm.ask(min(count, 32))
        self.asked = "floors"
        if self.floors is None:
            self.floors, self.next = self._all_floors(-math.inf), 0
        found = self._lowest(self.floors, count)
        while not found and self.floors.rest < self.best * (1 - self.options.gap):
            self.floors, self.next = self._all_floors(self.floors.rest), 0
            found = self._lowest(self.floors, count)
        return found

    def tell(self, points: Sequence[Point], values: Sequence[Values]) -> None:
        """The best value falls."""
        self.best = min(self.best, *(value for value, in values))
        if self.asked == "warm":
            self.warm.tell(points, values)
            self.warmed += len(points)

    def _first(self) -> list[Point]:
        """The design with a low floor in each of a few heads, those with the least floors."""
        found: list[Point] = []
        for head in itertools.islice(self.heads.open(math.inf), DIVES):
            self.least = max(self.least, head.least * SAFE) if not found else self.least
            rest = [part for part in self.space.components if part not in self.heads.parts]
            chosen = {**head.choice, **dive(self.space, head.tree, rest)}
            found.append(tuple(chosen[place] for place in range(len(self.space.axes))))
        return found

    def _lowest(self, floors: _Floors, count: int) -> list[Point]:
        """The next designs by rising floor, as long as it is below the best value."""
        found = list(itertools.islice(self.waiting, count))
        first = self.next - bool(found)
        while len(found) < count and self.next < len(floors.values):
            floor = float(floors.values[self.next])
            if floor >= self.best * (1 - self.options.gap) and self.best > 0:
                break
            self.waiting = self._designs(self.opened[int(floors.heads[self.next])], int(floors.numbers[self.next]))
            self.next += 1
            found += itertools.islice(self.waiting, count - len(found))
        ahead = float(floors.values[first]) if first < len(floors.values) else math.inf
        self.least = max(self.least, min(ahead, floors.rest))      # of every design that was not told before
        return found

    def _all_floors(self, above: float) -> _Floors:
        """Floors from `above` to below the best value, of all designs that differ in what their floor depends on."""
        self.opened, kept = [], _Kept()
        for head in self.heads.open(self.best):
            number = len(self.opened)
            self.opened.append(self._part(head))
            for values, numbers in self._floors_of(self.opened[-1]):
                low = np.nonzero((values >= above) & ~(values >= self.best))[0]
                kept.add(values[low], number, numbers + low)
        return kept.floors()

    def _part(self, head: Head) -> _Part:
        """The open components of a head, those first whose choice raises the floor most."""
        rest = [part for part in self.space.components if part not in self.heads.parts]
        named = set(names_in(head.tree))
        relevant = [part for part in rest if any(self.space.axes[place].name in named for place in part.places)]
        for part in relevant:
            if part.diagram.count > CHOICES:
                raise InputError("agent", f"exact would look at {part.diagram.count} combinations of one group of "
                                 "knobs", expected=f"at most {CHOICES}")
        order = by_effect(head.quick, self.ranges, relevant, [columns(self.space, part) for part in relevant])
        return _Part(head, tuple(relevant[place] for place in order),
                     tuple(part for part in rest if part not in relevant))

    def _floors_of(self, part: _Part) -> Iterator[tuple[npt.NDArray[np.float64], int]]:
        """(floors of a block of designs, number of the first) of every block that may hold one below the best value."""
        known = [columns(self.space, each) for each in part.relevant]
        counts = [each.diagram.count for each in part.relevant]
        split = len(counts)
        while split and math.prod(counts[split - 1:]) <= BLOCK:
            split -= 1
        size, inner = math.prod(counts[split:]), crossed(known[split:])
        trees = (part.head.quick, part.head.tree)
        whole = vectorised(part.head.tree)
        for number, tree, chosen in self._prefixes(trees, self.ranges, known[:split], counts[:split]):
            value_of = whole if tree is part.head.tree else vectorised(tree)
            values = np.asarray(value_of(inner | chosen), dtype=np.float64) * SAFE
            yield np.broadcast_to(values, counts[split:]).ravel(), number * size

    def _prefixes(self, trees: Sequence[Node], ranges: Mapping[str, Interval], known: Sequence[Columns],
                  counts: Sequence[int], number: int = 0, chosen: Columns | None = None
                  ) -> Iterator[tuple[int, Node, Columns]]:
        """(number, tree that is left, columns) of every combination of the outer parts whose floors may be below the
        best. `trees`: floors, the one to look at first first, the one that is meant last."""
        if any(bounds(tree, ranges)[0] * SAFE >= self.best for tree in trees):
            return
        if not known:
            yield number, trees[-1], chosen or {}
            return
        for choice in range(counts[0]):
            here = {name: values[choice:choice + 1] for name, values in known[0].items()}
            fewer, narrowed = zip(*(left(tree, ranges, known[0], choice) for tree in trees))
            yield from self._prefixes(fewer, narrowed[0], known[1:], counts[1:], number * counts[0] + choice,
                                      {**(chosen or {}), **here})

    def _designs(self, part: _Part, number: int) -> Iterator[Point]:
        """Every design of a head with these values of its relevant parts."""
        found: list[Any] = [part.head.choice.get(place) for place in range(len(self.space.axes))]
        for each in reversed(part.relevant):
            number, own = divmod(number, each.diagram.count)
            for place, value in zip(each.places, each.diagram.choice(own)):
                found[place] = value
        for choices in itertools.product(*(range(each.diagram.count) for each in part.others)):
            for each, own in zip(part.others, choices):
                for place, value in zip(each.places, each.diagram.choice(own)):
                    found[place] = value
            yield tuple(found)


class _Kept:
    """Floors as they are found: the KEPT lowest, and the lowest of those left out."""

    def __init__(self) -> None:
        self.values, self.heads, self.numbers = np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64)
        self.waiting: list[tuple[npt.NDArray[np.float64], npt.NDArray[np.int64], npt.NDArray[np.int64]]] = []
        self.total, self.rest = 0, math.inf

    def add(self, values: npt.NDArray[np.float64], head: int, numbers: npt.NDArray[np.int64]) -> None:
        """More floors of one head."""
        if len(values):
            self.waiting.append((values, np.full(len(values), head, np.int64), numbers))
            self.total += len(values)
        if self.total > 2 * KEPT:
            self._sort()

    def _sort(self) -> None:
        waiting = [(self.values, self.heads, self.numbers), *self.waiting]
        values, heads, numbers = (np.concatenate([each[place] for each in waiting]) for place in range(3))
        order = np.lexsort((numbers, heads, values))
        if len(order) > KEPT:
            self.rest = min(self.rest, float(values[order[KEPT]]))
            order = order[:KEPT]
        self.values, self.heads, self.numbers, self.waiting = values[order], heads[order], numbers[order], []
        self.total = len(order)

    def floors(self) -> _Floors:
        """All of them, ascending."""
        self._sort()
        return _Floors(self.values, self.heads, self.numbers, self.rest)
