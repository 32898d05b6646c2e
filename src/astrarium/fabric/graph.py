"""Dims as a graph of nodes and links, and the dims that such a graph has."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from astrarium.arrays import I64
from astrarium.engine.plan import Dim, Graph, Shape

__all__ = ["dim_of_links", "dims_of", "graph_of", "links_of", "plain"]

Links = tuple[I64, I64]     # sources and targets
COLUMNS = ("source", "target", "bandwidth", "latency", "buffer", "lanes")


def graph_of(dims: Sequence[Dim]) -> Graph:
    """The graph of dims: links that leave NPUs by dim, NPU and port, then those out of switches by dim and
    NPU. Every line of a switch dim has its own switch; these are the nodes behind the NPUs. Dims of one NPU have
    no links; two NPUs of a ring have one each way. With `ecmp` FIRST_LINK messages go the ways of the dims.
    """
    npus = int(np.prod([dim.npus for dim in dims]))
    links: list[Links] = []
    down: list[Links] = []
    of: list[Dim] = []
    stride, nodes = 1, npus
    for dim in dims:
        up = links_of(dim, stride, npus, nodes)
        links.append(up)
        if dim.shape == Shape.SWITCH and dim.npus > 1:
            down.append((up[1], up[0]))
            nodes += npus // dim.npus
        of.append(dim)
        stride *= dim.npus
    of += [dim for dim in dims if dim.shape == Shape.SWITCH and dim.npus > 1]
    links += down
    counts = [ends[0].size for ends in links]
    source, target = (np.concatenate([ends[side] for ends in links]).astype(np.int32) for side in (0, 1))
    bandwidth, latency = (np.repeat([getattr(dim, name) for dim in of], counts) for name in ("bandwidth", "latency"))
    return Graph(nodes, source, target, bandwidth, latency, np.zeros(source.size, np.int64),
                 np.ones(source.size, np.int32))


def dim_of_links(dims: Sequence[Dim]) -> I64:
    """[links of `graph_of`] the dim of each."""
    npus = int(np.prod([dim.npus for dim in dims]))
    out = [links_of(dim, 1, npus, npus)[0].size for dim in dims]
    down = [npus if dim.shape == Shape.SWITCH and dim.npus > 1 else 0 for dim in dims]
    numbers = np.arange(len(dims))
    return np.concatenate([np.repeat(numbers, out), np.repeat(numbers, down)])


def dims_of(graph: Graph, npus: int) -> tuple[Dim, ...] | None:
    """The dims, as `plain` writes them, whose `graph_of` has these nodes and links with these numbers; None where no
    dims have it. A graph without links has none."""
    dims = _recognised(graph, npus, 1, 0, npus) if npus > 1 and graph.source.size else None
    if dims is None:
        return None
    made = graph_of(dims)
    same = made.nodes == graph.nodes and all(
        np.array_equal(getattr(made, name), getattr(graph, name)) for name in COLUMNS)
    return dims if same else None


def plain(dims: Sequence[Dim]) -> tuple[Dim, ...]:
    """The dims of more than one NPU; what has two NPUs and no switch is a ring, whatever it was called."""
    return tuple(Dim(Shape.RING, 2, dim.bandwidth, dim.latency) if dim.npus == 2 and dim.shape != Shape.SWITCH else dim
                 for dim in dims if dim.npus > 1)


def links_of(dim: Dim, stride: int, npus: int, devices: int) -> Links:
    """The links of a dim that leave the first `npus` NPUs; its switches are the nodes from `devices` on."""
    n = dim.npus
    npu = np.arange(npus)
    place = (npu // stride) % n
    if n == 1:
        return npu[:0], npu[:0]
    if dim.shape == Shape.SWITCH:
        return npu, devices + npu // (stride * n) * stride + npu % stride
    columns = {Shape.RING: [place + 1, place - 1][:n - 1], Shape.RING_ONE_WAY: [place + 1],
               Shape.MESH: [np.where(place < n - 1, place + 1, -1), place - 1]}.get(dim.shape)
    if dim.shape == Shape.HYPERCUBE:
        columns = [place ^ 1 << bit for bit in range(n.bit_length() - 1)]
    ends = np.tile(np.arange(n), (npus, 1)) if columns is None else np.stack(columns, axis=1)
    kept = ends != place[:, None]
    if dim.shape == Shape.MESH:
        kept = ends >= 0
    source = np.broadcast_to(npu[:, None], ends.shape)[kept]
    return source, source + (ends % n - place[:, None])[kept] * stride


def _recognised(graph: Graph, npus: int, stride: int, at: int, devices: int) -> tuple[Dim, ...] | None:
    """The dims from this stride on, whose links begin with number `at` and whose switches with node `devices`."""
    if stride == npus:
        return ()
    if at >= graph.source.size:
        return None
    bandwidth, latency = float(graph.bandwidth[at]), float(graph.latency[at])
    for n in (n for n in range(2, npus // stride + 1) if (npus // stride) % n == 0):
        for shape in Shape:
            dim = Dim(shape, n, bandwidth, latency)
            if plain([dim]) != (dim,) or (shape == Shape.HYPERCUBE and n & (n - 1)):
                continue
            if not all(_stand_at(graph, at, links_of(dim, stride, some, devices)) for some in (1, npus)):
                continue
            more = npus // n if shape == Shape.SWITCH else 0
            size = links_of(dim, stride, npus, devices)[0].size
            rest = _recognised(graph, npus, stride * n, at + size, devices + more)
            if rest is not None:
                return dim, *rest
    return None


def _stand_at(graph: Graph, at: int, links: Links) -> bool:
    """Whether the graph has these links from number `at` on."""
    end = at + links[0].size
    return bool(np.array_equal(graph.source[at:end], links[0]) and np.array_equal(graph.target[at:end], links[1]))
