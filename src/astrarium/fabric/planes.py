"""Parallel switches and cards as one: a message is striped over all of them.

Planes are devices of one name that join the same XPUs and the same further devices, such as the four NVSwitches of a
DGX H100, or two cards of an XPU with their leaf switches. Hardware and communication libraries stripe over them in
small pieces, so that together they are one device with the sum of their links. Spine switches are none: there a
message takes one way.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from astrarium.arrays import I64, Bool
from astrarium.engine.plan import Graph
from astrarium.fabric.contract import Wired

__all__ = ["striped"]

Groups = tuple[tuple[int, ...], ...]
MOST_UNEQUAL = 2.0      # links of planes differ by less
ROUNDED = 1 + 1e-9      # shares that differ by less are equal


def striped(fabric: Wired, name: Callable[[int], str], inside: Bool,
            apart: Collection[int] = ()) -> tuple[Wired, Groups]:
    """The fabric with its planes merged, and which nodes became one. `name` of a node; `inside` [nodes]: those of
    devices that have XPUs; nodes that stay `apart`. Planes are inside, or next to what is inside or to an NPU."""
    graph = fabric.graph
    near = inside | (np.arange(graph.nodes) < fabric.npus)
    able = near.copy()
    able[graph.target[near[graph.source]]] = True
    able[:fabric.npus] = False
    able[list(apart)] = False
    alike = [node for nodes in _groups(_refined(graph, np.where(able, graph.nodes, np.arange(graph.nodes))))
             for node in nodes]
    names: dict[str, int] = {}
    start = np.arange(graph.nodes)
    for node in alike:
        start[node] = graph.nodes + names.setdefault(re.sub(r"\.\d+", "", name(node)), len(names))
    while True:
        kind = _refined(graph, start)
        groups = tuple(_groups(kind))
        unlike = [node for nodes in groups if not _in_step(graph, kind, nodes) for node in nodes]
        if not unlike:
            return (_merged(fabric, groups) if groups else fabric), groups
        start[unlike] = unlike


def _refined(graph: Graph, kind: I64) -> I64:
    """[nodes] kinds divided until nodes of one kind have neighbours of the same kinds at the same latencies."""
    latency = _numbered(graph.latency)[1]
    count = _numbered(kind)[0].size
    while True:
        first = _numbered(graph.source, kind[graph.target], latency)[0]
        words = kind[graph.target[first]].astype(np.uint64) << np.uint64(32) | latency[first].astype(np.uint64)
        sums = np.zeros(graph.nodes, np.uint64)
        np.add.at(sums, graph.source[first], _mixed(words))
        heads, kind = _numbered(kind, sums)
        if heads.size == count:
            return kind
        count = heads.size


def _numbered(*columns: npt.NDArray[Any]) -> tuple[I64, I64]:
    """(index of one of each distinct row, in lexicographic order; number of each row's distinct one)."""
    order = np.lexsort(columns[::-1])
    fresh = np.ones(order.size, np.bool_)
    fresh[1:] = np.any([column[order][1:] != column[order][:-1] for column in columns], axis=0)
    number = np.empty(order.size, np.int64)
    number[order] = np.cumsum(fresh) - 1
    return order[fresh], number


def _mixed(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Hashes of 64 bits (splitmix64). Kinds that are one by chance do not pass `_in_step`."""
    for shift, factor in (30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB):
        words = (words + np.uint64(0x9E3779B97F4A7C15)) * np.uint64(factor)
        words ^= words >> np.uint64(shift)
    return words


def _groups(kind: I64) -> Iterator[tuple[int, ...]]:
    """The nodes of each kind that has several."""
    order = np.argsort(kind, kind="stable")
    bounds = np.flatnonzero(np.diff(kind[order], prepend=-1, append=-1))
    for begin, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        if end - begin > 1:
            yield tuple(order[begin:end].tolist())


def _in_step(graph: Graph, kind: I64, nodes: Sequence[int]) -> bool:
    """Whether no link joins two of the nodes, a message is cut in the same shares at all neighbours, and no share is
    small."""
    rates: list[dict[tuple[int, float], float]] = []
    for node in nodes:
        begin, end = np.searchsorted(graph.source, [node, node + 1])
        rates.append({})
        for target, rate, latency in zip(kind[graph.target[begin:end]].tolist(), graph.bandwidth[begin:end].tolist(),
                                         graph.latency[begin:end].tolist(), strict=True):
            rates[-1][target, latency] = rates[-1].get((target, latency), 0.0) + rate
    own = int(kind[nodes[0]])
    for each in rates[1:]:
        if each.keys() != rates[0].keys() or own in {target for target, _ in each}:
            return False
        shares = [each[key] / rates[0][key] for key in each]
        if max(shares) > min(shares) * ROUNDED or not 1 / MOST_UNEQUAL < min(shares) < MOST_UNEQUAL:
            return False
    return True


def _merged(fabric: Wired, groups: Sequence[Sequence[int]]) -> Wired:
    graph = fabric.graph
    first = np.arange(graph.nodes)
    for nodes in groups:
        first[list(nodes)] = nodes[0]
    kept = np.flatnonzero(first == np.arange(graph.nodes))
    number = np.searchsorted(kept, first)       # [nodes] in the new graph
    source, target = number[graph.source].astype(np.int64), number[graph.target].astype(np.int64)
    many = np.zeros(kept.size, np.bool_)
    many[number[[nodes[0] for nodes in groups]]] = True
    # Links of planes by their ends; each other link by itself.
    alone = np.where(many[source] | many[target], 0, np.arange(1, source.size + 1))
    order = np.lexsort((alone, target, source))
    heads = np.ones(order.size, np.bool_)
    heads[1:] = np.any([each[order][1:] != each[order][:-1] for each in (source, target, alone)], axis=0)
    at = np.flatnonzero(heads)
    link = order[at]
    made = Graph(kept.size, source[link].astype(np.int32), target[link].astype(np.int32),
                 np.add.reduceat(graph.bandwidth[order], at), graph.latency[link], graph.buffer[link],
                 graph.lanes[link])
    node_of = np.where(fabric.node_of < 0, -1, number[fabric.node_of]).astype(np.int32)
    return Wired(made, fabric.npus, fabric.first[kept], node_of, fabric.link_of[link])
