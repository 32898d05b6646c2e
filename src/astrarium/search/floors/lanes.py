"""Floors of a whole run, from the dependency graph of its ranks.

One rank stands for each program. Statements that hold for every design that shares the graph:

- *start*: no rank starts a node before the longest chain of nodes in front of it has run, each for its floor;
- *end*: once a node ends late on some rank, some rank ends no earlier than the longest chain behind it allows. (Here a
  collective of several programs counts nothing: who ends last could run another program.)
- *lane*: a lane with one slot runs one node at a time. So for any set S of its nodes the run takes at least the
  earliest start of a node of S, the sum over S, and the least chain behind a node of S (Carlier, "The one-machine
  sequencing problem", 1982). Only nodes of S with none of S in front of (behind) them matter for the start (the end).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

from astrarium.search.expression import Const, Node, make
from astrarium.search.floors.work import Chain, Key, WorkGraph, chain_of, longest, shortest_of, walk

__all__ = ["Bound", "bounds_of", "tree_of"]


class Bound(Struct, frozen=True):
    """`fixed`, plus the shortest of the chains of `front`, plus the shortest of those of `behind`; in `fixed`
    collectives count what they take at one member."""

    fixed: Chain
    front: tuple[Chain, ...]
    behind: tuple[Chain, ...]


def bounds_of(graph: WorkGraph, least: Mapping[Key, float], own: Mapping[Key, float]) -> list[Bound]:
    """The bounds that are highest where collectives take this long (ns): one of each lane, one of the longest chain."""
    start = [ns if key is None else least[key] for ns, key in zip(graph.ns, graph.key)]
    time = [ns if key is None else own[key] for ns, key in zip(graph.ns, graph.key)]
    end = [ns if key is None else least[key] if alone else 0.0
           for ns, key, alone in zip(graph.ns, graph.key, graph.alone)]
    head, front = longest(graph.order, graph.parents, start)
    tail, behind = longest(graph.order[::-1], graph.children, end)
    found = []
    for lane in sorted(graph.single):
        nodes = [node for node in graph.order if graph.lane[node] == lane and time[node] > 0]
        if nodes:
            chosen = _best(nodes, head, time, tail)
            later, earlier = (_touched(order, edges, chosen) for order, edges in
                              ((graph.order, graph.parents), (graph.order[::-1], graph.children)))
            found.append(Bound(
                chain_of(graph, chosen, True),
                shortest_of([chain_of(graph, walk(front, node), True) for node in chosen if node not in later]),
                shortest_of([chain_of(graph, walk(behind, node), False) for node in chosen if node not in earlier])))
    if graph.order:
        top = max(graph.order, key=lambda node: (tail[node] + end[node], -node))
        found.append(Bound(Chain(), (Chain(),), (chain_of(graph, [top, *walk(behind, top)], False),)))
    return found


def tree_of(bounds: Sequence[Bound], least: Mapping[Key, Node], own: Mapping[Key, Node]) -> Node:
    """The highest of the bounds (ns), given what collectives take at least (see `CollectiveFloors`)."""
    trees: list[Node] = []
    for bound in bounds:
        tree = make("+", [_tree(bound.fixed, own), *(make("min", [_tree(chain, least) for chain in chains])
                                                     for chains in (bound.front, bound.behind))])
        if tree not in trees:
            trees.append(tree)
    return make("max", trees) if trees else Const(0.0)


def _tree(chain: Chain, cost: Mapping[Key, Node]) -> Node:
    return make("+", [Const(chain.ns), *(make("*", (Const(float(count)), cost[key]))
                                         for key, count in chain.counts.items())])


def _touched(order: Sequence[int], parents: Sequence[Sequence[int]], chosen: Sequence[int]) -> set[int]:
    """Nodes with one of `chosen` in front of them."""
    inside, found = set(chosen), set[int]()
    for node in order:
        if any(parent in inside or parent in found for parent in parents[node]):
            found.add(node)
    return found


def _best(nodes: Sequence[int], head: Mapping[int, float], time: Sequence[float], tail: Mapping[int, float]
          ) -> list[int]:
    """The nodes that start no earlier than at some time, with at least a certain chain behind them, for which the bound
    is highest."""
    ranked = sorted(nodes, key=lambda node: (-tail[node], node))
    starts, times, tails = (np.array([each[node] for node in ranked]) for each in (head, time, tail))
    best, found = -1.0, ranked
    for low in np.unique(starts):
        values = np.where(starts >= low, low + np.cumsum(times * (starts >= low)) + tails, -1.0)
        last = int(values.argmax())
        if values[last] > best:
            best, found = values[last], [node for node in ranked[:last + 1] if head[node] >= low]
    return found
