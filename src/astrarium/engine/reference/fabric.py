"""Fabrics: which links a message takes. Computed from dims, or looked up in a graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from astrarium.engine.plan import NetworkPlan
from astrarium.engine.reference.graph_routes import GraphRoutes
from astrarium.engine.reference.hop import Hop
from astrarium.engine.reference.routes import Routes

__all__ = ["Fabric", "bandwidths", "fabric_of"]


class Fabric(Protocol):
    """The ways between NPUs."""

    def between(self, source: int, destination: int) -> Sequence[Hop]:
        """The links of a message's way in order; none from an NPU to itself."""


def fabric_of(network: NetworkPlan) -> Fabric:
    """The fabric of a checked network."""
    return Routes(network.dims) if network.graph is None else GraphRoutes(network.graph, network.ecmp)


def bandwidths(network: NetworkPlan) -> list[float]:
    """Bytes per ns of the links: one figure per dim, or per link of the graph."""
    return [dim.bandwidth for dim in network.dims] if network.graph is None else network.graph.bandwidth.tolist()
