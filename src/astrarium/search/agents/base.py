"""The interface of agents: an agent is asked for points, and told their values."""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Annotated, Any, ClassVar, Protocol, cast, runtime_checkable

from msgspec import Struct
from msgspec.structs import replace

from astrarium.config import Config, Knob, decode
from astrarium.config.spec import Variants
from astrarium.engine.plugins.given import checked
from astrarium.errors import AstrariumError, InputError, PluginError, install_line
from astrarium.registry import Kind
from astrarium.search.agents.names import split_name
from astrarium.search.axes import Point
from astrarium.search.goal import Goal
from astrarium.search.space import Space
from astrarium.search.trial import Verdict

__all__ = ["Agent", "AgentOptions", "Batch", "Closing", "Hearing", "InFlight", "Merit", "Merits", "Options",
           "PluginAgent", "Proof", "Prover", "Scale", "Scaled", "Told", "Values", "agent_options", "chosen_agent",
           "needed", "one_objective", "started"]

Values = tuple[float, ...]
"""The value of a point per objective, less is better; infinity for an infeasible point."""

Batch = Annotated[int, Knob("Points asked for at a time; their results are told together.", ge=1, lt=1 << 20)]

InFlight = Annotated[int, Knob("Designs that run at a time, each replaced as soon as it is finished; 0: batches.",
                               ge=0, lt=1 << 20)]


class Told(Struct, frozen=True):
    """What an agent hears of a point. `values`: what it is worth; `verdict`: objectives and figures as they are, the
    margin of each requirement, and why the design was refused; `trial`: its number in the study."""

    point: Point
    values: Values
    verdict: Verdict = Verdict(None)
    trial: int = -1


class Agent(Protocol):
    """A search in progress. Its answers depend only on its options, its seed and the values that it was told."""

    def ask(self, count: int) -> list[Point]:
        """Propose 1 to `count` feasible points; none if there is nothing left to propose."""

    def tell(self, told: Sequence[Told]) -> None:
        """Learn what became of the points of the last `ask`, in their order. An agent with a field `in_flight` is asked
        for one point at a time while others run, and told one at a time, in the order in which they finish."""


class Proof(Struct, frozen=True):
    """A proved bound: no design of the space has an objective below `bound`; `gap` is (best - bound) / best;
    `complete`: whether the gap is as small as asked for."""

    bound: float
    gap: float
    complete: bool


@runtime_checkable
class Hearing(Agent, Protocol):
    """An agent that learns from points that it did not ask for: the starts of a search."""

    def hear(self, told: Sequence[Told]) -> None:
        """Learn what became of them; before the first `ask`."""


@runtime_checkable
class Closing(Agent, Protocol):
    """An agent that holds something (a program), which ends with the search."""

    def close(self) -> None:
        """Let it go."""


@runtime_checkable
class Prover(Agent, Protocol):
    """An agent that proves how far its best point can be from the optimum."""

    def proof(self) -> Proof:
        """The proof so far."""


class Options(Config, frozen=True, kw_only=True):
    """The hyper-parameters of an agent; a concrete class has the methods of `AgentOptions`.

    `outside`: another program answers. Its answers need not be the same twice, so a study stores them before they run,
    and replays them instead of asking again. Only the command line and Python may name such an agent, no file.
    `repeats`: it may propose a design again; one that does not ends with the space.
    """

    variants: ClassVar[Variants | None] = Kind("agent")
    tag_key: ClassVar[str] = "agent"
    outside: ClassVar[bool] = False
    repeats: ClassVar[bool] = True


class AgentOptions(Protocol):
    """The interface of every concrete class of `Options`."""

    @property
    def batch(self) -> int:
        """Points asked for at a time."""

    def start(self, space: Space, goal: Goal, seed: int) -> Agent:
        """Start a search. Raises InputError if this agent cannot search the space, or not for the goal."""


def agent_options(name: str, options: Mapping[str, Any] | None = None) -> AgentOptions:
    """The options of an agent, by its name; `NAME:TEXT` sets the field that is called like the agent (a `command`, the
    URL of `http`). Raises InputError for an unknown name or option."""
    name, colon, text = split_name(name)
    own = {name: text} if colon else {}
    return cast(AgentOptions, decode(Options, {"agent": name, **own, **(options or {})}))


def chosen_agent(agent: str | Options, options: Mapping[str, Any] | None) -> AgentOptions:
    """The options of an agent: by name with `options`, or options with `options` replaced. Raises InputError."""
    if isinstance(agent, str):
        return agent_options(agent, options)
    if not isinstance(agent, Options):
        raise InputError("agent", f"{agent!r} is not an agent", expected="a name, or the options of an agent")
    return cast(AgentOptions, replace(agent, **options) if options else agent)


