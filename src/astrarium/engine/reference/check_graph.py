"""A graph that a message can find its way through: the checks of the compiled core (check_graph.cpp)."""

from __future__ import annotations

import numpy as np

from astrarium.engine.plan import GivenRoutes, Graph, NetworkPlan
from astrarium.engine.reference.check_schedule import array, require, whole
from astrarium.engine.reference.graph_routes import FAR, distances, rows_by_node
from astrarium.errors import UnsupportedError

__all__ = ["check_graph"]

LONGEST = 2**16 - 2     # links of a way
MOST_COST = 2**62       # of a way


def check_graph(network: NetworkPlan, graph: Graph, npus: int, takes_graph: bool) -> None:
    """Raise InternalError for arrays that do not fit each other, UnsupportedError for a graph that is none, that leaves
    NPUs apart, or that the medium (`takes_graph`) does not take."""
    if not takes_graph:
        raise _no(f"{network.backend} has no links of a graph: a graph that is no dims takes contention or fluid")
    require(whole(graph.nodes) and graph.nodes < 2**31 and whole(network.ecmp) and network.ecmp >= -1,
            "graph out of range")
    columns = [array(getattr(graph, name), kind, name) for name, kind in
               (("source", np.int32), ("target", np.int32), ("bandwidth", np.float64), ("latency", np.float64),
                ("buffer", np.int64), ("lanes", np.int32), ("cost", np.int64)) if getattr(graph, name) is not None]
    require(all(column.size == columns[0].size for column in columns), "graph arrays differ in length")
    if not 0 <= graph.nodes - npus <= columns[0].size:
        raise _no(f"a graph of {graph.nodes} nodes and {columns[0].size} links for {npus} NPUs")
    _check_links(graph)
    _check_ways(graph, npus)
    if network.routes is not None:
        _check_routes(graph, network.routes, npus)


def _no(what: str) -> UnsupportedError:
    return UnsupportedError("workload", what)


def _check_links(graph: Graph) -> None:
    """Refuse the first link that is wrong, by its number."""
    ends = [(end >= 0) & (end < graph.nodes) for end in (graph.source, graph.target)]
    wrong = {"of a node that does not exist": ~(ends[0] & ends[1]),
             "its bandwidth is no number above 0": ~((graph.bandwidth > 0) & np.isfinite(graph.bandwidth)),
             "its latency is no number of 0 or more": ~((graph.latency >= 0) & np.isfinite(graph.latency)),
             "its buffer is below 0": graph.buffer < 0,
             "its lanes are below 1": graph.lanes < 1}
    if graph.cost is not None:
        wrong["its cost is below 1 or too much to add up"] = (graph.cost < 1) | (graph.cost > MOST_COST // graph.nodes)
    rows = np.flatnonzero(np.logical_or.reduce(list(wrong.values())))
    if rows.size:
        row = int(rows[0])
        why = next(text for text, bad in wrong.items() if bad[row])
        raise _no(f"link {row} of the graph, from node {graph.source[row]} to {graph.target[row]}: {why}")


def _check_ways(graph: Graph, npus: int) -> None:
    """Refuse NPUs without a link, and two NPUs without a way."""
    source, target = graph.source.tolist(), graph.target.tolist()
    out, into = rows_by_node(graph.nodes, source), rows_by_node(graph.nodes, target)
    for npu in range(npus):
        if not (out[npu] and into[npu]):
            raise _no(f"NPU {npu} has no link {'from' if not out[npu] else 'to'} it in the graph")
    ones = [1] * len(source)
    there, back = (distances(0, links, ends, ones)[:npus] for links, ends in ((out, target), (into, source)))
    for npu in range(npus):
        if FAR in (there[npu], back[npu]):
            ends = (0, npu) if there[npu] == FAR else (npu, 0)
            raise _no(f"the graph has no way from NPU {ends[0]} to NPU {ends[1]}")
    if max(there) + max(back) > LONGEST:
        raise _no("ways of more than 65,534 links through the graph")


def _check_routes(graph: Graph, routes: GivenRoutes, npus: int) -> None:
    """Each given route leads from its source to its destination, and to no node twice."""
    columns = [array(getattr(routes, name), np.int32, name).tolist() for name in ("source", "destination", "link")]
    require(len({len(column) for column in columns}) == 1, "route arrays differ in length")
    pairs: set[tuple[int, int]] = set()
    been: set[int] = set()
    ends, at = (0, 0), -1       # -1: no way has begun

    def refuse(why: str) -> UnsupportedError:
        return _no(f"the route from NPU {ends[0]} to NPU {ends[1]} {why}")
    for source, destination, link in zip(*columns, strict=True):
        if at < 0:
            ends, at, been = (source, destination), source, {source}
            if not (0 <= source < npus and 0 <= destination < npus and source != destination):
                raise refuse("is not between two NPUs")
            if ends in pairs:
                raise refuse("is there twice")
            pairs.add(ends)
        if (source, destination) != ends:
            raise refuse(f"ends at node {at}")
        if not 0 <= link < graph.source.size or graph.source[link] != at:
            raise refuse(f"link {link} does not begin at node {at}")
        at = int(graph.target[link])
        if at in been:
            raise refuse(f"comes to node {at} twice")
        been.add(at)
        at = -1 if at == destination else at
    if at >= 0:
        raise refuse(f"ends at node {at}")
