"""Whether links with finite buffers may wait for each other in a circle: a cycle of the channel dependency graph.

A packet that came by link a waits for link b where a way goes from a to b. Without a cycle of such dependencies no
deadlock is possible (Dally and Seitz, IEEE Transactions on Computers C-36(5), 1987). Every NPU may send to every other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from astrarium.engine.plan import FIRST_LINK, Dim, Graph, NetworkPlan, Shape
from astrarium.errors import UnsupportedError

__all__ = ["circle_in", "circle_of"]

I64 = npt.NDArray[np.int64]
PATH = "network.packets.deadlock"
FAR = 2**62


def circle_of(network: NetworkPlan) -> None:
    """Raise UnsupportedError for a network of packets with finite buffers that may deadlock; it names the links."""
    if network.graph is None:
        for number, dim in enumerate(network.dims):
            if network.packets.buffer and _turns_round(dim):
                raise _may(f"the links of dim {number} (a ring of {dim.npus} NPUs, of which packets cross two links "
                           "and more) wait for each other in a circle")
        return
    if not network.packets.buffer and not network.graph.buffer.any():
        return
    circle = circle_in(network)
    if circle:
        ends = ", ".join(f"{link} ({network.graph.source[link]} to {network.graph.target[link]})" for link in circle)
        raise _may(f"links {ends} wait for each other in a circle")


def _may(what: str) -> UnsupportedError:
    return UnsupportedError(PATH, f"finite buffers may deadlock: {what}",
                            expected="allow, or buffers without limit (network.packets.buffer: 0 B)")


def _turns_round(dim: Dim) -> bool:
    """Whether packets cross two links of a ring, in every place of it: dims are crossed in order, so only rings can."""
    return (dim.shape == Shape.RING and dim.npus > 3) or (dim.shape == Shape.RING_ONE_WAY and dim.npus > 2)


def circle_in(network: NetworkPlan) -> list[int]:
    """The links of one cycle of a graph's dependencies, in order; empty where there is none.

    Only links with finite buffers make a packet wait.
    """
    graph = network.graph
    assert graph is not None
    npus = int(np.prod([dim.npus for dim in network.dims]))
    limited = (graph.buffer > 0) | (network.packets.buffer > 0)
    all_ways = network.packets.spray or network.ecmp != FIRST_LINK
    after: dict[int, set[int]] = {}
    given = network.routes
    if given is None and _up_and_down(graph, npus, all_ways):
        return []
    for links in _ways(graph, npus, all_ways):
        for came, going in zip(*_pairs(graph, links), strict=True):
            if limited[came] and limited[going]:
                after.setdefault(came, set()).add(going)
    if given is not None:
        same = (given.source[1:] == given.source[:-1]) & (given.destination[1:] == given.destination[:-1])
        for came, going in zip(given.link[:-1][same].tolist(), given.link[1:][same].tolist(), strict=True):
            if limited[came] and limited[going]:
                after.setdefault(came, set()).add(going)
    return _cycle(after)


def _up_and_down(graph: Graph, npus: int, all_ways: bool) -> bool:
    """Whether all ways go up from the NPUs and then down, as in a fat tree: then there is no cycle."""
    source, target = graph.source.astype(np.int64), graph.target.astype(np.int64)
    level = np.full(graph.nodes, FAR, np.int64)
    level[:npus] = 0
    for distance in range(graph.nodes):
        near = target[(level[source] == distance) & (level[target] == FAR)]
        if not near.size:
            break
        level[near] = distance + 1
    step = level[target] - level[source]
    passes = np.ones(graph.nodes, bool)     # but NPUs that have links with one node only
    ends = np.unique(np.stack([np.concatenate([source, target]), np.concatenate([target, source])]), axis=1)
    passes[:npus] = np.bincount(ends[0], minlength=graph.nodes)[:npus] > 1
    for links in _ways(graph, npus, all_ways):
        if not step[links].all():
            return False
        fell, rises = np.zeros(graph.nodes, bool), np.zeros(graph.nodes, bool)
        fell[target[links[step[links] < 0]]] = True
        rises[source[links[step[links] > 0]]] = True
        if (fell & rises & passes).any():
            return False
    return True


def _ways(graph: Graph, npus: int, all_ways: bool) -> Iterator[I64]:
    """Per destination the links that ways from NPUs to it take."""
    source, target = graph.source.astype(np.int64), graph.target.astype(np.int64)
    cost = np.ones(source.size, np.int64) if graph.cost is None else graph.cost
    for root in _roots(graph, npus):
        left = _distances(graph.nodes, root, (source, target), cost)
        down = np.flatnonzero((left[source] < FAR) & (left[target] + cost == left[source]))
        least = np.full(graph.nodes, FAR, np.int64)
        np.minimum.at(least, source[down], cost[down])
        down = down[cost[down] == least[source[down]]]
        if not all_ways:
            _, first = np.unique(source[down], return_index=True)
            down = down[first]
        used = np.zeros(graph.nodes, bool)
        used[:npus] = True
        taken = np.zeros(source.size, bool)
        for distance in np.unique(left[source[down]])[::-1]:
            now = down[(left[source[down]] == distance) & used[source[down]]]
            taken[now] = True
            used[target[now]] = True
        last = np.flatnonzero((source == root) & (target < npus))
        yield np.concatenate([np.flatnonzero(taken), last if root >= npus else last[:0]])


def _roots(graph: Graph, npus: int) -> list[int]:
    """Per NPU where all links to it come from, a device, or the NPU itself; each once."""
    found: dict[int, None] = {}
    order = np.argsort(graph.target, kind="stable")
    bounds = np.searchsorted(graph.target[order], np.arange(npus + 1))
    for npu in range(npus):
        sources = graph.source[order[bounds[npu]:bounds[npu + 1]]]
        one = sources.size and sources[0] >= npus and bool((sources == sources[0]).all())
        found[int(sources[0]) if one else npu] = None
    return list(found)


def _distances(nodes: int, root: int, ends: tuple[I64, I64], cost: I64) -> I64:
    """[nodes] cost of the way from each to `root`, FAR without one (Bellman and Ford)."""
    left = np.full(nodes, FAR, np.int64)
    left[root] = 0
    changed = np.zeros(nodes, bool)
    changed[root] = True
    while changed.any():
        links = np.flatnonzero(changed[ends[1]])
        before = left.copy()
        np.minimum.at(left, ends[0][links], left[ends[1][links]] + cost[links])
        changed = left < before
    return left


def _pairs(graph: Graph, links: I64) -> tuple[Sequence[int], Sequence[int]]:
    """(came, going): links of which one ends where the other begins."""
    going = links[np.argsort(graph.source[links], kind="stable")]
    at = graph.source[going]
    low, high = (np.searchsorted(at, graph.target[links], side=side) for side in ("left", "right"))
    came = np.repeat(links, high - low)
    offset = np.arange(came.size) - np.repeat(np.cumsum(high - low) - (high - low), high - low)
    following = going[np.repeat(low, high - low) + offset]
    on = graph.source[came] != graph.target[following]      # no shortest way goes back
    return came[on].tolist(), following[on].tolist()


def _cycle(after: dict[int, set[int]]) -> list[int]:
    """A cycle, found by depth first; links in ascending order."""
    done: set[int] = set()
    for start in sorted(after):
        way: list[int] = []
        on: set[int] = set()
        stack: list[tuple[int, Iterator[int]]] = []
        node: int | None = start
        while node is not None or stack:
            if node is not None and node in on:
                return way[way.index(node):]
            if node is not None and node not in done:
                way.append(node)
                on.add(node)
                stack.append((node, iter(sorted(after.get(node, ())))))
            if not stack:
                break
            node = next(stack[-1][1], None)
            if node is None:
                done.add(stack.pop()[0])
                on.discard(way.pop())
    return []
