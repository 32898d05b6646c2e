"""From expanded edges to the engine's graph: free links join their ends, what no way crosses goes (design/0016)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.arrays import I32, I64, Bool
from astrarium.engine.connected import connected
from astrarium.engine.plan import Graph
from astrarium.errors import InputError
from astrarium.fabric.expand import Expanded
from astrarium.fabric.numbers import FREE, Wires

__all__ = ["Wired", "relevant", "wired", "without_links"]


class Wired(Struct, frozen=True, eq=False):
    """The engine's graph of a fabric, and what its nodes and links are in the file.

    `first` [nodes of the graph] is the first node of the file that became it, `node_of` [nodes of the file] the node of
    the graph, -1 for one that went. `link_of` [links of the graph] numbers the link names of the file.
    """

    graph: Graph
    npus: int
    first: I64
    node_of: I32
    link_of: I32


def relevant(fabric: Expanded, npus: I64) -> Bool:
    """[edges] those that may lie on a way between `npus` (nodes of the file). Raises InputError for NPUs apart."""
    where = connected(fabric.nodes, fabric.source, fabric.target)
    apart = np.flatnonzero(where[npus] != where[npus[0]])
    if apart.size:
        one, two = (fabric.name(int(npus[place])) for place in (0, apart[0]))
        raise InputError("edges", f"there is no way from {one} to {two}: the XPUs are in "
                         f"{np.unique(where[npus]).size:,} parts", expected="a fabric that joins all its XPUs")
    is_npu = np.zeros(fabric.nodes, np.bool_)
    is_npu[npus] = True
    near = where[fabric.source] == where[npus[0]]
    kept = np.zeros(near.size, np.bool_)
    kept[near] = _on_ways(fabric.source[near], fabric.target[near], is_npu)
    return kept


def wired(fabric: Expanded, on_ways: Bool, wires: Wires, npus: I64, path: str) -> Wired:
    """The graph in which `npus` (nodes of the file) are NPUs 0, 1, ... `on_ways` [edges]: those that count. Raises
    InputError where free links would make one NPU of two."""
    where = _merged(fabric, on_ways, wires, npus, path)
    bandwidth = wires.bandwidth[fabric.link]
    source, target = where[fabric.source], where[fabric.target]
    kept = on_ways & (bandwidth != FREE) & (source != target)
    source, target, link = source[kept], target[kept], fabric.link[kept].astype(np.int64)
    is_npu = np.zeros(fabric.nodes, np.bool_)
    is_npu[where[npus]] = True
    kept = _on_ways(source, target, is_npu)
    source, target, link = source[kept], target[kept], link[kept]
    return _graph(fabric, wires, where, npus, (source, target, link))


def _graph(fabric: Expanded, wires: Wires, where: I64, npus: I64, edges: tuple[I64, I64, I64]) -> Wired:
    """NPUs first, then the other nodes in the order of the file; links ordered by where they begin and end."""
    source, target, link = edges
    used = np.zeros(fabric.nodes, np.bool_)
    used[source] = used[target] = True
    used[where[npus]] = False
    others = np.flatnonzero(used)
    number = np.full(fabric.nodes, -1, np.int32)
    number[where[npus]] = np.arange(npus.size)
    number[others] = npus.size + np.arange(others.size)
    begin = np.concatenate([number[source], number[target]])
    end = np.concatenate([number[target], number[source]])
    link = np.concatenate([link, link])
    order = np.lexsort((np.arange(begin.size), end, begin))
    begin, end, link = begin[order], end[order], link[order]
    graph = Graph(npus.size + others.size, begin.astype(np.int32), end.astype(np.int32), wires.bandwidth[link],
                  wires.latency[link], np.zeros(begin.size, np.int64), np.ones(begin.size, np.int32))
    return Wired(graph, npus.size, np.concatenate([npus, others]), number[where].astype(np.int32),
                 link.astype(np.int32))


def _merged(fabric: Expanded, on_ways: Bool, wires: Wires, npus: I64, path: str) -> I64:
    """[nodes] the lowest node that each is one with, over free links."""
    free = on_ways & (wires.bandwidth[fabric.link] == FREE)
    where = connected(fabric.nodes, fabric.source[free], fabric.target[free])
    at = where[npus]
    order = np.argsort(at, kind="stable")
    twice = np.flatnonzero(at[order][1:] == at[order][:-1])
    if twice.size:
        one, two = int(npus[order[twice[0]]]), int(npus[order[twice[0] + 1]])
        over = _free_between(fabric, free, one, two)
        raise InputError(f"{path}.links.{over}.bandwidth", f"is free: {fabric.name(one)} and {fabric.name(two)} would "
                         "be one NPU", expected="the bandwidth and the latency of links on the way between them")
    return where


def _free_between(fabric: Expanded, free: Bool, one: int, two: int) -> str:
    """The first link of a way over free links."""
    near: dict[int, list[tuple[int, int]]] = {}
    for a, b, link in zip(*(each[free].tolist() for each in (fabric.source, fabric.target, fabric.link)), strict=True):
        near.setdefault(a, []).append((b, link))
        near.setdefault(b, []).append((a, link))
    came, queue = {two: -1}, [two]
    for node in queue:
        for other, link in near.get(node, ()):
            if other not in came:
                came[other] = link
                queue.append(other)
    return fabric.links[came[one]].name


def _on_ways(source: I64, target: I64, is_npu: Bool) -> Bool:
    """[edges] those that are left once nodes with one neighbour, which are no NPU, have gone again and again."""
    key = np.minimum(source, target) * np.int64(is_npu.size) + np.maximum(source, target)
    pairs, pair = np.unique(key, return_inverse=True)
    return ~_peeled(np.stack(np.divmod(pairs, is_npu.size)), is_npu)[pair.reshape(-1)]


def _peeled(ends: I64, is_npu: Bool) -> Bool:
    """[neighbours] those of nodes that go. `ends` [2, neighbours]: each two nodes once. Steps cost what goes."""
    gone = np.zeros(ends.shape[1], np.bool_)
    degree = np.bincount(ends.reshape(-1), minlength=is_npu.size)
    left = np.zeros(is_npu.size, np.int64)      # exclusive or of the numbers of neighbours: of one, its number
    for side in ends:
        np.bitwise_xor.at(left, side, np.arange(gone.size))
    leaves = np.flatnonzero((degree == 1) & ~is_npu)
    while leaves.size:
        going = np.sort(left[leaves])
        going = going[np.r_[True, going[1:] != going[:-1]]]
        gone[going] = True
        for side in ends:
            np.subtract.at(degree, side[going], 1)
            np.bitwise_xor.at(left, side[going], going)
        touched = ends[:, going].reshape(-1)
        leaves = touched[(degree[touched] == 1) & ~is_npu[touched]]
    return gone


def without_links(fabric: Wired, dead: npt.NDArray[np.bool_], name: Callable[[int], str]) -> Wired:
    """Remove the `dead` links [links of the graph]; nodes stay. `name` gives the name of a node of the graph. Raises
    InputError if the NPUs are no longer connected."""
    graph = fabric.graph
    kept = ~dead
    where = connected(graph.nodes, graph.source[kept].astype(np.int64), graph.target[kept].astype(np.int64))
    apart = np.flatnonzero(where[:fabric.npus] != where[0])
    if apart.size:
        raise InputError("network.changes", f"without the dead links there is no way from {name(0)} to "
                         f"{name(int(apart[0]))}", expected="links that leave a way")
    columns = (getattr(graph, each)[kept] for each in ("source", "target", "bandwidth", "latency", "buffer", "lanes"))
    return Wired(Graph(graph.nodes, *columns), fabric.npus, fabric.first, fabric.node_of, fabric.link_of[kept])
