"""The dims that a graph is, up to the names of its devices and the order of its links."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from astrarium.arrays import F64, I64, Bool
from astrarium.engine.plan import Dim, Graph, Shape
from astrarium.fabric.graph import graph_of, links_of, plain

__all__ = ["inner_dims", "matching_links", "recognised", "same_graph"]


class _Rows(Struct, frozen=True, eq=False):
    """A graph whose devices join NPUs only, each pair of nodes by one link at most: links sorted by where they begin
    and end, and each device by its two lowest NPUs, which no other device has."""

    nodes: int
    npus: int
    key: I64            # [links] source * nodes + target, ascending
    bandwidth: F64
    latency: F64
    order: I64          # [links] their numbers in the graph
    device: I64         # [devices] lowest NPU * npus + second lowest, ascending
    number: I64         # [devices] node

    def find(self, source: I64, target: I64) -> I64:
        """The rows of links; -1 where there is none."""
        return _where(self.key, source * self.nodes + target, np.arange(self.key.size))

    def devices(self, lowest: I64, second: I64) -> I64:
        """The nodes of devices; -1 where there is none."""
        return _where(self.device, lowest * self.npus + second, self.number)


def _where(keys: I64, wanted: I64, values: I64) -> I64:
    if not keys.size:
        return np.full(wanted.shape, -1, np.int64)
    place = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
    return np.where(keys[place] == wanted, values[place], -1)


def same_graph(one: Graph, two: Graph, npus: int) -> bool:
    """Whether two graphs differ in names of devices and order of links only. False where devices join devices."""
    if one.nodes != two.nodes or one.source.size != two.source.size:
        return False
    rows = [_rows(graph, npus) for graph in (one, two)]
    if rows[0] is None or rows[1] is None:
        return False
    first, second = (_by_device(row) for row in (rows[0], rows[1]))
    return all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


def matching_links(one: Graph, two: Graph, npus: int) -> I64:
    """[links of one] the same link's number in the other graph, of two that are the same (`same_graph`)."""
    found = np.zeros(one.source.size, np.int64)
    rows = [_rows(graph, npus) for graph in (one, two)]
    assert rows[0] is not None
    assert rows[1] is not None
    found[rows[0].order[_ranked(rows[0])[1]]] = rows[1].order[_ranked(rows[1])[1]]
    return found


def _by_device(rows: _Rows) -> tuple[I64, F64, F64]:
    """Links with devices numbered by their NPUs."""
    key, order = _ranked(rows)
    return key, rows.bandwidth[order], rows.latency[order]


