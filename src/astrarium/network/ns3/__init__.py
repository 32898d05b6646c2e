"""`network.backend: ns3`: ns-3 in a program of its own (`make ns3`), behind a pipe (design/0018)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from astrarium.network.ns3.settings import Ns3

if TYPE_CHECKING:
    from astrarium.engine.plan import Graph, NetworkPlan
    from astrarium.engine.plugins.network import Network
    from astrarium.engine.routes import Routes

__all__ = ["Ns3", "make"]


def make(fabric: NetworkPlan, settings: Ns3, graph: Graph | None = None, routes: Routes | None = None) -> Network:
    """A network for one run, over `graph` and by `routes` where there is one, else over the graph of the dims. Raises
    PluginError where the program is not built or does not start."""
    from astrarium.network.ns3.medium import Ns3Network  # only this room starts programs

    return Ns3Network(fabric, settings, graph, routes)
