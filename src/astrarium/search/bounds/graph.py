"""The dependency graph of a run, one rank for each program, and lower bounds of the run from it.

Statements that hold for every design that shares the graph:

- *start*: no rank starts a node before the longest chain of nodes in front of it has run, each for its lower bound;
- *end*: once a node ends late on some rank, some rank ends no earlier than the longest chain behind it allows. (Here a
  collective of several programs counts nothing: who ends last could run another program.)
- *lane*: a lane with one slot runs one node at a time. So for any set S of its nodes the run takes at least the
  earliest start of a node of S, the sum over S, and the least chain behind a node of S (Carlier, "The one-machine
  sequencing problem", 1982). Only nodes of S with none of S in front of (behind) them matter for the start (the end).
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct, field

from astrarium.engine.plan import Kind, Lane, Plan
from astrarium.search.expression import Const, Node, make

__all__ = ["Bound", "Chain", "Key", "WorkGraph", "bounds_of", "chain_of", "graph_of", "longest", "shortest_of",
           "tree_of", "walk", "without_collectives"]

MASKS = 1 << 28         # bytes of masks of what is in front of each node, beyond which orders are not looked for
NEAR = 8                # nodes of a lane that one is compared with

Key = tuple[int, ...]       # collectives of a plan, one of which a node takes part in


class Chain(Struct, frozen=True):
    """A chain of nodes: the ns of those that no knob changes, and the number of collectives by key."""

    ns: float = 0.0
    counts: Mapping[Key, int] = field(default_factory=dict)

    def covers(self, other: Chain) -> bool:
        """Whether this chain takes at least as long as `other`, for any times of collectives."""
        return self.ns >= other.ns and all(self.counts.get(key, 0) >= count for key, count in other.counts.items())


class WorkGraph(Struct, frozen=True, eq=False):
    """Nodes of one rank per program, one program after the other; `order` is a topological one."""

    ns: list[float]
    key: list[Key | None]
    alone: list[bool]                # a collective whose groups hold ranks of one program only
    lane: list[tuple[int, int]]      # (program, lane)
    parents: list[list[int]]
    children: list[list[int]]
    order: list[int]
    single: frozenset[tuple[int, int]]       # lanes with one slot


def graph_of(plan: Plan, *, ordered: bool = True) -> WorkGraph:
    """The graph of a lowered design. It has a message between programs only if every rank of the program sends one.
    `ordered`: whether to add the edges that the order of compute lanes implies."""
    ns: list[float] = []
    key: list[Key | None] = []
    alone: list[bool] = []
    lane: list[tuple[int, int]] = []
    first: list[int] = []
    edges: list[tuple[int, int]] = []
    uniform = [bool((plan.program_of[group] == plan.program_of[group[0]]).all()) for group in plan.groups]
    uniform.append(len(plan.programs) == 1)      # -1: all ranks
    for number, program in enumerate(plan.programs):
        start = len(ns)
        first.append(start)
        ranks = np.flatnonzero(plan.program_of == number)
        keys, own = _collectives(plan, ranks, uniform)
        kinds, slots = program.kind.tolist(), program.slot.tolist()
        ns += (program.duration / 1000.0 * (program.kind == Kind.DELAY)).tolist()
        key += [keys[slot] if kind == Kind.COLLECTIVE else None for kind, slot in zip(kinds, slots)]
        alone += [own[slot] if kind == Kind.COLLECTIVE else True for kind, slot in zip(kinds, slots)]
        lane += [(number, each) for each in program.lane.tolist()]
        width = np.diff(program.child_ptr)
        edges += zip((np.repeat(np.arange(width.size), width) + start).tolist(), (program.child + start).tolist())
    edges += _messages(plan, first)
    return _ordered(ns, key, alone, lane, edges,
                    frozenset((number, each) for number in range(len(first))
                              for each in (Lane.COMPUTE, Lane.COMM) if plan.lanes[each] == 1), ordered)


def _collectives(plan: Plan, ranks: np.typing.NDArray[np.int64], uniform: Sequence[bool]
                 ) -> tuple[dict[int, Key], dict[int, bool]]:
    """Slot of a collective -> the collectives in which the program's ranks take part there, and slot -> whether all
    members of their groups run this program."""
    program = plan.programs[int(plan.program_of[ranks[0]])]
    keys, own = {}, {}
    for slot in np.unique(program.slot[program.kind == Kind.COLLECTIVE]).tolist():
        places = plan.slot_ptr[ranks] + slot
        keys[slot] = tuple(np.unique(plan.slot_a[places]).tolist())
        own[slot] = all(uniform[group] for group in np.unique(plan.slot_b[places]).tolist())
    return keys, own


def _messages(plan: Plan, first: Sequence[int]) -> list[tuple[int, int]]:
    """(send, receive) for each send whose receivers, of all ranks of the program, are one node."""
    taken: dict[tuple[int, int, int, int], list[tuple[int, int]]] = {}
    for number, program in enumerate(plan.programs):
        ranks = np.flatnonzero(plan.program_of == number)
        for node in np.flatnonzero(program.kind == Kind.RECV).tolist():
            places = plan.slot_ptr[ranks] + int(program.slot[node])
            for rank, peer, tag in zip(ranks.tolist(), plan.slot_a[places].tolist(), plan.slot_b[places].tolist()):
                taken.setdefault((peer, rank, tag, int(program.size[node])), []).append((number, node))
    found = []
    for number, program in enumerate(plan.programs):
        ranks = np.flatnonzero(plan.program_of == number)
        sent: Counter[tuple[int, int, int, int]] = Counter()
        for node in np.flatnonzero(program.kind == Kind.SEND).tolist():
            places = plan.slot_ptr[ranks] + int(program.slot[node])
            partners = set()
            for rank, peer, tag in zip(ranks.tolist(), plan.slot_a[places].tolist(), plan.slot_b[places].tolist()):
                meeting = (rank, peer, tag, int(program.size[node]))
                waiting = taken.get(meeting, [])
                partners.add(waiting[sent[meeting]] if sent[meeting] < len(waiting) else (-1, -1))
                sent[meeting] += 1
            if len(partners) == 1 and (-1, -1) not in partners:
                (other, receive), = partners
                found.append((first[number] + node, first[other] + receive))
    return found


def _ordered(ns: list[float], key: list[Key | None], alone: list[bool], lane: list[tuple[int, int]],
             edges: Sequence[tuple[int, int]], single: frozenset[tuple[int, int]], ordered: bool) -> WorkGraph:
    """Make the graph with its topological order; of several free nodes the first comes first."""
    parents: list[list[int]] = [[] for _ in ns]
    children: list[list[int]] = [[] for _ in ns]
    for before, after in edges:
        parents[after].append(before)
        children[before].append(after)
    left = [len(each) for each in parents]
    free = [node for node, count in enumerate(left) if not count]
    order: list[int] = []
    while free:
        order.append(heapq.heappop(free))
        for after in children[order[-1]]:
            left[after] -= 1
            if not left[after]:
                heapq.heappush(free, after)
    if ordered:
        _compute_in_order(parents, children, lane, order, single)
    return WorkGraph(ns, key, alone, lane, parents, children, order, single)


def _compute_in_order(parents: list[list[int]], children: list[list[int]], lane: Sequence[tuple[int, int]],
                      order: Sequence[int], single: frozenset[tuple[int, int]]) -> None:
    """Add the edges that the order of a compute lane implies. The first of its free nodes runs first, so a node runs
    before a later one if it is free no later, because all its parents are in front of the later one."""
    if len(order) ** 2 // 8 > MASKS:
        return
    before = [0] * len(order)
    waiting: dict[tuple[int, int], list[int]] = {}
    for node in order:
        for parent in parents[node]:
            before[node] |= before[parent] | 1 << parent
        if lane[node] not in single or lane[node][1] != Lane.COMPUTE:
            continue
        earlier = waiting.setdefault(lane[node], [])
        for other in earlier[:-NEAR - 1:-1]:
            known = before[node] >> other & 1
            if not known and other < node and all(before[node] >> parent & 1 for parent in parents[other]):
                parents[node].append(other)
                children[other].append(node)
                before[node] |= before[other] | 1 << other
        earlier.append(node)


def longest(order: Sequence[int], parents: Sequence[Sequence[int]], time: Sequence[float]
             ) -> tuple[dict[int, float], dict[int, int]]:
    """Node -> time of the longest chain in front of it, and node -> last node of that chain (-1: none)."""
    length, last = dict.fromkeys(order, 0.0), dict.fromkeys(order, -1)
    for node in order:
        for parent in parents[node]:
            if parent in length and (last[node] < 0 or length[parent] + time[parent] > length[node]):
                length[node], last[node] = length[parent] + time[parent], parent
    return length, last


def without_collectives(graph: WorkGraph) -> float:
    """A lower bound of the run (ns) if collectives take no time: its longest chain, or its busiest lane."""
    length, _ = longest(graph.order, graph.parents, graph.ns)
    lanes: dict[tuple[int, int], float] = {}
    for lane, ns in zip(graph.lane, graph.ns):
        lanes[lane] = lanes.get(lane, 0.0) + (ns if lane in graph.single else 0.0)
    return max([length[node] + graph.ns[node] for node in graph.order] + list(lanes.values()), default=0.0)


def walk(last: Mapping[int, int], node: int) -> list[int]:
    """The chain in front of a node, the nearest first."""
    found = []
    while (node := last[node]) >= 0:
        found.append(node)
    return found


def chain_of(graph: WorkGraph, nodes: Sequence[int], every: bool) -> Chain:
    """Make a chain of nodes; `every`: whether to count collectives of several programs."""
    keys = [key for node in nodes if (key := graph.key[node]) is not None and (every or graph.alone[node])]
    return Chain(sum(graph.ns[node] for node in nodes), dict(Counter(keys)))


def shortest_of(chains: Sequence[Chain]) -> tuple[Chain, ...]:
    """The chains that cover no other chain."""
    kept: list[Chain] = []
    for chain in sorted(chains, key=lambda chain: (chain.ns, sum(chain.counts.values()))):
        if not any(chain.covers(other) for other in kept):
            kept.append(chain)
    return tuple(kept)


class Bound(Struct, frozen=True):
    """A lower bound of the run: `fixed`, plus the shortest chain of `front`, plus the shortest of `behind`. In `fixed`
    a collective counts its time at one member."""

    fixed: Chain
    front: tuple[Chain, ...]
    behind: tuple[Chain, ...]


def bounds_of(graph: WorkGraph, least: Mapping[Key, float], own: Mapping[Key, float]) -> list[Bound]:
    """The bounds that are highest for these times of collectives (ns): one per lane, and that of the longest chain."""
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
    """The highest of the bounds (ns), as a tree over the lower bounds of collectives."""
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
    """The nodes with one of `chosen` in front of them."""
    inside, found = set(chosen), set[int]()
    for node in order:
        if any(parent in inside or parent in found for parent in parents[node]):
            found.add(node)
    return found


def _best(nodes: Sequence[int], head: Mapping[int, float], time: Sequence[float], tail: Mapping[int, float]
          ) -> list[int]:
    """The set of nodes with the highest bound, among the sets of all nodes that start at or after a time and have at
    least a certain time behind them."""
    ranked = sorted(nodes, key=lambda node: (-tail[node], node))
    starts, times, tails = (np.array([each[node] for node in ranked]) for each in (head, time, tail))
    best, found = -1.0, ranked
    for low in np.unique(starts):
        values = np.where(starts >= low, low + np.cumsum(times * (starts >= low)) + tails, -1.0)
        last = int(values.argmax())
        if values[last] > best:
            best, found = values[last], [node for node in ranked[:last + 1] if head[node] >= low]
    return found
