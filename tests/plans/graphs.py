"""Small random graphs of links: trees of switches, rails, rings with chords."""

from __future__ import annotations

import random
from collections.abc import Iterable

import numpy as np

from astrarium.engine.plan import Graph

__all__ = ["Link", "graph_from", "random_graph", "shortest_ways"]

Link = tuple[int, int, float, float]     # from, to, bytes per ns, ns
RATES, LATENCIES = (1.0, 10.0, 12.5, 50.0, 37.3), (0.0, 0.5, 10.0, 500.0)


def graph_from(nodes: int, links: Iterable[Link]) -> Graph:
    """The Graph of these links, in this order."""
    source, target, bandwidth, latency = zip(*links, strict=True)
    count = len(source)
    return Graph(nodes, np.array(source, np.int32), np.array(target, np.int32), np.array(bandwidth), np.array(latency),
                 np.zeros(count, np.int64), np.ones(count, np.int32))


def random_graph(rng: random.Random, npus: int) -> Graph:
    """A graph in which every NPU has a way to every other, its links in any order."""
    nodes, cables = rng.choice([_tree, _rails, _chords])(rng, npus)
    equal = (rng.choice(RATES), rng.choice(LATENCIES)) if rng.random() < 0.5 else None
    links = [(*ends, *(equal or (rng.choice(RATES), rng.choice(LATENCIES))))
             for a, b in cables for ends in ((a, b), (b, a))]
    rng.shuffle(links)
    return graph_from(nodes, links)


def shortest_ways(graph: Graph, source: int, destination: int) -> list[list[int]]:
    """All ways of the fewest links, as link numbers."""
    ways: list[tuple[int, list[int]]] = [(source, [])]
    for _ in range(graph.nodes):
        ways = [(int(graph.target[link]), [*way, link]) for node, way in ways
                for link in np.flatnonzero(graph.source == node).tolist()]
        found = [way for node, way in ways if node == destination]
        if found:
            return found
    return []


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
