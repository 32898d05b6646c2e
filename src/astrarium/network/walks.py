"""Cheapest routes through a graph as arrays: one destination at a time, all sources at once (`engine.routes` has the
rule and finds one route at a time)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from astrarium.arrays import I64, U64
from astrarium.engine.plan import FIRST_LINK, Graph
from astrarium.engine.routes import mix64

__all__ = ["FAR", "Costs", "cheapest", "walks"]

FAR = 2**62


class Costs:
    """The ends and costs of a graph's links, as arrays of whole numbers."""

    def __init__(self, graph: Graph) -> None:
        self.nodes = graph.nodes
        self.source, self.target = graph.source.astype(np.int64), graph.target.astype(np.int64)
        self.cost = np.ones(graph.source.size, np.int64) if graph.cost is None else graph.cost


def cheapest(costs: Costs, root: int) -> tuple[I64, I64]:
    """(links that go on from their node to `root` on cheapest routes, ascending; [nodes] cost of the route from each
    node, FAR without one)."""
    source, target, cost = costs.source, costs.target, costs.cost
    left = _distances(costs, root)
    down = np.flatnonzero((left[source] < FAR) & (left[target] + cost == left[source]))
    least = np.full(costs.nodes, FAR, np.int64)
    np.minimum.at(least, source[down], cost[down])
    return down[cost[down] == least[source[down]]], left


def walks(costs: Costs, ecmp: int, root: int, sources: I64) -> Iterator[tuple[I64, I64]]:
    """(links, the link after each) of the routes from `sources`, each another node, to `root`: a hash of `ecmp`, the
    pair and the node chooses among equally cheap links."""
    down, left = cheapest(costs, root)
    down = down[np.argsort(costs.source[down], kind="stable")]
    first = np.searchsorted(costs.source[down], np.arange(costs.nodes + 1))
    at = sources[left[sources] < FAR]
    pair = _mixed(np.uint64(mix64(ecmp if ecmp != FIRST_LINK else 0)) ^ (at.astype(np.uint64) << np.uint64(32)
                                                                        | np.uint64(root)))
    before: I64 | None = None
    while at.size:
        count = first[at + 1] - first[at]
        chosen = np.zeros(at.size, np.int64) if ecmp == FIRST_LINK else (
            _mixed(pair ^ at.astype(np.uint64)) % count.astype(np.uint64)).astype(np.int64)
        link = down[first[at] + chosen]
        if before is not None:
            yield before, link
        at = costs.target[link]
        on = at != root
        at, pair, before = at[on], pair[on], link[on]


def _mixed(words: U64) -> U64:
    """`engine.routes.mix64` of each word."""
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ words >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ words >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    mixed: U64 = words ^ words >> np.uint64(31)
    return mixed


def _distances(costs: Costs, root: int) -> I64:
    """[nodes] cost of the route from each to `root`, FAR without one (Bellman and Ford)."""
    left = np.full(costs.nodes, FAR, np.int64)
    left[root] = 0
    changed = np.zeros(costs.nodes, bool)
    changed[root] = True
    while changed.any():
        links = np.flatnonzero(changed[costs.target])
        before = left.copy()
        np.minimum.at(left, costs.source[links], left[costs.target[links]] + costs.cost[links])
        changed = left < before
    return left
