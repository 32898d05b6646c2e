"""Routes through a graph: the least sum of costs, and a hash where several links begin such routes."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache

from astrarium.engine.plan import FIRST_LINK, GivenRoutes, Graph
from astrarium.errors import UnsupportedError

__all__ = ["FAR", "Routes", "mix64"]

FAR = 2**63 - 1     # from a node that has no route
CACHED = 1024       # nodes whose distances are cached
WORD = 2**64 - 1


def mix64(word: int) -> int:
    """A hash of 64 bits: splitmix64 (Steele, Lea, Flood, OOPSLA 2014)."""
    word = (word + 0x9E3779B97F4A7C15) & WORD
    word = ((word ^ word >> 30) * 0xBF58476D1CE4E5B9) & WORD
    word = ((word ^ word >> 27) * 0x94D049BB133111EB) & WORD
    return word ^ word >> 31


class Routes:
    """The cheapest routes of a graph, found when they are first asked for.

    `ecmp`: FIRST_LINK, or the seed of the hash that chooses among links (`NetworkPlan.ecmp`). `given`: routes that
    some pairs of NPUs take instead. `dead`: links that no route takes.
    """

    def __init__(self, graph: Graph, ecmp: int = FIRST_LINK, given: GivenRoutes | None = None,
                 dead: Collection[int] = ()) -> None:
        self._ecmp = ecmp
        self.source: list[int] = graph.source.tolist()     # [links]
        self.target: list[int] = graph.target.tolist()
        self._cost: list[int] = [1] * len(self.source) if graph.cost is None else graph.cost.tolist()
        self._out, self._in = (_links_by_node(graph.nodes, ends, dead) for ends in (self.source, self.target))
        self._given: dict[tuple[int, int], list[int]] = {}
        for source, destination, link in () if given is None else zip(
                given.source.tolist(), given.destination.tolist(), given.link.tolist(), strict=True):
            self._given.setdefault((source, destination), []).append(link)
        self._given = {pair: links for pair, links in self._given.items() if not dead or set(links).isdisjoint(dead)}
        self._to = lru_cache(maxsize=CACHED)(lambda node: _distances(node, self._in, self.source, self._cost))
        self._from = lru_cache(maxsize=CACHED)(lambda node: _distances(node, self._out, self.target, self._cost))

    def distances_to(self, node: int) -> list[int]:
        """[nodes] cost of the cheapest route from each node to `node`; FAR where there is none."""
        return self._to(node)

    def distances_from(self, node: int) -> list[int]:
        """[nodes] cost of the cheapest route from `node` to each node; FAR where there is none."""
        return self._from(node)

    def onward(self, node: int, destination: int) -> list[int]:
        """The links out of `node` that begin cheapest routes to another node, and of these the cheapest: inside a host
        before outside. Raises UnsupportedError if there is no route."""
        left = self._to(destination)
        if left[node] == FAR:
            raise UnsupportedError("workload", f"the graph has no route from node {node} to node {destination}")
        able = [link for link in self._out[node] if left[self.target[link]] + self._cost[link] == left[node]]
        least = min([self._cost[link] for link in able])
        return [link for link in able if self._cost[link] == least]

    def is_given(self, source: int, destination: int) -> bool:
        """Whether the route between two NPUs is one of those given."""
        return (source, destination) in self._given

    def reaches(self, node: int, destination: int) -> bool:
        """Whether there is a route from a node."""
        return self._to(destination)[node] != FAR

    def next(self, at: int, source: int, destination: int) -> int:
        """The link by which a message between two nodes leaves a node: that of its given route, if this comes there."""
        for link in self._given.get((source, destination), ()):
            if self.source[link] == at:
                return link
        able = self.onward(at, destination)
        if self._ecmp == FIRST_LINK:
            return able[0]
        return able[mix64(mix64(mix64(self._ecmp) ^ (source << 32 | destination)) ^ at) % len(able)]

    def between(self, source: int, destination: int) -> list[int]:
        """The links from one node to another in order, by number; none from a node to itself."""
        if (source, destination) in self._given:
            return self._given[source, destination]
        pair = 0 if self._ecmp == FIRST_LINK else mix64(mix64(self._ecmp) ^ (source << 32 | destination))
        found: list[int] = []
        at = source
        while at != destination:
            able = self.onward(at, destination)
            found.append(able[0 if self._ecmp == FIRST_LINK else mix64(pair ^ at) % len(able)])
            at = self.target[found[-1]]
        return found


def _links_by_node(nodes: int, ends: Iterable[int], dead: Collection[int]) -> list[list[int]]:
    """Per node the numbers of the links that have it as this end, ascending, but for `dead` ones."""
    links: list[list[int]] = [[] for _ in range(nodes)]
    for number, node in enumerate(ends):
        if number not in dead:
            links[node].append(number)
    return links


def _distances(start: int, links: Sequence[Sequence[int]], ends: Sequence[int], costs: Sequence[int]) -> list[int]:
    """Cost between `start` and each node by Dijkstra's algorithm. `links` [nodes] of a node, and their other
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