def _ranked(rows: _Rows) -> tuple[I64, I64]:
    """Keys of the links with devices numbered by their NPUs, ascending, and their rows."""
    number = np.arange(rows.nodes)
    number[rows.number] = rows.npus + np.arange(rows.number.size)
    key = number[rows.key // rows.nodes] * rows.nodes + number[rows.key % rows.nodes]
    order = np.argsort(key)
    return key[order], order


def recognised(graph: Graph, npus: int, hint: Sequence[Dim] = ()) -> tuple[Dim, ...] | None:
    """The dims whose `graph_of` is this graph up to names of devices and order of links; None where there are none.

    With a `hint`, only dims of its shapes and sizes, with the numbers of the graph: several dims may be one graph (two
    rings of two are a hypercube of four). Without, dims with few NPUs come first, then shapes in the order of `Shape`.
    One NPU has no links: it is a switch of one, of 1 byte/ns and 0 ns, over which nothing goes.
    """
    if npus == 1:
        return tuple(hint) or (Dim(Shape.SWITCH, 1, 1.0, 0.0),)
    if not graph.source.size:
        return None
    if hint and int(np.prod([dim.npus for dim in hint])) == npus and same_graph(graph_of(hint), graph, npus):
        return tuple(hint)
    rows = _rows(graph, npus)
    if rows is None:
        return None
    return _hinted(rows, hint) if hint else _from(rows, 1, np.zeros(rows.key.size, np.bool_))


def inner_dims(source: I64, target: I64, bandwidth: F64, latency: F64, npus: int) -> tuple[Dim, ...] | None:
    """The innermost dims, on any number of NPUs, that these links are; None if there are none. Nodes from `npus` on
    join NPUs only."""
    if not source.size:
        return ()
    node = np.unique(np.concatenate([np.arange(npus), source, target]))
    graph = Graph(node.size, np.searchsorted(node, source).astype(np.int32),
                  np.searchsorted(node, target).astype(np.int32), bandwidth, latency,
                  np.zeros(source.size, np.int64), np.ones(source.size, np.int32))
    rows = _rows(graph, npus)
    return None if rows is None else _from(rows, 1, np.zeros(rows.key.size, np.bool_))


def _rows(graph: Graph, npus: int) -> _Rows | None:
    source, target = graph.source.astype(np.int64), graph.target.astype(np.int64)
    key = source * graph.nodes + target
    order = np.argsort(key)
    key = key[order]
    if (key[1:] == key[:-1]).any() or ((source >= npus) & (target >= npus)).any():
        return None
    into = np.flatnonzero(target >= npus)
    into = into[np.lexsort((source[into], target[into]))]
    node, heads, counts = np.unique(target[into], return_index=True, return_counts=True)
    if node.size != graph.nodes - npus or (counts < 2).any():
        return None
    pair = source[into[heads]] * npus + source[into[heads + 1]] if heads.size else heads
    ranked = np.argsort(pair)
    if (pair[ranked][1:] == pair[ranked][:-1]).any():
        return None
    return _Rows(graph.nodes, npus, key, graph.bandwidth[order], graph.latency[order], order, pair[ranked],
                 node[ranked])


def _hinted(rows: _Rows, hint: Sequence[Dim]) -> tuple[Dim, ...] | None:
    """The dims of the hint with the numbers of the graph; None if it is not of these shapes and sizes."""
    found: list[Dim] = []
    used, stride = np.zeros(rows.key.size, np.bool_), 1
    for dim in hint:
        if stride * dim.npus > rows.npus or rows.npus % (stride * dim.npus):
            return None
        found.append(dim)
        for each in plain([dim]):
            made = _dim(rows, each.shape, each.npus, stride)
            if made is None or used[made[1]].any():
                return None
            used[made[1]] = True
            found[-1] = replace(dim, bandwidth=made[0].bandwidth, latency=made[0].latency)
        stride *= dim.npus
    return tuple(found) if used.all() else None


def _from(rows: _Rows, stride: int, used: Bool) -> tuple[Dim, ...] | None:
    """The dims from this stride on, of links that are not `used`, until all links are."""
    if stride == rows.npus or used.all():
        return () if used.all() else None
    for n in (n for n in range(2, rows.npus // stride + 1) if (rows.npus // stride) % n == 0):
        for shape in Shape:
            found = _dim(rows, shape, n, stride)
            if found is None or used[found[1]].any():
                continue
            used[found[1]] = True
            rest = _from(rows, stride * n, used)
            if rest is not None:
                return found[0], *rest
            used[found[1]] = False
    return None


def _dim(rows: _Rows, shape: Shape, n: int, stride: int) -> tuple[Dim, I64] | None:
    """A dim of this shape, and the rows of its links; None where the graph has it not, or has it unequal."""
    if plain([Dim(shape, n, 1.0, 0.0)]) != (Dim(shape, n, 1.0, 0.0),) or (shape == Shape.HYPERCUBE and n & (n - 1)):
        return None
    if shape == Shape.FULLY_CONNECTED and (n - 1) * rows.npus > rows.key.size:
        return None     # before its links are made: n * n of them
    one = np.array([0]), np.array([stride])
    if rows.find(one[0], rows.devices(*one) if shape == Shape.SWITCH else one[1])[0] < 0:
        return None
    source, target = links_of(Dim(shape, n, 1.0, 0.0), stride, rows.npus, rows.npus)
    if shape == Shape.SWITCH:
        line = np.arange(rows.npus // n)
        lowest = line // stride * (stride * n) + line % stride
        device = rows.devices(lowest, lowest + stride)
        if (device < 0).any():
            return None
        target = device[target - rows.npus]
        source, target = np.concatenate([source, target]), np.concatenate([target, source])
    found = rows.find(source.astype(np.int64), target.astype(np.int64))
    if (found < 0).any():
        return None
    bandwidth, latency = rows.bandwidth[found], rows.latency[found]
    if (bandwidth != bandwidth[0]).any() or (latency != latency[0]).any():
        return None
    return Dim(shape, n, float(bandwidth[0]), float(latency[0])), found
