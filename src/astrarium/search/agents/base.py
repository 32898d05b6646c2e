"""The interface of agents: an agent is asked for points, and told what they are worth."""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Annotated, Any, ClassVar, Protocol, cast, runtime_checkable

from msgspec import Struct

from astrarium.config import Config, Knob, decode
from astrarium.config.spec import Variants
from astrarium.errors import AstrariumError, InputError, PluginError, install_line
from astrarium.registry import Kind
from astrarium.search.axes import Point
from astrarium.search.goal import Goal
from astrarium.search.space import Space

__all__ = ["Agent", "AgentOptions", "Batch", "Options", "PluginAgent", "Proof", "Prover", "Scale", "Values",
           "agent_options", "needed", "one_objective"]

Values = tuple[float, ...]
"""What a point is worth, one number per objective, less is better; infinity where it is infeasible."""

Batch = Annotated[int, Knob("Points asked for at a time; their results are told together.", ge=1, lt=1 << 20)]


class Agent(Protocol):
    """A search in progress. Its answers depend on its options, its seed and what it was told, on nothing else."""

    def ask(self, count: int) -> list[Point]:
        """1 to `count` feasible points; none when there is nothing left to propose."""

    def tell(self, points: Sequence[Point], values: Sequence[Values]) -> None:
        """The worth of the points that the last `ask` gave, in that order."""


class Proof(Struct, frozen=True):
    """What is proved: no design of the space has an objective below `bound`; `gap` is (best - bound) / best."""

    bound: float
    gap: float
    complete: bool


@runtime_checkable
class Prover(Agent, Protocol):
    """An agent that proves how far its best point can be from the optimum."""

    def proof(self) -> Proof:
        """What is proved so far."""


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


def needed(agent: str, extra: str, *modules: str) -> ModuleType:
    """The first of `modules`, all imported. Raises InputError with the pip line where one is absent."""
    try:
        found = [importlib.import_module(module) for module in modules]
    except ImportError as error:
        raise InputError("agent", f"{agent} needs {error.name or 'a library'}, which is not installed here",
                         expected=install_line(extra)) from None
    return found[0]


class PluginAgent:
    """`agent` with its answers checked. Raises PluginError for an exception (its cause) and for points that are not in
    the space or too many."""

    def __init__(self, who: str, agent: Agent, space: Space):
        self.who, self.agent, self.space = who, agent, space

    def ask(self, count: int) -> list[Point]:
        """The agent's points."""
        try:
            found = [tuple(point) for point in self.agent.ask(count)]
        except Exception as error:
            raise self._raised("ask", error) from error
        if len(found) > count:
            raise PluginError(self.who, f"ask({count}) gave {len(found)} points; expected at most {count}")
        for point in found:
            if len(point) != len(self.space.axes):
                raise PluginError(self.who, f"ask({count}) gave {point}; expected a value for each of "
                                  f"{len(self.space.axes)} knobs")
            if not self._known(point):
                raise PluginError(self.who, f"ask({count}) gave {point}, which is not in the space; expected points of "
                                  "space.sample or space.projector.project")
        return found

    def tell(self, points: Sequence[Point], values: Sequence[Values]) -> None:
        """Tells the agent."""
        try:
            self.agent.tell(points, values)
        except Exception as error:
            raise self._raised("tell", error) from error

    def _known(self, point: Point) -> bool:
        try:
            return self.space.number(point) >= 0
        except (TypeError, IndexError):
            return False

    def _raised(self, method: str, error: Exception) -> PluginError | AstrariumError:
        return error if isinstance(error, AstrariumError) else PluginError(
            self.who, f"{method} raised {type(error).__name__}: {error}")