def one_objective(name: str, goal: Goal) -> None:
    """Raise InputError if the goal has several objectives."""
    if len(goal.objectives) != 1:
        raise InputError("agent", f"{name} takes one objective, and there are {len(goal.objectives)}",
                         expected="bayesian or nsga2, or one objective")


Merit = tuple[float, float]
"""Orders trials, less is better: how far the requirements are missed (0: feasible), then the value."""


class Merits:
    """Computes the merit of trials, by their first objective. A feasible trial is better than any other; one that
    misses requirements is better the less it does, each in units of its first miss; a refusal without a margin is the
    worst."""

    def __init__(self) -> None:
        self._units: dict[int, float] = {}

    def __call__(self, told: Told) -> Merit:
        if math.isfinite(told.values[0]):
            return 0.0, told.values[0]
        missed = {place: -slack for place, slack in enumerate(told.verdict.slacks) if slack < 0}
        if not missed:
            return math.inf, math.inf
        for place, amount in missed.items():
            self._units.setdefault(place, amount)
        return sum(amount / self._units[place] for place, amount in missed.items()), math.inf


class Scale:
    """Scales values for models: asinh(value / unit), where the unit is the first value over `range_` (default: a
    thousandth). The scale keeps the order, is linear up to the unit and logarithmic above. `worst`: the largest scaled
    value so far."""

    def __init__(self, range_: float = 1000.0) -> None:
        self._range, self._unit, self.worst = range_, 0.0, 0.0

    def __call__(self, value: float) -> float:
        if not self._unit:
            self._unit = abs(value) / self._range or 1.0
            self.worst = math.asinh(value / self._unit)
        found = math.asinh(value / self._unit)
        self.worst = max(self.worst, found)
        return found


class Scaled:
    """Scales the objectives of trials for models. Trials that are not feasible come behind the worst value so far: 1
    behind it and more, up to 2, the further they miss the requirements."""

    def __init__(self, objectives: int = 1):
        self._scales, self._merits = [Scale() for _ in range(objectives)], Merits()

    def __call__(self, told: Told) -> Values:
        missed, _ = self._merits(told)
        if not missed:
            return tuple([scale(value) for scale, value in zip(self._scales, told.values)])
        behind = 1.0 + (missed / (1.0 + missed) if math.isfinite(missed) else 1.0)
        return tuple([scale.worst + behind for scale in self._scales])


def needed(agent: str, extra: str, *modules: str) -> ModuleType:
    """Import `modules` and return the first. Raises InputError with the pip line if one is not installed."""
    try:
        found = [importlib.import_module(module) for module in modules]
    except ImportError as error:
        raise InputError("agent", f"{agent} needs {error.name or 'a library'}, which is not installed here",
                         expected=install_line(extra)) from None
    return found[0]


class PluginAgent:
    """Checks the answers of a plug-in agent. Raises PluginError for an exception (its cause), for points outside the
    space, and for too many points."""

    def __init__(self, who: str, agent: Agent, space: Space):
        self.who, self.agent, self.space = who, agent, space

    def ask(self, count: int) -> list[Point]:
        """The checked points of the agent."""
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

    def tell(self, told: Sequence[Told]) -> None:
        """Tell the agent."""
        try:
            self.agent.tell(told)
        except Exception as error:
            raise self._raised("tell", error) from error

    def hear(self, told: Sequence[Told]) -> None:
        """Tell an agent that hears."""
        if isinstance(self.agent, Hearing):
            try:
                self.agent.hear(told)
            except Exception as error:
                raise self._raised("hear", error) from error

    def _known(self, point: Point) -> bool:
        try:
            return self.space.number(point) >= 0
        except (TypeError, IndexError):
            return False

    def _raised(self, method: str, error: Exception) -> PluginError | AstrariumError:
        return error if isinstance(error, AstrariumError) else PluginError(
            self.who, f"{method} raised {type(error).__name__}: {error}")


def started(options: AgentOptions, space: Space, goal: Goal, seed: int) -> Agent:
    """Start an agent; the answers of one that is not ours are checked. Raises PluginError if it lacks a method."""
    who = f"agent {type(options).__qualname__}"
    if not callable(getattr(options, "start", None)):
        raise PluginError(who, "has no method start(space, goal, seed)")
    agent: Agent = checked(who, options.start(space, goal, seed), ("ask", "tell"))
    return agent if type(options).__module__.startswith(f"{__package__}.") else PluginAgent(who, agent, space)
