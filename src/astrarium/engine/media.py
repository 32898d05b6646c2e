"""What the engine must know of a medium (what moves bytes) before it opens one: its line in the registry.

The compiled core has the same facts of its own media, by name.
"""

from __future__ import annotations

from msgspec import Struct

from astrarium import registry
from astrarium.errors import UnsupportedError

__all__ = ["MediumKind", "find_medium", "medium_kind"]


class MediumKind(Struct, frozen=True):
    """A class of media, as the registry (kind `backend`) has it.

    `python` is where the pure-Python engine finds it, "module:class" (`oracle.medium.Medium` says what the class has).
    `takes_graph`: it has links; a graph may give them, and they may change. `takes_memories`: the links of a switch
    have the bandwidth of their place (`Dim.ends`). `takes_switches`: messages may begin and end at switches (numbers
    as in `fabric.graph.graph_of`, or of the graph's nodes).
    """

    python: str
    takes_graph: bool = False
    takes_memories: bool = False
    takes_switches: bool = False


PORTS = MediumKind("astrarium.oracle.ports:Ports", takes_memories=True, takes_switches=True)
LINKS = MediumKind("astrarium.oracle.links:Links", takes_graph=True, takes_memories=True, takes_switches=True)
FLOWS = MediumKind("astrarium.oracle.flows:Flows", takes_graph=True, takes_memories=True, takes_switches=True)
PACKETS = MediumKind("astrarium.oracle.packets:Packets", takes_graph=True, takes_switches=True)


def find_medium(backend: str) -> MediumKind | None:
    """The medium of a back end; None if there is none of that name, or if it is a network plug-in."""
    entry = registry.built_ins("backend").get(backend)
    if entry is None or not entry.target:
        return None
    found = registry.load("backend", backend)
    return found if isinstance(found, MediumKind) else None


def medium_kind(backend: str) -> MediumKind:
    """The medium of a back end. Raises UnsupportedError if the engine has none of that name."""
    kind = find_medium(backend)
    if kind is None:
        own = [name for name in registry.built_ins("backend") if find_medium(name) is not None]
        raise UnsupportedError("network.backend", f"no medium is called {backend}", expected=" or ".join(own))
    return kind
