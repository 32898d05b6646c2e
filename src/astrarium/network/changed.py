"""The links that `network.changes` names, by their numbers in the engine."""

from __future__ import annotations

import numpy as np

from astrarium.arrays import I64, Bool
from astrarium.engine.plan import FULL_SPEED, Graph
from astrarium.errors import InputError
from astrarium.fabric.graph import dim_of_links, graph_of
from astrarium.fabric.recognise import matching_links
from astrarium.network.change import Change, gone, which
from astrarium.network.dims import plan_dims
from astrarium.network.planned import built_of, on_graph
from astrarium.network.section import Section

__all__ = ["link_changes"]


def link_changes(network: Section) -> list[tuple[int, int, int]]:
    """(ps, link of the engine, parts per million of full speed) of every change of a link that exists. Raises
    InputError for links that the network has not."""
    return [(round(float(change.at) * 1000), int(number), round(change.speed * FULL_SPEED))
            for place, change in enumerate(network.changes)
            if change.npu is None and not (gone(change) and network.fabric is not None)
            for number in _links(network, change, f"network.changes[{place}]")]


def _links(network: Section, change: Change, path: str) -> I64:
    """The engine's numbers of the links that a change is of."""
    if network.fabric is None:
        return _of_dims(network, change, path)
    built = built_of(network)
    found = built.links(which(change), path)
    if not on_graph(network):
        assert built.dims is not None
        found = matching_links(built.graph, graph_of(built.dims), built.npus)[found]
    return found


def _of_dims(network: Section, change: Change, path: str) -> I64:
    """Of dims: the links between two ends, or of an NPU, and of these those of a dim. An end is an NPU's number, or
    `switch`: the switches of the other end."""
    if change.tier is not None:
        raise InputError(f"{path}.tier", "dims have no tiers", expected="dim")
    dims = plan_dims(network)
    if change.dim is not None and change.dim >= len(dims):
        raise InputError(f"{path}.dim", f"there is no dim {change.dim}", expected=f"0 to {len(dims) - 1}")
    graph = graph_of(dims)
    found = np.ones(graph.source.size, np.bool_)
    if change.link is not None:
        one, two = (_end(network, graph, end, f"{path}.link[{side}]") for side, end in enumerate(change.link))
        found = (one[graph.source] & two[graph.target]) | (two[graph.source] & one[graph.target])
    elif change.nic is not None:
        one = _end(network, graph, change.nic, f"{path}.nic")
        found = one[graph.source] | one[graph.target]
    if change.dim is not None:
        found &= dim_of_links(dims) == change.dim
    if not found.any():
        ends = "of that dim" if change.link is None else f"between {change.link[0]} and {change.link[1]}"
        raise InputError(f"{path}.link", f"there is no link {ends}" + f" in dim {change.dim}" * (
            change.dim is not None and change.link is not None), expected="neighbours in a dim")
    return np.flatnonzero(found)


def _end(network: Section, graph: Graph, end: str | int, path: str) -> Bool:
    """[nodes] those that an end means."""
    found: Bool = np.zeros(graph.nodes, np.bool_)
    if end == "switch" and path.endswith("]"):
        found[network.npus:] = True
        return found
    if not (isinstance(end, int) and 0 <= end < network.npus):
        raise InputError(path, f"there is no {end!r}", expected=f"an NPU, 0 to {network.npus - 1}"
                         + ", or switch" * path.endswith("]"))
    found[end] = True
    return found
