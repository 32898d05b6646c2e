"""Exact search: the optimum, with a proof that no other design of the space can be better.

Every design has a lower bound of its objective (see `search.bounds`). Designs with low bounds and a genetic search
find good values first. Then the agent bounds all designs: it cuts off partial designs whose interval of bounds lies
above the best value, and computes the bounds of the rest block by block (numpy). It simulates the designs whose bound
is below the best value in ascending order of their bounds. When the next bound is not below the best value, the best
value is the optimum; until then the optimum is not below the next bound.

Of two objectives it finds the Pareto front. It simulates every design whose lower bounds no known pair of values beats,
by ascending bound of the first objective. A pair that beats the bounds of a design belongs to a design with a lower
first bound, which came before: no order simulates fewer designs. (The epsilon-constraint method, which minimises the
first objective under a falling limit of the second, needs the same ones.)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.config import Knob
from astrarium.errors import InputError
from astrarium.search.agents.base import Agent, Batch, Options, Proof, Told
from astrarium.search.agents.genetic import Genetic
from astrarium.search.axes import Point
from astrarium.search.bounds.archive import Archive
from astrarium.search.bounds.branches import Branch, branches_of
from astrarium.search.bounds.columns import Columns, by_effect, columns, crossed, dive, left, vectorised
from astrarium.search.bounds.objective import SAFE
from astrarium.search.constraints import Component
from astrarium.search.evaluate import Judge
from astrarium.search.expression import Interval, Node, bounds, names_in
from astrarium.search.goal import Goal
from astrarium.search.space import Space

__all__ = ["Exact", "ExactSearch"]

BLOCK = 1 << 20           # designs whose bounds are computed together
CHOICES = 1 << 17         # combinations of one component
_Rows: TypeAlias = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.int64], npt.NDArray[np.int64]]
KEPT = 4_000_000          # bounds kept in memory; beyond, only the lowest
DIVES = 4                 # branches of which the design with the lowest bound is tried first


class Exact(Options, frozen=True, kw_only=True):
    """Branch and bound. `gap`: stop when the best value is proved to be within this share of the optimum."""

    tag: ClassVar[str] = "exact"
    repeats: ClassVar[bool] = False
    batch: Batch = 64
    warm: Annotated[int, Knob("Trials of the genetic search that comes first.", ge=0)] = 0
    gap: Annotated[float, Knob("Proved distance to the optimum at which to stop, as a share.", ge=0)] = 0.0
    floor: Annotated[str | None, Knob("An expression over design paths that the makespan (ns) never falls below, for "
                                      "which you vouch; left out: the built-in one.")] = None

    def start(self, space: Space, goal: Goal, seed: int) -> Agent:
        """Start a search. Raises InputError if an objective has no lower bound, or a knob is a continuum."""
        if len(goal.objectives) > 2:
            raise InputError("agent", f"exact takes one objective or two, and there are {len(goal.objectives)}",
                             expected="bayesian or nsga2")
        if len(goal.objectives) == 2 and (self.gap or self.warm):
            raise InputError("agent.gap" if self.gap else "agent.warm", "is of one objective", expected="0 for a front")
        if space.continua:
            raise InputError("agent", f"exact cannot enumerate {space.axes[space.continua[0]].name}",
                             expected="a step or values for it")
        return ExactSearch(self, space, goal, seed)


class _Candidates(Struct, frozen=True):
    """Designs that are not beaten, by ascending bound of the first objective (`values`): the bounds of the second one
    (empty: there is none), their branches, and the numbers of their combinations of relevant components."""

    values: npt.NDArray[np.float64]
    seconds: npt.NDArray[np.float64]
    branches: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.int64]
    rest: float      # no bound that was left out is below this


class _OpenBranch(Struct, frozen=True):
    """A branch with the components that it leaves open: those on which its bound depends (outer ones first), and the
    others."""

    branch: Branch
    relevant: tuple[Component, ...]
    others: tuple[Component, ...]


class ExactSearch:
    """A branch-and-bound search in progress."""

    def __init__(self, options: Exact, space: Space, goal: Goal, seed: int):
        self.options, self.space = options, space
        judge = Judge(space, goal)
        self.branches = branches_of(judge, options.floor)
        self.ranges = judge.ranges()
        self.warm = Genetic().start(space, goal, seed) if options.warm else None
        self.warmed, self.archive, self.ended = 0, Archive(len(goal.objectives)), False
        self.first: list[Point] | None = None       # designs to which a walk down the bounds leads
        self.asked: Literal["first", "warm", "bounds"] = "first"
        self.opened: list[_OpenBranch] = []
        self.candidates: _Candidates | None = None
        self.next = 0
        self.waiting: Iterator[Point] = iter(())
        self.least = -math.inf

    @property
    def best(self) -> float:
        """The best value of the first objective so far."""
        return self.archive.best

    def proof(self) -> Proof:
        """What is proved so far: the bound, the gap, and whether the gap is the one asked for; of two objectives only
        whether the front is complete."""
        if self.archive.objectives > 1:
            return Proof(-math.inf, math.inf, self.ended)
        bound = min(self.best, self.least)
        gap = 0.0 if bound == self.best else (self.best - bound) / abs(self.best) if math.isfinite(bound) else math.inf
        return Proof(bound, gap, self.candidates is not None and gap <= self.options.gap)

    def ask(self, count: int) -> list[Point]:
        """The design with the lowest bound of each of the first branches, points of the genetic search, then designs by
        ascending bound; none when the optimum is proved."""
        if self.first is None:
            self.first = self._first()
        if self.first:
            self.asked, found, self.first = "first", self.first[:count], self.first[count:]
            return found
        if self.warm is not None and self.warmed < self.options.warm:
            self.asked = "warm"
            return self.warm.ask(min(count, 32))
        self.asked = "bounds"
        if self.candidates is None:
            self.candidates, self.next = self._all_candidates(-math.inf), 0
        found = self._lowest(self.candidates, count)
        while not found and self._more_behind(self.candidates):
            self.candidates, self.next = self._all_candidates(self.candidates.rest), 0
            found = self._lowest(self.candidates, count)
        self.ended = not found
        return found

    def _more_behind(self, candidates: _Candidates) -> bool:
        """Whether a design that was left out of the candidates can matter."""
        if self.archive.objectives > 1:
            return math.isfinite(candidates.rest)
        return candidates.rest < self.best * (1 - self.options.gap)

    def hear(self, told: Sequence[Told]) -> None:
        """Keep the values."""
        for each in told:
            self.archive.add(each.values)

    def tell(self, told: Sequence[Told]) -> None:
        """Keep the values; teach the genetic search its own points."""
        self.hear(told)
        if self.asked == "warm" and self.warm is not None:
            self.warm.tell(told)
            self.warmed += len(told)

    def _first(self) -> list[Point]:
        """A design with a low bound from each of the few branches whose bounds are lowest."""
        found: list[Point] = []
        for branch in itertools.islice(self.branches.open(Archive(self.archive.objectives)), DIVES):
            self.least = max(self.least, branch.least * SAFE) if not found else self.least
            rest = [part for part in self.space.components if part not in self.branches.parts]
            for tree in branch.trees:
                chosen = {**branch.choice, **dive(self.space, tree, rest)}
                found.append(tuple(chosen[place] for place in range(len(self.space.axes))))
        return found

    def _lowest(self, candidates: _Candidates, count: int) -> list[Point]:
        """The next designs by ascending bound that are not beaten."""
        found = list(itertools.islice(self.waiting, count))
        first = self.next - bool(found)
        while len(found) < count and self.next < len(candidates.values):
            bound = float(candidates.values[self.next])
            if self.archive.objectives == 1:
                if bound >= self.best * (1 - self.options.gap) and self.best > 0:
                    break
            elif self.archive.beaten((bound, float(candidates.seconds[self.next]))):
                self.next += 1
                continue
            branch, number = int(candidates.branches[self.next]), int(candidates.numbers[self.next])
            self.waiting = self._designs(self.opened[branch], number)
            self.next += 1
            found += itertools.islice(self.waiting, count - len(found))
        ahead = float(candidates.values[first]) if first < len(candidates.values) else math.inf
        self.least = max(self.least, min(ahead, candidates.rest))      # of every design that was not told before
        return found

    def _all_candidates(self, above: float) -> _Candidates:
        """Designs that are not beaten and whose first bound is at least `above`; one for all that differ only in knobs
        on which no bound depends."""
        self.opened, kept = [], _Kept()
        for branch in self.branches.open(self.archive):
            number = len(self.opened)
            self.opened.append(self._open_branch(branch))
            for lows, numbers in self._bounds_of(self.opened[-1]):
                low = np.nonzero((lows[0] >= above) & self.archive.open(lows))[0]
                kept.add(lows[0][low], lows[-1][low], number, numbers + low)
        return kept.candidates()

    def _open_branch(self, branch: Branch) -> _OpenBranch:
        """The open components of a branch, those first whose choice raises the bound most."""
        rest = [part for part in self.space.components if part not in self.branches.parts]
        named = {name for tree in branch.trees for name in names_in(tree)}
        relevant = [part for part in rest if any(self.space.axes[place].name in named for place in part.places)]
        for part in relevant:
            if part.diagram.count > CHOICES:
                raise InputError("agent", f"exact would look at {part.diagram.count} combinations of one group of "
                                 "knobs", expected=f"at most {CHOICES}")
        order = by_effect(branch.quick, self.ranges, relevant, [columns(self.space, part) for part in relevant])
        return _OpenBranch(branch, tuple(relevant[place] for place in order),
                           tuple(part for part in rest if part not in relevant))

    def _bounds_of(self, opened: _OpenBranch) -> Iterator[tuple[list[npt.NDArray[np.float64]], int]]:
        """(bounds of a block of designs for each objective, number of the first) of every block that may hold one that
        is not beaten."""
        known = [columns(self.space, each) for each in opened.relevant]
        counts = [each.diagram.count for each in opened.relevant]
        split = len(counts)
        while split and math.prod(counts[split - 1:]) <= BLOCK:
            split -= 1
        size, inner = math.prod(counts[split:]), crossed(known[split:])
        branch = opened.branch
        whole = {id(tree): vectorised(tree) for tree in branch.trees}
        for number, trees, chosen in self._prefixes((branch.quick, *branch.trees), self.ranges, known[:split],
                                                    counts[:split]):
            at = inner | chosen
            lows = [np.asarray((whole.get(id(tree)) or vectorised(tree))(at), dtype=np.float64) * SAFE
                    for tree in trees[1:]]
            yield [np.broadcast_to(values, counts[split:]).ravel() for values in lows], number * size

    def _prefixes(self, trees: Sequence[Node], ranges: Mapping[str, Interval], known: Sequence[Columns],
                  counts: Sequence[int], number: int = 0, chosen: Columns | None = None
                  ) -> Iterator[tuple[int, Sequence[Node], Columns]]:
        """(number, trees that are left, columns) of every combination of the outer components that may not be beaten.
        `trees`: bounds, the quick one of the first objective, then one of each objective."""
        quick, *lows = [bounds(tree, ranges)[0] * SAFE for tree in trees]
        if self.archive.beaten([max(quick, lows[0]), *lows[1:]]):
            return
        if not known:
            yield number, trees, chosen or {}
            return
        for choice in range(counts[0]):
            here = {name: values[choice:choice + 1] for name, values in known[0].items()}
            fewer, narrowed = zip(*(left(tree, ranges, known[0], choice) for tree in trees))
            yield from self._prefixes(fewer, narrowed[0], known[1:], counts[1:], number * counts[0] + choice,
                                      {**(chosen or {}), **here})

    def _designs(self, opened: _OpenBranch, number: int) -> Iterator[Point]:
        """Every design of a branch with these values of its relevant components."""
        found: list[Any] = [opened.branch.choice.get(place) for place in range(len(self.space.axes))]
        for each in reversed(opened.relevant):
            number, own = divmod(number, each.diagram.count)
            for place, value in zip(each.places, each.diagram.choice(own)):
                found[place] = value
        for choices in itertools.product(*(range(each.diagram.count) for each in opened.others)):
            for each, own in zip(opened.others, choices):
                for place, value in zip(each.places, each.diagram.choice(own)):
                    found[place] = value
            yield tuple(found)


class _Kept:
    """Collects bounds: the KEPT lowest by the first objective, and the lowest of those left out."""

    def __init__(self) -> None:
        self.sorted: _Rows = (np.empty(0), np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64))
        self.waiting: list[_Rows] = []
        self.total, self.rest = 0, math.inf

    def add(self, values: npt.NDArray[np.float64], seconds: npt.NDArray[np.float64], branch: int,
            numbers: npt.NDArray[np.int64]) -> None:
        """Add bounds of one branch."""
        if len(values):
            self.waiting.append((values, seconds, np.full(len(values), branch, np.int64), numbers))
            self.total += len(values)
        if self.total > 2 * KEPT:
            self._sort()

    def _sort(self) -> None:
        waiting = [self.sorted, *self.waiting]
        values, seconds, branches, numbers = (np.concatenate([each[place] for each in waiting]) for place in range(4))
        order = np.lexsort((numbers, branches, values))
        if len(order) > KEPT:
            self.rest = min(self.rest, float(values[order[KEPT]]))
            order = order[:KEPT]
        self.sorted = values[order], seconds[order], branches[order], numbers[order]
        self.waiting, self.total = [], len(order)

    def candidates(self) -> _Candidates:
        """The collected bounds in ascending order."""
        self._sort()
        return _Candidates(*self.sorted, self.rest)
