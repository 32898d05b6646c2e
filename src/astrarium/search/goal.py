"""What a search is for: objectives, requirements, and the cases (workloads) over which they are taken."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from msgspec import Struct, field

from astrarium.cost import FIGURES
from astrarium.design import Design
from astrarium.errors import InputError, nearest
from astrarium.result import Result
from astrarium.search.components import ContradictionError, Rule, components_of, levels_of
from astrarium.search.expression import CONDITIONS, Const, Interval, Node, Op, bounds, names_in
from astrarium.search.scope import Scope
from astrarium.search.space import Space

__all__ = ["NAMED", "Case", "Goal", "Judge", "Objective", "goal_of"]

Measure = Callable[[Design, Result], float]

NAMED: Mapping[str, str] = MappingProxyType({
    "runtime_x_bandwidth": "makespan * network_bandwidth",
    "runtime_x_cost": "makespan * network_cost",
    "performance_per_bandwidth": "1e9 / (makespan * network_bandwidth)",
    "performance_per_cost": "1e9 / max(1, makespan * network_cost)",
    "throughput_per_dollar": "1e9 / max(1, makespan * system_cost)",
    "energy_x_delay": "energy * makespan",
})
"""Short names of objectives that papers use (COSMIC: runtime x bandwidth per NPU, runtime x network cost)."""


class Objective(Struct, frozen=True):
    """One figure of merit: an expression over design paths and figures, or a function of (design, result)."""

    name: str
    measure: str | Measure
    maximize: bool = False


class Case(Struct, frozen=True):
    """One of several workloads: the base with `changes` (path -> value). Times are added up with `weight`."""

    name: str
    weight: float = 1.0
    changes: Mapping[str, Any] = field(default_factory=dict)


class Goal(Struct, frozen=True):
    """Objectives (several: a Pareto front), requirements (conditions a design must meet), and cases (none: one)."""

    objectives: tuple[Objective, ...]
    requirements: tuple[str, ...] = ()
    cases: tuple[Case, ...] = ()

    def __post_init__(self) -> None:
        if not self.objectives:
            raise InputError("minimize", "is empty", expected="an objective such as makespan")
        for kind, entries in (("objectives", self.objectives), ("cases", self.cases)):
            names = [each.name for each in entries]
            twice = next((name for name in names if names.count(name) > 1), None)
            if twice is not None:
                raise InputError(kind, f"{twice!r} is there twice", expected="another name")
        for case in self.cases:
            if not (math.isfinite(case.weight) and case.weight > 0):
                raise InputError(f"cases.{case.name}.weight", f"{case.weight!r} is impossible",
                                 expected="a number above 0")


def goal_of(minimize: Any = (), maximize: Any = (), require: str | Sequence[str] = (),
            cases: Sequence[Case] = ()) -> Goal:
    """A Goal from what a person writes: a name or expression, a function, several, or a mapping name -> either."""
    objectives = [*_objectives(minimize, False), *_objectives(maximize, True)]
    return Goal(tuple(objectives), (require,) if isinstance(require, str) else tuple(require), tuple(cases))


def _objectives(given: Any, maximize: bool) -> list[Objective]:
    if given is None:
        return []
    if isinstance(given, Mapping):
        return [_objective(str(name), measure, maximize) for name, measure in given.items()]
    if isinstance(given, str) or callable(given):
        given = (given,)
    if not isinstance(given, Iterable):
        raise InputError("minimize", f"{given!r} is not an objective", expected="an expression, a function, or a list")
    return [_objective("", measure, maximize) for measure in given]


def _objective(name: str, measure: Any, maximize: bool) -> Objective:
    if callable(measure):
        return Objective(name or getattr(measure, "__name__", "objective"), measure, maximize)
    if not isinstance(measure, str):
        raise InputError(name or "minimize", f"{measure!r} is not an objective",
                         expected="an expression, a function of (design, result), or a list of these")
    return Objective(name or measure, NAMED.get(measure, measure), maximize)


class Judge:
    """A goal with its names resolved against a space. Making one checks everything that can be checked beforehand."""

    def __init__(self, space: Space, goal: Goal):
        """Raises InputError: unknown name, no number, a division by zero that some design would make."""
        self.space, self.goal = space, goal
        self.scope = Scope(space.base, space.axes, space.derived, tuple(FIGURES))
        self.objectives: list[Node | Measure] = [
            self._number(each.measure, each.name) if isinstance(each.measure, str) else each.measure
            for each in goal.objectives]
        self.requirements = [self._condition(text, f"require[{index}]")
                             for index, text in enumerate(goal.requirements)]
        trees = [node for node in [*self.objectives, *self.requirements] if not callable(node)]
        self.figures = tuple(name for name in FIGURES if any(name in names_in(node) for node in trees))
        self.functions = any(callable(each) for each in self.objectives)
        self.record = self.functions or any(FIGURES[name].record for name in self.figures)
        for node, text in zip(trees, [*[str(each.measure) for each in goal.objectives if not callable(each.measure)],
                                      *goal.requirements]):
            self._divisors(node, text)

    def _node(self, text: str, where: str) -> Node:
        try:
            return self.scope.node(text, where)
        except InputError as error:
            known = [*FIGURES, *NAMED]
            guess = error.did_you_mean or nearest(error.path, known)
            raise InputError(error.path or where, error.message, did_you_mean=guess,
                             expected=error.expected if guess else "a path of the design, or one of " + ", ".join(known)
                             ) from None

    def _number(self, text: str, where: str) -> Node:
        node = self._node(text, where)
        wrong = isinstance(node, Const) and (isinstance(node.value, bool) or not isinstance(node.value, (int, float)))
        if wrong or (isinstance(node, Op) and node.name in CONDITIONS):
            raise InputError(where, f"{text!r} is no number", expected="an expression that gives a number")
        return node

    def _condition(self, text: str, where: str) -> Node:
        node = self._node(text, where)
        if isinstance(node, Op) and node.name in CONDITIONS:
            return node
        raise InputError(where, f"{text!r} is not a condition on designs", expected="a comparison")

    def ranges(self) -> dict[str, Interval]:
        """What each figure and each axis of numbers can be."""
        found: dict[str, Interval] = {name: (figure.least, math.inf) for name, figure in FIGURES.items()}
        for axis in self.space.axes:
            values = [*axis.values, *(() if axis.otherwise is None else (axis.otherwise,))]
            if not axis.size:
                found[axis.name] = (axis.domain.low, axis.domain.high)
            elif all(isinstance(value, (int, float)) for value in values):
                found[axis.name] = (float(min(values)), float(max(values)))
        return found

    def _divisors(self, node: Node, text: str) -> None:
        """Refuses a divisor that is 0 for some design of the space, or that a result can make 0."""
        if not isinstance(node, Op):
            return
        for arg in node.args:
            self._divisors(arg, text)
        if node.name not in ("/", "//", "%"):
            return
        low, high = bounds(node.args[1], self.ranges())
        if low > 0 or high < 0:
            return
        names = names_in(node.args[1])
        figures = [name for name in names if name in FIGURES]
        if not figures and not self._reached(Op("==", (node.args[1], Const(0)))):
            return
        what = (f"{', '.join(figures)} can be 0" if figures
                else f"for some {' and '.join(names)} of the space" if names else "always")
        raise InputError(text, f"divides by zero ({what})", expected="a divisor that is never 0, such as max(1, ...)")

    def _reached(self, node: Node) -> bool:
        """Whether some design of the space meets a condition (a continuum may)."""
        space = self.space
        levels = levels_of(space.axes, space.scope)
        if any(name not in levels for name in names_in(node)):
            return True
        try:
            components_of(space.axes, [*space.rules, Rule("", node, "")], levels)
        except ContradictionError:
            return False
        except InputError:      # it joins too much to find out
            return True
        return True
