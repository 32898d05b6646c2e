"""Whether links may wait for each other in a circle: a cycle of the channel dependency graph.

A packet that came by link a waits for link b where a route goes from a to b. Without a cycle of such dependencies no
deadlock is possible (Dally and Seitz, IEEE Transactions on Computers C-36(5), 1987). A link waits where the buffer at
its end is finite (credits), or where that end may pause it (PFC).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from astrarium.arrays import I64, Bool
from astrarium.engine.plan import FIRST_LINK, Dim, Graph, NetworkPlan, Shape
from astrarium.network.walks import FAR, Costs, cheapest, walks

__all__ = ["wait_cycle"]

Pairs = Callable[[], I64]


def wait_cycle(network: NetworkPlan, pausing: bool, pairs: Pairs | None = None) -> list[int]:
    """The nodes of a cycle of links that may wait for each other, in order; empty if no deadlock is possible.

    `pausing`: the end of any link outside hosts may pause it; else links with buffers wait. `pairs`: gives (source,
    destination) nodes of all messages [messages, 2]; None: every NPU may send to every other. Dims are numbered as
    their graph is (`fabric.graph.graph_of`).
    """
    if network.graph is None:
        limited = _pausing(network, pausing, len(network.dims)) | (network.packets.buffer > 0)
        return _round_a_ring(network.dims, limited, pairs) if limited.any() else []
    graph = network.graph
    limited = _pausing(network, pausing, graph.source.size) | (graph.buffer > 0) | (network.packets.buffer > 0)
    if not limited.any():
        return []
    npus = int(np.prod([dim.npus for dim in network.dims]))
    several = network.packets.spray or network.ecmp != FIRST_LINK
    if network.routes is None and _up_and_down(graph, npus, several):
        return []
    cycle = _cycle(_dependencies(graph, _of_all(network, npus, several), limited))
    if cycle and (pairs is not None or (several and not network.packets.spray)):
        every = _every_pair(npus) if pairs is None else pairs()
        cycle = _cycle(_dependencies(graph, _of_pairs(network, every), limited))
    return [int(graph.source[link]) for link in cycle]


def _pausing(network: NetworkPlan, pausing: bool, count: int) -> Bool:
    """[links of the graph, or dims] whether their ends may pause them: not those inside hosts."""
    inside = np.frombuffer(network.packets.inside or bytes(count), np.uint8)
    found: Bool = np.full(count, pausing) & (inside == 0)
    return found


# ------------------------------------------------------------ dims
def _round_a_ring(dims: Sequence[Dim], limited: Bool, pairs: Pairs | None) -> list[int]:
    """The NPUs of a ring of which each link has packets that cross the next one too. Dims are crossed in order, so
    that links of other shapes never wait in a circle."""
    stride = 1
    every: I64 | None = None
    for dim, waits in zip(dims, limited.tolist(), strict=True):
        if waits and _turns_round(dim):
            if pairs is None:
                return list(range(0, dim.npus * stride, stride))
            every = pairs() if every is None else every
            first = _line_all_round(dim, stride, every)
            if first >= 0:
                return [first + place * stride for place in range(dim.npus)]
        stride *= dim.npus
    return []


def _turns_round(dim: Dim) -> bool:
    """Whether packets cross two links of a ring, from each place of it."""
    return (dim.shape == Shape.RING and dim.npus > 3) or (dim.shape == Shape.RING_ONE_WAY and dim.npus > 2)


def _line_all_round(dim: Dim, stride: int, pairs: I64) -> int:
    """The first NPU of a line of a ring dim of which every link has packets that cross the next one too; -1: none."""
    n, (source, target) = dim.npus, pairs.T
    start, end = source // stride % n, target // stride % n
    ahead = (end - start) % n
    back = np.zeros(ahead.size, np.bool_) if dim.shape == Shape.RING_ONE_WAY else n - ahead < ahead
    hops = np.where(back, n - ahead, ahead)
    line = source // (stride * n) * stride + target % stride
    size = int(line.max(initial=0) + 1)
    covered = np.zeros((size, 2, 2 * n + 1), np.int64)
    for way, chosen in enumerate((~back & (hops > 1), back & (hops > 1))):
        at = start[chosen] if way == 0 else (n - start[chosen]) % n     # the links before the last one, from here on
        np.add.at(covered, (line[chosen], way, at), 1)
        np.add.at(covered, (line[chosen], way, at + hops[chosen] - 1), -1)
    count = covered.cumsum(axis=2)
    whole = np.flatnonzero((count[:, :, :n] + count[:, :, n:2 * n] > 0).all(axis=2).any(axis=1))
    return int(whole[0] // stride * stride * n + whole[0] % stride) if whole.size else -1


# ------------------------------------------------------------ graphs
def _every_pair(npus: int) -> I64:
    source, target = np.divmod(np.arange(npus * npus), npus)
    pairs: I64 = np.stack([source, target], axis=1)[source != target]
    return pairs


def _of_all(network: NetworkPlan, npus: int, several: bool) -> Iterator[tuple[I64, I64]]:
    """Dependencies (came, going) of the routes between all NPUs; where `several` begin equally cheap ones, of all."""
    assert network.graph is not None
    for links in _ways(network.graph, npus, several):
        yield _followed(network.graph, links)
    yield from _given(network, None)


def _of_pairs(network: NetworkPlan, pairs: I64) -> Iterator[tuple[I64, I64]]:
    """Dependencies (came, going) of the routes that messages of these pairs take."""
    graph = network.graph
    assert graph is not None
    yield from _given(network, pairs)
    if network.routes is not None:
        known = np.unique(_key(network.routes.source, network.routes.destination))
        pairs = pairs[~np.isin(_key(*pairs.T), known)]
    order = np.argsort(pairs[:, 1], kind="stable")
    roots, first = np.unique(pairs[order, 1], return_index=True)
    costs = Costs(graph)
    for root, sources in zip(roots.tolist(), np.split(pairs[order, 0], first)[1:], strict=True):
        if network.packets.spray:
            yield _followed(graph, _reached(graph, *cheapest(costs, root), sources))
        else:
            yield from walks(costs, network.ecmp, root, np.unique(sources[sources != root]))


def _given(network: NetworkPlan, pairs: I64 | None) -> Iterator[tuple[I64, I64]]:
    """Dependencies of given routes: of all, or of those of some pairs."""
    given = network.routes
    if given is None:
        return
    key = _key(given.source, given.destination)
    same = key[1:] == key[:-1]
    if pairs is not None:
        same &= np.isin(key[1:], _key(*pairs.T))
    yield given.link[:-1][same].astype(np.int64), given.link[1:][same].astype(np.int64)


def _key(source: npt.ArrayLike, destination: npt.ArrayLike) -> I64:
    return np.asarray(source, np.int64) << 32 | np.asarray(destination, np.int64)


def _dependencies(graph: Graph, found: Iterator[tuple[I64, I64]], limited: Bool) -> tuple[I64, I64]:
    """(came, going) of links that may wait, each once."""
    links, many = graph.source.size, 1 << 22
    keys, count = [np.zeros(0, np.int64)], 0
    for came, going in found:
        waits = limited[came] & limited[going]
        keys.append(came[waits] * links + going[waits])
        count += keys[-1].size
        if count > many:
            keys = [_once(keys)]
            count = 0
    every = _once(keys)
    return every // links, every % links


def _once(keys: Sequence[I64]) -> I64:
    """Each key once, ascending. (NumPy's unique hashes, and takes 20 times as long.)"""
    every = np.sort(np.concatenate(keys))
    return every[np.r_[True, every[1:] != every[:-1]]] if every.size else every


def _up_and_down(graph: Graph, npus: int, several: bool) -> bool:
    """Whether all routes go up from the NPUs and then down, as in a fat tree: then there is no cycle."""
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
    for links in _ways(graph, npus, several):
        if not step[links].all():
            return False
        fell, rises = np.zeros(graph.nodes, bool), np.zeros(graph.nodes, bool)
        fell[target[links[step[links] < 0]]] = True
        rises[source[links[step[links] > 0]]] = True
        if (fell & rises & passes).any():
            return False
    return True


def _ways(graph: Graph, npus: int, several: bool) -> Iterator[I64]:
    """Per destination the links that routes from NPUs to it take."""
    source, target = graph.source, graph.target
    costs, everyone = Costs(graph), np.arange(npus)
    for root in _roots(graph, npus):
        down, left = cheapest(costs, root)
        if not several:
            _, first = np.unique(source[down], return_index=True)
            down = down[first]
        last = np.flatnonzero((source == root) & (target < npus))
        yield np.concatenate([_reached(graph, down, left, everyone), last if root >= npus else last[:0]])


def _reached(graph: Graph, down: I64, left: I64, sources: I64) -> I64:
    """Of the links `down` to a destination those that messages from `sources` may take; `left`: [nodes] cost to it."""
    source, target = graph.source, graph.target
    used = np.zeros(graph.nodes, bool)
    used[sources] = True
    taken = np.zeros(source.size, bool)
    for distance in np.unique(left[source[down]])[::-1]:
        now = down[(left[source[down]] == distance) & used[source[down]]]
        taken[now] = True
        used[target[now]] = True
    return np.flatnonzero(taken)


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


def _followed(graph: Graph, links: I64) -> tuple[I64, I64]:
    """(came, going): links of which one ends where the other begins."""
    going = links[np.argsort(graph.source[links], kind="stable")]
    at = graph.source[going]
    low, high = (np.searchsorted(at, graph.target[links], side=side) for side in ("left", "right"))
    came = np.repeat(links, high - low)
    offset = np.arange(came.size) - np.repeat(np.cumsum(high - low) - (high - low), high - low)
    following = going[np.repeat(low, high - low) + offset]
    on = graph.source[came] != graph.target[following]      # no shortest route goes back
    return came[on], following[on]


def _cycle(dependencies: tuple[I64, I64]) -> list[int]:
    """The links of a cycle in order, which begins at the lowest of them; empty if there is none."""
    came, going = dependencies
    while came.size:
        on = np.isin(going, came)
        if on.all():
            break
        came, going = came[on], going[on]
    if not came.size:
        return []
    first = np.unique(came, return_index=True)
    following = dict(zip(first[0].tolist(), going[first[1]].tolist(), strict=True))
    way = [int(came[0])]
    while following[way[-1]] not in way:
        way.append(following[way[-1]])
    way = way[way.index(following[way[-1]]):]
    lowest = way.index(min(way))
    return way[lowest:] + way[:lowest]
