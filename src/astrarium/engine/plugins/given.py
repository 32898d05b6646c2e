"""The plug-ins of a run: how to make them, and those that were made."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TypeVar

from msgspec import Struct

from astrarium.engine.plan import NetworkPlan
from astrarium.engine.plugins.compute import ComputeModel
from astrarium.engine.plugins.library import Library
from astrarium.engine.plugins.memory import RemoteMemory
from astrarium.engine.plugins.network import Network
from astrarium.engine.plugins.system import CollectiveChoice, Scheduling
from astrarium.errors import PluginError

__all__ = ["Plugins", "Team", "ask", "ask_whole", "checked"]

PATIENCE, LIBRARY_PATIENCE = 10_000_000, 1_000_000_000
CALLED = ("sim_send", "sim_recv", "sim_get_time", "next_event_time", "advance")     # of a network, by the engines
T = TypeVar("T")


class Plugins(Struct, frozen=True):
    """What takes part in runs in place of the engine's own; None: the engine's own.

    `network`, `memory` and `scheduling` are called for every run and give an object for it: a class will do. `compute`
    and `choice` have no state and take effect where a design is lowered. `patience`: after how many steps of the
    network's clock without a callback a run counts as stalled; None: ten million, for a library a billion.
    """

    network: Callable[[NetworkPlan], Network] | Library | None = None
    memory: Callable[[], RemoteMemory] | None = None
    scheduling: Callable[[], Scheduling] | None = None
    compute: ComputeModel | None = None
    choice: CollectiveChoice | None = None
    patience: int | None = None

    @property
    def in_run(self) -> bool:
        """Whether any of them takes part in the engine's run."""
        return self.network is not None or self.memory is not None or self.scheduling is not None

    def team(self, fabric: NetworkPlan) -> Team:
        """The plug-ins of one run over `fabric`. Raises PluginError for one that cannot be made or lacks a method."""
        network: Network | Library | None
        if self.network is None or isinstance(self.network, Library):
            network = self.network
        else:
            who = f"network plug-in {_name(self.network)}"
            network = checked(who, ask(who, self.network, fabric), CALLED)
        memory, policy = None, None
        if self.memory is not None:
            who = f"remote memory plug-in {_name(self.memory)}"
            memory = checked(who, ask(who, self.memory), ("access_time",))
        if self.scheduling is not None:
            who = f"scheduling plug-in {_name(self.scheduling)}"
            policy = checked(who, ask(who, self.scheduling), ("pick",))
        limit = LIBRARY_PATIENCE if isinstance(network, Library) else PATIENCE
        return Team(network, memory, policy, limit if self.patience is None else self.patience)


class Team(Struct, frozen=True):
    """The plug-ins of one run; a library stays one until an engine opens it."""

    network: Network | Library | None = None
    memory: RemoteMemory | None = None
    scheduling: Scheduling | None = None
    patience: int = PATIENCE

    @property
    def network_name(self) -> str:
        """The name of the network plug-in."""
        return self.network.name if isinstance(self.network, Library) else type(self.network).__qualname__

    @property
    def labels(self) -> tuple[str, str, str]:
        """What errors call the network, the memory and the scheduling plug-in."""
        return (f"network plug-in {self.network_name}", f"remote memory plug-in {type(self.memory).__qualname__}",
                f"scheduling plug-in {type(self.scheduling).__qualname__}")


def ask(who: str, function: Callable[..., T], *arguments: object) -> T:
    """Call a plug-in; its exception becomes a PluginError that names it."""
    try:
        return function(*arguments)
    except PluginError:
        raise
    except Exception as error:
        raise PluginError(who, f"raised {type(error).__name__}: {error}") from error


def checked(who: str, made: T, methods: Sequence[str]) -> T:
    """What a plug-in gave; PluginError unless it has the `methods` that a run calls."""
    for name in methods:
        if not callable(ask(who, getattr, made, name, None)):
            what = "None" if made is None else f"an object of {type(made).__qualname__}"
            raise PluginError(who, f"gave {what}, which has no method {name}")
    return made


def ask_whole(who: str, what: str, function: Callable[..., int], *arguments: object) -> int:
    """Call a plug-in for a number; PluginError unless it is a whole one of 64 bits (numpy's will do)."""
    answer = ask(who, function, *arguments)
    try:
        number = operator.index(answer)
    except TypeError:
        number = 2**63
    if not -2**63 <= number < 2**63:
        raise PluginError(who, f"{what}() gave {answer!r}, not a whole number of ps")
    return number


def _name(factory: object) -> str:
    return str(getattr(factory, "__qualname__", type(factory).__qualname__))
