"""The plug-ins of one run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from astrarium.engine.plugins.compute import ComputeModel
from astrarium.engine.plugins.library import Library
from astrarium.engine.plugins.memory import RemoteMemory
from astrarium.engine.plugins.network import Network
from astrarium.engine.plugins.system import CollectiveChoice, Scheduling
from astrarium.errors import PluginError

__all__ = ["Plugins", "ask"]

T = TypeVar("T")

PATIENCE, LIBRARY_PATIENCE = 10_000_000, 1_000_000_000


@dataclass(frozen=True)
class Plugins:
    """What takes part in a run in place of the engine's own; None: the engine's own.

    A network, memory or scheduling object serves one run (make new ones for the next). `patience`: after how many steps
    of the network's clock without a callback the run counts as stalled; None: ten million, for a library a billion.
    `compute` and `choice` take effect where a design is lowered.
    """

    network: Network | Library | None = None
    memory: RemoteMemory | None = None
    scheduling: Scheduling | None = None
    compute: ComputeModel | None = None
    choice: CollectiveChoice | None = None
    patience: int | None = None

    @property
    def in_run(self) -> bool:
        """Whether any of them takes part in the engine's run."""
        return self.network is not None or self.memory is not None or self.scheduling is not None

    @property
    def limit(self) -> int:
        """The patience in steps."""
        if self.patience is not None:
            return self.patience
        return LIBRARY_PATIENCE if isinstance(self.network, Library) else PATIENCE

    @property
    def network_name(self) -> str:
        """The name of the network plug-in."""
        return self.network.name if isinstance(self.network, Library) else _name(self.network)

    @property
    def labels(self) -> tuple[str, str, str]:
        """What errors call the network, the memory and the scheduling plug-in."""
        return (f"network plug-in {self.network_name}", f"remote memory plug-in {_name(self.memory)}",
                f"scheduling plug-in {_name(self.scheduling)}")


def ask(who: str, function: Callable[..., T], *arguments: object) -> T:
    """Call a plug-in; its exception becomes a PluginError that names it."""
    try:
        return function(*arguments)
    except PluginError:
        raise
    except Exception as error:
        raise PluginError(who, f"raised {type(error).__name__}: {error}") from error


def _name(plugin: object) -> str:
    return type(plugin).__qualname__
