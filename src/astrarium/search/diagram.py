"""A decision diagram: the feasible combinations of some axes, counted, numbered and searched without listing them.

Level by level a value is put into every constraint, which is folded as far as it goes; states whose folded
constraints are equal are one node. Dead ends are cut off, so that every path through a finished diagram is feasible.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from msgspec import Struct

from astrarium.errors import InputError
from astrarium.search.expression import FALSE, TRUE, Const, Interval, Node, bounds, put

__all__ = ["MAX_BRANCHES", "Diagram", "Level", "compile_diagram", "free_diagram", "reordered"]

MAX_BRANCHES = 300_000

NOTHING = Const(None)
State = tuple[Node, ...]


class Level(Struct, frozen=True):
    """One axis: its values as constants. Where `when` is false it is not chosen, and its value is `otherwise`."""

    name: str
    values: tuple[Const, ...]
    when: Node = TRUE
    otherwise: Const = NOTHING


class _Branches(Struct, frozen=True):
    """The live branches of one node: ascending values (-1: not chosen), their next nodes, the paths before each."""

    values: tuple[int, ...]
    next: tuple[int, ...]
    before: tuple[int, ...]      # paths through earlier branches; one more entry than branches: the total at the end

    @property
    def paths(self) -> int:
        return self.before[-1]


class Diagram(Struct, frozen=True):
    """Feasible combinations, numbered 0..count-1 in lexical order of the value indexes (`names` order)."""

    names: tuple[str, ...]
    levels: tuple[tuple[_Branches, ...], ...]

    @property
    def count(self) -> int:
        """The exact number of combinations."""
        return self.levels[0][0].paths if self.levels and self.levels[0] else 0

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return sum(map(len, self.levels))

    def choice(self, number: int) -> tuple[int, ...]:
        """The combination with this number."""
        at, found = 0, []
        for level in self.levels:
            node = level[at]
            branch = bisect_right(node.before, number) - 1
            number -= node.before[branch]
            found.append(node.values[branch])
            at = node.next[branch]
        return tuple(found)

    def number(self, choice: Sequence[int]) -> int:
        """The number of a combination; -1 if it is not feasible."""
        at, total = 0, 0
        for level, value in zip(self.levels, choice):
            node = level[at]
            try:
                branch = node.values.index(value)
            except ValueError:
                return -1
            total += node.before[branch]
            at = node.next[branch]
        return total

    def walk(self, choose: Callable[[int, tuple[int, ...]], int]) -> tuple[int, ...]:
        """Choose a combination level by level: `choose(level, live value indexes)` returns the place of the one
        taken."""
        at, found = 0, []
        for depth, level in enumerate(self.levels):
            node = level[at]
            branch = choose(depth, node.values) if len(node.values) > 1 else 0
            found.append(node.values[branch])
            at = node.next[branch]
        return tuple(found)

    def nearest(self, costs: Sequence[Sequence[float]]) -> tuple[int, ...]:
        """The combination with the least total cost, the first of equals. costs[level][value index]; the last entry of
        a level is the cost of -1."""
        best: list[dict[int, tuple[float, int]]] = [{} for _ in self.levels]
        below: dict[int, float] = {}
        for depth in range(len(self.levels) - 1, -1, -1):
            row, here = costs[depth], {}
            for at, node in enumerate(self.levels[depth]):
                least, which = float("inf"), 0
                for branch, value in enumerate(node.values):
                    cost = row[value] + below.get(node.next[branch], 0.0)
                    if cost < least:
                        least, which = cost, branch
                best[depth][at] = (least, which)
                here[at] = least
            below = here
        at, found = 0, []
        for depth, level in enumerate(self.levels):
            branch = best[depth][at][1]
            found.append(level[at].values[branch])
            at = level[at].next[branch]
        return tuple(found)


def free_diagram(name: str, size: int) -> Diagram:
    """The diagram of one axis without constraints."""
    return Diagram((name,), ((_Branches(tuple(range(size)), (0,) * size, tuple(range(size + 1))),),))


def compile_diagram(levels: Sequence[Level], constraints: Sequence[Node], where: str = "") -> Diagram:
    """Compile the diagram of `levels` (an axis after those that its `when` names) under `constraints`.

    It may have no path at all (count 0). Raises InputError where a constraint cannot be computed, or where more than
    MAX_BRANCHES branches would be looked at.
    """
    ranges, trees = {level.name: _range(level) for level in levels}, _Trees()
    start = _settled(constraints, partial(_open, ranges))
    rows: list[list[list[tuple[int, int]]]] = []
    states: list[State] = [] if start is None else [tuple(map(trees.one, (*start, *(level.when for level in levels))))]
    total = 0
    for depth, level in enumerate(levels):
        del ranges[level.name]
        total += len(states) * len(level.values)
        if total > MAX_BRANCHES:
            names = ", ".join(each.name for each in levels)
            raise InputError(where, f"joins {names} in more than {MAX_BRANCHES} ways",
                             expected="fewer values, or a requirement, which is checked design by design")
        step = _Step(level, ranges, trees)
        rows.append([step.expand(state, len(levels) - depth) for state in states])
        states = step.states
    return _counted(tuple(level.name for level in levels), rows)


def _range(level: Level) -> Interval:
    values = [each.value for each in (*level.values, level.otherwise) if each.value is not None]
    if not values or any(isinstance(value, bool) or not isinstance(value, (int, float)) for value in values):
        return (-float("inf"), float("inf"))
    return min(values), max(values)


class _Trees:
    """Interns trees: equal trees are one object, so that identity tells them apart."""

    def __init__(self) -> None:
        self._known: dict[Node, Node] = {}

    def one(self, node: Node) -> Node:
        """The one object of all trees equal to this one; it stays alive."""
        return self._known.setdefault(node, node)


def _open(ranges: Mapping[str, Interval], node: Node) -> bool | None:
    """Whether later values decide a constraint; None if it can no longer hold."""
    if isinstance(node, Const):
        if node == FALSE:
            return None
        if node != TRUE:
            raise InputError("", f"{node.value!r} is not true or false", expected="a comparison")
        return False
    low, high = bounds(node, ranges)
    return None if high < 1 else low < 1


def _settled(constraints: Sequence[Node], is_open: Callable[[Node], bool | None]) -> State | None:
    """The constraints that later values decide, in a fixed order; None if one can no longer hold."""
    found = []
    for node in constraints:
        left = is_open(node)
        if left is None:
            return None
        if left:
            found.append(node)
    return tuple(found)


class _Step:
    """Builds one level of a diagram. Many states share a tree: each value is put into it once."""

    def __init__(self, level: Level, ranges: Mapping[str, Interval], trees: _Trees) -> None:
        self.states: list[State] = []
        self._level, self._ranges, self._trees = level, ranges, trees
        self._numbers: dict[tuple[int, ...], int] = {}
        self._put: dict[tuple[int, int], Node] = {}
        self._opens: dict[int, bool | None] = {}

    def expand(self, state: State, left: int) -> list[tuple[int, int]]:
        """The branches of one node: (value index, number of the state it leads to). `state` ends with `left`
        conditions."""
        own = len(state) - left
        constraints, when, later = state[:own], state[own], state[own + 1:]
        if not isinstance(when, Const):
            raise InputError("", f"the condition of {self._level.name} depends on a knob that comes after it")
        found = []
        for value in range(len(self._level.values)) if when == TRUE else [-1]:
            new = _settled([self._with(node, value) for node in constraints], self._open)
            if new is not None:
                found.append((value, self._number((*new, *[self._with(node, value) for node in later]))))
        return found

    def _with(self, node: Node, value: int) -> Node:
        """The tree with a value of the level put in."""
        key = id(node), value
        if key not in self._put:
            constant = self._level.otherwise if value < 0 else self._level.values[value]
            self._put[key] = self._trees.one(put(node, self._level.name, constant))
        return self._put[key]

    def _open(self, node: Node) -> bool | None:
        if id(node) not in self._opens:
            self._opens[id(node)] = _open(self._ranges, node)
        return self._opens[id(node)]

    def _number(self, state: State) -> int:
        found = self._numbers.setdefault(tuple(map(id, state)), len(self.states))
        if found == len(self.states):
            self.states.append(state)
        return found


def _counted(names: tuple[str, ...], rows: Sequence[Sequence[Sequence[tuple[int, int]]]]) -> Diagram:
    """Cut off dead ends and count the paths, from the last level."""
    levels: list[tuple[_Branches, ...]] = []
    number: dict[int, int] = {}      # state of the next level -> its node there
    paths: list[int] = []
    for depth in range(len(rows) - 1, -1, -1):
        last, place = depth == len(rows) - 1, {}
        kept: list[_Branches] = []
        for state, branches in enumerate(rows[depth]):
            live = [(value, to) for value, to in branches if last or to in number]
            if not live:
                continue
            before = [0]
            for _, to in live:
                before.append(before[-1] + (1 if last else paths[number[to]]))
            place[state] = len(kept)
            kept.append(_Branches(tuple(value for value, _ in live), tuple(0 if last else number[to] for _, to in live),
                                  tuple(before)))
        number, paths = place, [node.paths for node in kept]
        levels.append(tuple(kept))
    levels.reverse()
    return Diagram(names, tuple(levels))


def reordered(names: Sequence[str], needs: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """`names` in order, each after those it `needs`. Raises InputError for a circle."""
    place = {name: index for index, name in enumerate(names)}
    missing = {name: {need for need in needs.get(name, ()) if need in place and need != name} for name in names}
    ready = [place[name] for name in names if not missing[name]]
    heapq.heapify(ready)
    found: list[str] = []
    while ready:
        name = names[heapq.heappop(ready)]
        found.append(name)
        for other in names:
            if name in missing[other]:
                missing[other].discard(name)
                if not missing[other]:
                    heapq.heappush(ready, place[other])
    if len(found) < len(names):
        stuck = [name for name in names if name not in found]
        raise InputError(stuck[0], "its condition depends on itself", expected=f"no circle among {', '.join(stuck)}")
    return tuple(found)
