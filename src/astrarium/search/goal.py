"""Goals of a search: objectives, requirements, and the cases (workloads) over which they are computed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from msgspec import Struct, field

from astrarium.design import Design
from astrarium.errors import InputError
from astrarium.result import Result

__all__ = ["FUNCTION", "NAMED", "Case", "Goal", "Objective", "goal_of", "no_best"]

FUNCTION = "a Python function"       # what a file says of a measure that is one
Measure = Callable[[Design, Result], float]

NAMED: Mapping[str, str] = MappingProxyType({
    "runtime_x_bandwidth": "makespan * network_bandwidth",
    "runtime_x_cost": "makespan * network_cost",
    "performance_per_bandwidth": "1e9 / (makespan * network_bandwidth)",
    "performance_per_cost": "1e9 / max(1, makespan * network_cost)",
    "throughput_per_dollar": "1e9 / max(1, makespan * system_cost)",
    "energy_x_delay": "energy * makespan",
})
"""Short names of objectives in papers (COSMIC: runtime x bandwidth per NPU, runtime x network cost)."""


class Objective(Struct, frozen=True):
    """One figure of merit. `measure`: an expression over design paths and figures, or a function of (design,
    result)."""

    name: str
    measure: str | Measure
    maximize: bool = False


class Case(Struct, frozen=True):
    """One of several workloads of a search: the base with changes. Times of cases are added up by weight.

    Args:
        name: Name in messages and files.
        weight: Factor of the case's time, above 0.
        changes: Path -> value, none of them chosen by the space.
    """

    name: str
    weight: float = 1.0
    changes: Mapping[str, Any] = field(default_factory=dict)


class Goal(Struct, frozen=True):
    """Objectives (several: a Pareto front), requirements (conditions on designs), and cases (none: the base alone)."""

    objectives: tuple[Objective, ...]
    requirements: tuple[str, ...] = ()
    cases: tuple[Case, ...] = ()

    def __post_init__(self) -> None:
        if not self.objectives:
            raise InputError("minimize", "is empty", expected="an objective such as makespan (of serving: ttft_p99)")
        for kind, entries in (("objectives", self.objectives), ("cases", self.cases)):
            names = [each.name for each in entries]
            twice = next((name for name in names if names.count(name) > 1), None)
            if twice is not None:
                raise InputError(kind, f"{twice!r} is there twice", expected="another name")
        for case in self.cases:
            if not (math.isfinite(case.weight) and case.weight > 0):
                raise InputError(f"cases.{case.name}.weight", f"{case.weight!r} is impossible",
                                 expected="a number above 0")


def no_best(goal: Goal) -> str:
    """The reason why a study has no best trial."""
    return "no trial met every requirement" if goal.requirements else "every trial was refused"


def goal_of(minimize: Any = (), maximize: Any = (), require: str | Sequence[str] = (),
            cases: Sequence[Case] = ()) -> Goal:
    """Make a Goal of user input. An objective is a name or expression, a function, several of them, or a mapping
    name -> either. Raises InputError for anything else, and for a name that occurs twice."""
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
