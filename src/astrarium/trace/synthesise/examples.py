"""What a model of traces learns from: one trace as tokens in an order that keeps dependencies, and its conditions."""

from __future__ import annotations

import heapq
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from astrarium.errors import InputError
from astrarium.trace.columns import Attr, Columns, Traces
from astrarium.trace.graph import Graph, graph_of, ready_order
from astrarium.trace.groups import Groups, group_key
from astrarium.vocab import NodeKind

__all__ = ["VALUES", "Example", "Token", "example_of", "role_of"]

VALUES = ("duration_us", "num_ops", "tensor_size", "comm_size")
DIGITS = re.compile(r"\d+")
F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, order=True)
class Token:
    """What nodes are told apart by: kind, name without numbers, host or not, operation, and the role of the group."""

    kind: int
    name: str
    host: bool
    op: int
    role: str


@dataclass(frozen=True, eq=False)
class Example:
    """One rank's trace: `token` [nodes] indexes `tokens`; `values` [nodes, VALUES], NaN where the attribute is absent;
    node i waits for `parent[ptr[i]:ptr[i + 1]]`, all of them earlier."""

    conditions: Mapping[str, float]
    tokens: tuple[Token, ...]
    token: I64
    values: F64
    ptr: I64
    parent: I64


def role_of(members: Sequence[int] | None, conditions: Mapping[str, float]) -> str:
    """`all`, or the axis that a group runs along: tp neighbours, dp across them (ranks = tp * dp, tp innermost)."""
    if members is None or len(members) == conditions["ranks"]:
        return "all"
    tp, dp = int(conditions.get("tp", 1)), int(conditions.get("dp", 1))
    steps = set(np.diff(members).tolist())
    if len(members) == tp and steps == {1}:
        return "tp"
    if len(members) == dp and steps == {tp}:
        return "dp"
    raise InputError("synthesise", f"a group of {len(members)} ranks that is no axis of tp {tp} and dp {dp}",
                     expected="groups of neighbours (tp), or across them (dp)")


def example_of(traces: Traces, groups: Groups, conditions: Mapping[str, float], rank: int = 0) -> Example:
    """The trace of one rank. InputError where it sends messages: pipelines are not learned."""
    columns, row = traces.of(rank)
    known = {**conditions, "ranks": float(traces.ranks)}
    members = {group_key(name): found for name, found in groups.items()}
    graph = graph_of(columns)
    if len(ready_order(columns, graph)) != columns.nodes:
        raise InputError("synthesise", f"{traces.sources[rank]} cannot run", expected="a trace without cycles")
    roles = [""] * columns.nodes
    for node, number in zip(columns.comm_node.tolist(), columns.group[row].tolist(), strict=True):
        if columns.type[node] != NodeKind.COMM_COLL:
            raise InputError("synthesise", f"{traces.sources[rank]} has messages", expected="traces of one stage")
        name = group_key(traces.texts[number]) if number >= 0 else ""
        roles[node] = role_of(None if name in ("", "0") else members.get(name), known)
    order = _late(columns, graph, np.array([role == "dp" for role in roles]))
    return _ordered(columns, order, roles, graph.ptr, graph.parent, known)


def _late(columns: Columns, graph: Graph, side: npt.NDArray[np.bool_]) -> npt.NDArray[np.int32]:
    """An order that keeps dependencies, by id, in which nodes of `side` come as late as they can: their place among
    other nodes says little (a bucket of gradients is full when it is full)."""
    left = np.bincount(graph.parent[graph.parent >= 0], minlength=columns.nodes)
    key = np.argsort(np.argsort(columns.node_id, kind="stable")) + np.where(side, columns.nodes, 0)
    heap = [(-int(key[node]), int(node)) for node in np.flatnonzero(left == 0)]
    heapq.heapify(heap)
    ptr, parent, waits, out = graph.ptr.tolist(), graph.parent.tolist(), left.tolist(), []
    while heap:
        _, node = heapq.heappop(heap)
        out.append(node)
        for before in parent[ptr[node]:ptr[node + 1]]:
            waits[before] -= 1
            if not waits[before]:
                heapq.heappush(heap, (-int(key[before]), before))
    return np.array(out[::-1], np.int32)


def _ordered(columns: Columns, order: npt.NDArray[np.int32], roles: Sequence[str], ptr: I64,
             parent: npt.NDArray[np.int32], conditions: Mapping[str, float]) -> Example:
    names, place = columns.names(), np.empty(columns.nodes, np.int64)
    place[order] = np.arange(columns.nodes)
    tokens: dict[Token, int] = {}
    token = np.empty(columns.nodes, np.int64)
    for at, node in enumerate(order.tolist()):
        kind = int(columns.type[node])
        op = int(columns.comm_type[node]) if kind == NodeKind.COMM_COLL else -1
        made = Token(kind, DIGITS.sub("#", names[node]), bool(columns.is_cpu_op[node]), op, roles[node])
        token[at] = tokens.setdefault(made, len(tokens))
    values = np.stack([columns.duration.astype(np.float64), _value(columns, "num_ops", Attr.NUM_OPS),
                       _value(columns, "tensor_size", Attr.TENSOR_SIZE),
                       _value(columns, "comm_size", Attr.COMM_SIZE)], axis=1)[order]
    lists = [sorted({int(place[p]) for p in parent[ptr[node]:ptr[node + 1]].tolist() if p >= 0})
             for node in order.tolist()]
    return Example(conditions, tuple(tokens), token, values,
                   np.cumsum([0, *map(len, lists)]).astype(np.int64),
                   np.array([p for each in lists for p in each], np.int64))


def _value(columns: Columns, name: str, attr: Attr) -> F64:
    return np.where(columns.has(attr), getattr(columns, name).astype(np.float64), np.nan)
