"""What the nodes and links are called on which the engine runs a network: names of a fabric's devices, or of dims."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from astrarium.engine.plan import Dim, Graph, Shape
from astrarium.fabric.graph import graph_of
from astrarium.fabric.recognise import matching_links
from astrarium.network.dims import plan_dims
from astrarium.network.planned import built_of, on_graph
from astrarium.network.section import Section

__all__ = ["link_namer", "node_namer"]


def node_namer(network: Section) -> Callable[[int], str]:
    """The name of a node of the graph that the engine runs on, by its number."""
    if network.fabric is None:
        return _of_dims(plan_dims(network))
    built = built_of(network)
    if on_graph(network):
        return built.name
    assert built.dims is not None
    graph = graph_of(built.dims)
    matching = matching_links(built.graph, graph, built.npus)
    node_of = np.zeros(graph.nodes, np.int64)
    node_of[graph.source[matching]] = built.graph.source
    return lambda node: built.name(int(node_of[node]))


def link_namer(network: Section) -> Callable[[int], str]:
    """The name of a link, by its number in the graph that the engine runs on: where it begins and ends."""
    name, graph = node_namer(network), _graph(network)
    return lambda link: f"{name(int(graph.source[link]))} -> {name(int(graph.target[link]))}"


def _graph(network: Section) -> Graph:
    return built_of(network).graph if network.fabric is not None and on_graph(network) else graph_of(plan_dims(network))


def _of_dims(dims: tuple[Dim, ...]) -> Callable[[int], str]:
    npus = int(np.prod([dim.npus for dim in dims]))

    def name(node: int) -> str:
        at = node - npus
        for number, dim in enumerate(dims):
            switches = npus // dim.npus if dim.shape == Shape.SWITCH and dim.npus > 1 else 0
            if 0 <= at < switches:
                return f"switch {at} of dim {number}"
            at -= switches
        return f"NPU {node}"
    return name
