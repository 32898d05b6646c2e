"""Media: what moves bytes. One per run; knows nothing of ranks, collectives and nodes (design/0008)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from msgspec import Struct

from astrarium import registry
from astrarium.engine.outcome import PacketCounts
from astrarium.engine.plan import Changes, NetworkPlan
from astrarium.engine.reference.clock import Event
from astrarium.engine.reference.native_clock import BatchClock, Key, Order
from astrarium.engine.reference.traffic import Traffic
from astrarium.errors import UnsupportedError

__all__ = ["Keys", "Medium", "MediumKind", "medium_kind", "open_medium"]

Keys = tuple[Key, Key]      # as it departs and ends, as it arrives


class Medium(Protocol):
    """`send` asks for the source at this instant; `delivered` runs when the last byte is at the destination. `order`:
    among the messages that arrive in one instant."""

    def send(self, key: Key, order: Order, source: int, destination: int, size: int, delivered: Event,
             tag: int = 0) -> None: ...

    def waits(self) -> list[str]:
        """Sentences for a stall: what keeps messages for ever."""


def _any_network(network: NetworkPlan) -> None:
    del network


def _all_or_nothing(network: NetworkPlan) -> Sequence[int]:
    del network
    return ()


def _no_packets(medium: Any) -> None:
    del medium


class MediumKind(Struct, frozen=True):
    """A class of media, as its line in the registry (kind `backend`) has it: `open` makes one for a run.

    `takes_graph`: it has links of its own; a graph may give them, and they may change. `takes_memories`: links of a
    switch have the bandwidth of their place (`Dim.ends`). `takes_switches`: messages may begin and end at switches
    (numbers as in `network.graph.graph_of`, or of the graph's nodes). `check` raises UnsupportedError
    for a network that it cannot carry. `whole` gives, per dim of the traffic, the parts per ps of a busy link; nothing
    where a link is busy or not. `counts`: what a medium of packets measured.
    """

    open: Callable[[BatchClock, NetworkPlan, Traffic | None, Changes | None], Medium]
    takes_graph: bool = False
    takes_memories: bool = False
    takes_switches: bool = False
    check: Callable[[NetworkPlan], None] = _any_network
    whole: Callable[[NetworkPlan], Sequence[int]] = _all_or_nothing
    counts: Callable[[Any], PacketCounts | None] = _no_packets


def medium_kind(name: str) -> MediumKind:
    """The medium of a back end. Raises UnsupportedError where the engine has none of that name."""
    entry = registry.entries("backend").get(name)
    kind = None if entry is None or entry.package or not entry.target else registry.load("backend", name)
    if isinstance(kind, MediumKind):
        return kind
    own = [e.name for e in registry.entries("backend").values()
           if e.target and not e.package and isinstance(registry.load("backend", e.name), MediumKind)]
    raise UnsupportedError("network.backend", f"no medium is called {name}", expected=" or ".join(own))


def open_medium(clock: BatchClock, network: NetworkPlan, traffic: Traffic | None,
                changes: Changes | None = None) -> Medium:
    """The medium of a plan's network. `changes`: of its links, where it has any."""
    return medium_kind(network.backend).open(clock, network, traffic, changes)
