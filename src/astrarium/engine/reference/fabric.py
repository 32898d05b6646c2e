"""Fabrics: which links a message takes. Computed from dims, or looked up in a graph."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from astrarium.engine.plan import Changes, Changing, NetworkPlan
from astrarium.engine.reference.geometry import kinds_of_links
from astrarium.engine.reference.graph_routes import GraphRoutes
from astrarium.engine.reference.hop import Hop
from astrarium.engine.reference.rates import Rates, rates_of
from astrarium.engine.reference.routes import Routes
from astrarium.engine.reference.traffic import Port

__all__ = ["Fabric", "bandwidths", "fabric_of", "link_rates", "links_that_stand"]


class Fabric(Protocol):
    """The ways between NPUs."""

    def between(self, source: int, destination: int) -> Sequence[Hop]:
        """The links of a message's way in order; none from an NPU to itself."""

    def ports(self) -> list[Port]:
        """The name of each link in the traffic, by its number."""


def fabric_of(network: NetworkPlan) -> Fabric:
    """The fabric of a checked network."""
    return Routes(network.dims) if network.graph is None else GraphRoutes(network.graph, network.ecmp, network.routes)


def bandwidths(network: NetworkPlan) -> list[float]:
    """Bytes per ns of the links: one figure per dim and memory at its switches, or per link of the graph."""
    if network.graph is None:
        return [link.bandwidth for dim in network.dims for link in kinds_of_links(dim)]
    found: list[float] = network.graph.bandwidth.tolist()
    return found


def link_rates(fabric: Fabric, changes: Changes | None) -> Rates[Port]:
    """The changes of the fabric's links."""
    by_number = rates_of(changes, Changing.LINK)
    return by_number.renamed(fabric.ports()) if by_number else Rates({})


def links_that_stand(fabric: Fabric, rates: Rates[Port], wanted: Collection[Port]) -> list[str]:
    """A sentence for each of the wanted links that stands still for ever, by number."""
    return [f"link {number} stands still for ever, since {since} ps" for number, port in enumerate(fabric.ports())
            if port in wanted and (since := rates.stops(port)) is not None]
