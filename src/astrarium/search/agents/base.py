"""What an agent is: it is asked for points, and told what they are worth."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Protocol, cast

from astrarium.config import Config, Knob, decode
from astrarium.config.spec import Variants
from astrarium.errors import InputError
from astrarium.registry import Kind
from astrarium.search.goal import Goal
from astrarium.search.space import Point, Space

__all__ = ["Agent", "AgentOptions", "Batch", "Options", "Scale", "Values", "agent_options", "one_objective"]

Values = tuple[float, ...]
"""What a point is worth, one number per objective, less is better; infinity where it is infeasible."""

Batch = Annotated[int, Knob("Points asked for at a time; their results are told together.", ge=1, lt=1 << 20)]


class Agent(Protocol):
    """A search in progress. Its answers depend on its options, its seed and what it was told, on nothing else."""

    def ask(self, count: int) -> list[Point]:
        """1 to `count` feasible points; none when there is nothing left to propose."""

    def tell(self, points: Sequence[Point], values: Sequence[Values]) -> None:
        """The worth of the points that the last `ask` gave, in that order."""


class Options(Config, frozen=True, kw_only=True):
    """An agent and its hyper-parameters; a concrete class has `start`."""

    variants: ClassVar[Variants | None] = Kind("agent")
    tag_key: ClassVar[str] = "agent"


class AgentOptions(Protocol):
    """What every concrete class of options offers."""

    @property
    def batch(self) -> int:
        """Points asked for at a time."""

    def start(self, space: Space, goal: Goal, seed: int) -> Agent:
        """A search from its beginning. Raises InputError where this agent cannot search that space."""


def agent_options(name: str, options: Mapping[str, Any] | None = None) -> AgentOptions:
    """The options of an agent by its name. Raises InputError for an unknown name or option."""
    return cast(AgentOptions, decode(Options, {"agent": name, **(options or {})}))


def one_objective(name: str, goal: Goal) -> None:
    """InputError where there are several."""
    if len(goal.objectives) != 1:
        raise InputError("agent", f"{name} takes one objective, and there are {len(goal.objectives)}",
                         expected="nsga2 or nsga3, or one objective")


class Scale:
    """Objective values as models like them: asinh(value / unit), the unit a thousandth of the first value told. It
    keeps the order, is a logarithm for large values, and puts infeasible ones behind the worst seen."""

    def __init__(self) -> None:
        self._unit, self._worst = 0.0, 0.0

    def __call__(self, value: float) -> float:
        if not math.isfinite(value):
            return self._worst + 1.0
        if not self._unit:
            self._unit = abs(value) / 1000 or 1.0
            self._worst = math.asinh(value / self._unit)
        found = math.asinh(value / self._unit)
        self._worst = max(self._worst, found)
        return found
