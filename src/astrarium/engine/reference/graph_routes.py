"""Ways through a graph: the least sum of costs, and a hash where several links begin such ways."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from functools import lru_cache

from astrarium.engine.plan import FIRST_LINK, GivenRoutes, Graph
from astrarium.engine.reference.hop import Hop
from astrarium.engine.reference.traffic import Port

__all__ = ["FAR", "GraphRoutes", "costs_of", "distances", "mix64", "onward", "rows_by_node"]

FAR = 2**63 - 1     # from a node that has no way
MOST = 1024         # destinations whose distances are kept
WORD = 2**64 - 1


def mix64(word: int) -> int:
    """A hash of 64 bits: splitmix64 (Steele, Lea, Flood, OOPSLA 2014)."""
    word = (word + 0x9E3779B97F4A7C15) & WORD
    word = ((word ^ word >> 30) * 0xBF58476D1CE4E5B9) & WORD
    word = ((word ^ word >> 27) * 0x94D049BB133111EB) & WORD
    return word ^ word >> 31


def rows_by_node(nodes: int, ends: Iterable[int]) -> list[list[int]]:
    """Per node the numbers of the links that have it as this end, ascending."""
    rows: list[list[int]] = [[] for _ in range(nodes)]
    for number, node in enumerate(ends):
        rows[node].append(number)
    return rows


def costs_of(graph: Graph) -> list[int]:
    """[links] the cost of each."""
    if graph.cost is None:
        return [1] * graph.source.size
    found: list[int] = graph.cost.tolist()
    return found


def distances(start: int, links: Sequence[Sequence[int]], ends: Sequence[int], costs: Sequence[int]) -> list[int]:
    """Cost between `start` and each node; FAR where there is no way. `links` [nodes] of a node, and their other
    `ends` [links]: those that leave nodes and their targets, or those that come to nodes and their sources."""
    found = [FAR] * len(links)
    found[start] = 0
    reached = [(0, start)]
    while reached:
        far, node = heapq.heappop(reached)
        if far > found[node]:
            continue
        for link in links[node]:
            cost = far + costs[link]
            if cost < found[ends[link]]:
                found[ends[link]] = cost
                heapq.heappush(reached, (cost, ends[link]))
    return found


def onward(links: Sequence[int], ends: Sequence[int], costs: Sequence[int], left: Sequence[int],
           here: int) -> list[int]:
    """Of the `links` out of a node those that begin cheapest ways, and of these the cheapest: inside a host before
    outside. `left` [nodes]: the cost of the way from each, `here` from this one."""
    able = [link for link in links if left[ends[link]] + costs[link] == here]
    least = min([costs[link] for link in able])
    return [link for link in able if costs[link] == least]


class GraphRoutes:
    """The links between two NPUs, looked up as a message asks: distances to a destination are found once, and kept for
    the last destinations only."""

    def __init__(self, graph: Graph, ecmp: int, given: GivenRoutes | None = None) -> None:
        self._ecmp = ecmp
        self._source, self._target, self._cost = graph.source.tolist(), graph.target.tolist(), costs_of(graph)
        self._out, self._in = (rows_by_node(graph.nodes, ends) for ends in (self._source, self._target))
        rows = zip(self._source, self._target, graph.bandwidth.tolist(), graph.latency.tolist(), strict=True)
        self._hops = [Hop((0, source, target, number), bandwidth, latency)
                      for number, (source, target, bandwidth, latency) in enumerate(rows)]
        self._given: dict[tuple[int, int], list[Hop]] = {}
        for *pair, link in () if given is None else zip(given.source.tolist(), given.destination.tolist(),
                                                        given.link.tolist(), strict=True):
            self._given.setdefault((pair[0], pair[1]), []).append(self._hops[link])
        self._to = lru_cache(maxsize=MOST)(
            lambda destination: distances(destination, self._in, self._source, self._cost))

    def between(self, source: int, destination: int) -> list[Hop]:
        """The links in order; none from an NPU to itself."""
        if (source, destination) in self._given:
            return self._given[source, destination]
        left = self._to(destination)
        pair = 0 if self._ecmp == FIRST_LINK else mix64(mix64(self._ecmp) ^ (source << 32 | destination))
        way: list[Hop] = []
        at = source
        while at != destination:
            able = onward(self._out[at], self._target, self._cost, left, left[at])
            link = able[0 if self._ecmp == FIRST_LINK else mix64(pair ^ at) % len(able)]
            way.append(self._hops[link])
            at = self._target[link]
        return way

    def reaches(self, source: int, destination: int) -> bool:
        """Whether there is a way between two nodes."""
        return self._to(destination)[source] != FAR

    def ports(self) -> list[Port]:
        """The names of the links, by number."""
        return [hop.port for hop in self._hops]
