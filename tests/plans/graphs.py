"""Small random graphs of links: trees of switches, rails, rings with chords."""

from __future__ import annotations

import random
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from astrarium.engine.plan import Graph

__all__ = ["Link", "graph_from", "random_graph", "shortest_ways"]

I64 = npt.NDArray[np.int64]
Link = tuple[int, int, float, float]     # from, to, bytes per ns, ns
RATES, LATENCIES = (1.0, 10.0, 12.5, 50.0, 37.3), (0.0, 0.5, 10.0, 500.0)


def graph_from(nodes: int, links: Iterable[Link]) -> Graph:
    """The Graph of these links, in this order."""
    source, target, bandwidth, latency = zip(*links, strict=True)
    count = len(source)
    return Graph(nodes, np.array(source, np.int32), np.array(target, np.int32), np.array(bandwidth), np.array(latency),
                 np.zeros(count, np.int64), np.ones(count, np.int32))


def random_graph(rng: random.Random, npus: int) -> Graph:
    """A graph in which every NPU has a way to every other, its links in any order, of equal costs or others."""
    nodes, cables = rng.choice([_tree, _rails, _chords])(rng, npus)
    equal = (rng.choice(RATES), rng.choice(LATENCIES)) if rng.random() < 0.5 else None
    links = [(*ends, *(equal or (rng.choice(RATES), rng.choice(LATENCIES))))
             for a, b in cables for ends in ((a, b), (b, a))]
    rng.shuffle(links)
    graph = graph_from(nodes, links)
    costs = rng.choice([None, lambda: rng.randint(1, 3), lambda: rng.choice([1, 10**6, 10**12])])
    return graph if costs is None else replace(graph, cost=np.array([costs() for _ in links], np.int64))


def shortest_ways(graph: Graph, source: int, destination: int) -> list[list[int]]:
    """All ways of the least cost that messages may take, as link numbers: at each node over the cheapest of the links
    that begin such ways."""
    cost = np.ones(graph.source.size, np.int64) if graph.cost is None else graph.cost
    left = np.full(graph.nodes, 2**60, np.int64)
    left[destination] = 0
    for _ in range(graph.nodes):
        np.minimum.at(left, graph.source, left[graph.target] + cost)
    ways: list[tuple[int, list[int]]] = [(source, [])]
    while any(node != destination for node, _ in ways):
        ways = [(int(graph.target[link]), [*way, int(link)]) for node, way in ways
                for link in (_onward(graph, cost, left, node) if node != destination else ())] + [
                    (node, way) for node, way in ways if node == destination]
    return [way for _, way in ways]


def _onward(graph: Graph, cost: I64, left: I64, node: int) -> I64:
    able = np.flatnonzero((graph.source == node) & (left[graph.target] + cost == left[node]))
    return able[cost[able] == cost[able].min()]


def _tree(rng: random.Random, npus: int) -> tuple[int, list[tuple[int, int]]]:
    """NPUs on leaf switches, these on one or more spines, some by two cables."""
    radix, spines = rng.randint(1, 4), rng.randint(1, 3)
    leaves = -(-npus // radix)
    cables = [(npu, npus + npu // radix) for npu in range(npus)]
    cables += [(npus + leaf, npus + leaves + spine) for leaf in range(leaves) for spine in range(spines)
               for _ in range(rng.choice([1, 1, 2]))]
    return npus + leaves + spines, cables


def _rails(rng: random.Random, npus: int) -> tuple[int, list[tuple[int, int]]]:
    """A switch per host, and one per place in the hosts."""
    each = rng.choice([n for n in range(1, npus + 1) if npus % n == 0])
    hosts = npus // each
    cables = [(npu, npus + npu // each) for npu in range(npus)] + [(npu, npus + hosts + npu % each)
                                                                   for npu in range(npus)]
    return npus + hosts + each, cables


def _chords(rng: random.Random, npus: int) -> tuple[int, list[tuple[int, int]]]:
    """A ring of NPUs, and cables across."""
    across = [tuple(rng.sample(range(npus), 2)) for _ in range(rng.randint(0, npus))]
    return npus, [(npu, (npu + 1) % npus) for npu in range(npus)] + [(a, b) for a, b in across]
