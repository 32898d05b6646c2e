"""What a model of traces learns from: one rank's trace as tokens in an order that keeps dependencies, and its
conditions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from msgspec import Struct

from astrarium.arrays import F64, I32, I64
from astrarium.errors import InputError, TraceError
from astrarium.synthesise.layout import Layout, layout_of
from astrarium.synthesise.tokens import COMM, Token, Told, plain_names
from astrarium.trace.columns import Attr, Columns, Traces
from astrarium.trace.graph import graph_of, ready_order
from astrarium.trace.groups import Groups, group_key
from astrarium.trace.work import Generated, TraceClass
from astrarium.vocab import NodeKind

__all__ = ["VALUES", "Example", "examples_of", "examples_of_generated", "values_of"]

VALUES = ("duration_us", "num_ops", "tensor_size", "comm_size")
AT_ONCE = 1 << 16       # names


class Example(Struct, frozen=True, eq=False):
    """One rank's trace: `token` [nodes] indexes `tokens`; `values` [nodes, VALUES], NaN where the attribute is absent;
    node i waits for `parent[ptr[i]:ptr[i + 1]]`, all of them earlier. `conditions` name the rank's `stage` too."""

    conditions: Mapping[str, float]
    tokens: tuple[Token, ...]
    token: I64
    values: F64
    ptr: I64
    parent: I64


def examples_of(traces: Traces, groups: Groups, conditions: Mapping[str, float]) -> tuple[Example, ...]:
    """One example per pipeline stage of traces that were read. InputError where ranks are not tp * dp * pp, and for
    groups and messages along no axis."""
    layout = layout_of(conditions)
    if layout.ranks != traces.ranks:
        raise InputError("synthesise", f"{traces.ranks} ranks and tp * dp * pp = {layout.ranks}",
                         expected="conditions of these traces")
    members = {group_key(name): found for name, found in groups.items()}
    return tuple(_read(traces, members, conditions, layout, stage) for stage in range(layout.pp))


def _read(traces: Traces, members: Mapping[str, Sequence[int]], conditions: Mapping[str, float], layout: Layout,
          stage: int) -> Example:
    rank = stage * layout.tp * layout.dp
    columns, row = traces.of(rank)
    if not columns.nodes:
        raise InputError("synthesise", f"{traces.sources[rank]} has no nodes", expected="a trace with nodes")
    graph = graph_of(columns)
    order = ready_order(columns, graph)
    if len(order) != columns.nodes:
        raise InputError("synthesise", f"{traces.sources[rank]} cannot run", expected="a trace without cycles")

    def role(node: int, number: int) -> str:
        if columns.type[node] != NodeKind.COMM_COLL:
            return layout.peer(number, rank)
        name = group_key(traces.texts[number]) if number >= 0 else ""
        return layout.role(None if name in ("", "0") else members.get(name), rank)

    comm = columns.comm_node
    kinds = columns.type[comm]
    other = np.where(kinds == NodeKind.COMM_COLL, columns.group[row],
                     np.where(kinds == NodeKind.COMM_SEND, columns.destination[row], columns.source[row]))
    involved = np.where(columns.has(Attr.INVOLVED_DIM)[comm], columns.dims[comm].astype(np.int64), -1)
    told = Told(columns.type, columns.is_cpu_op, *plain_names(_names(columns), columns.nodes), comm,
                columns.comm_type[comm], other, columns.comm_priority[comm], involved, role)
    tokens, token = told.tokens(order)
    waits, parent = _waits(order, graph.ptr, graph.parent)
    values = np.empty((columns.nodes, len(VALUES)))
    values[:, 0] = columns.duration[order]
    for at, attr in enumerate((Attr.NUM_OPS, Attr.TENSOR_SIZE, Attr.COMM_SIZE), 1):
        values[:, at] = getattr(columns, VALUES[at])[order]
        there = columns.has(attr)[order]
        wrong = np.flatnonzero(there & ~((values[:, at] >= 0) & (values[:, at] < np.inf)))
        if wrong.size:
            raise TraceError(traces.sources[rank], f"{VALUES[at]} {values[wrong[0], at]:g}", rank=rank,
                             node=int(columns.node_id[order[wrong[0]]]), expected="a number from 0")
        values[~there, at] = np.nan
    return Example({**conditions, "stage": float(stage)}, tokens, token, values, waits, parent)


def examples_of_generated(made: Generated, conditions: Mapping[str, float]) -> tuple[Example, ...]:
    """One example per pipeline stage of what a generator, or a model, made."""
    layout = layout_of(conditions)
    first: dict[int, TraceClass] = {}
    for trace in sorted(made.classes, key=lambda each: int(each.ranks[0])):
        first.setdefault(int(trace.ranks[0]) // (layout.tp * layout.dp), trace)
    return tuple(_generated(made, trace, conditions, layout, stage) for stage, trace in sorted(first.items()))


def _generated(made: Generated, trace: TraceClass, conditions: Mapping[str, float], layout: Layout,
               stage: int) -> Example:
    rank, nodes = int(trace.ranks[0]), trace.type.size
    if (trace.parent >= np.repeat(np.arange(nodes), np.diff(trace.parent_ptr))).any():
        raise InputError("synthesise", "a node waits for a later one", expected="a trace in an order that can run")
    comm = np.flatnonzero(np.isin(trace.type, COMM))
    slots = np.arange(comm.size) if trace.slot is None else trace.slot
    coll = trace.type[comm] == NodeKind.COMM_COLL

    def role(node: int, number: int) -> str:
        if trace.type[node] != NodeKind.COMM_COLL:
            return layout.peer(number, rank)
        return layout.role(None if number < 0 else made.groups[number].tolist(), rank)

    told = Told(trace.type, trace.is_cpu, *plain_names(map(trace.names or str, range(nodes)), nodes), comm,
                trace.comm_type[comm], np.where(coll, trace.slot_b[0, slots], trace.slot_a[0, slots]),
                trace.priority[comm], trace.involved[comm], role)
    order = np.arange(nodes, dtype=np.int32)
    return Example({**conditions, "stage": float(stage)}, *told.tokens(order), values_of(trace),
                   *_waits(order, trace.parent_ptr, trace.parent))


def values_of(trace: TraceClass) -> F64:
    """[nodes, VALUES] of what was generated, NaN where a kind of node has no such attribute."""
    comp, moved = trace.type == NodeKind.COMP, np.isin(trace.type, COMM)
    return np.stack([trace.duration_us.astype(np.float64), trace.num_ops,
                     np.where(comp | ~moved, trace.tensor_size.astype(np.float64), np.nan),
                     np.where(moved, trace.comm_size.astype(np.float64), np.nan)], axis=1)


def _names(columns: Columns) -> Iterator[str]:
    """Names of all nodes, one after the other."""
    for first in range(0, columns.nodes, AT_ONCE):
        part = slice(first, first + AT_ONCE)
        for start, size in zip(columns.name_offset[part].tolist(), columns.name_size[part].tolist(), strict=True):
            yield columns.data[start:start + size].decode("utf-8", "replace")


def _waits(order: I32, ptr: I64, parent: I32) -> tuple[I64, I64]:
    """`ptr` and `parent` of nodes in that order, each node's parents distinct and ascending; missing ones (-1) go."""
    nodes = order.size
    place = np.empty(nodes, np.int64)
    place[order] = np.arange(nodes)
    edges = np.repeat(place, np.diff(ptr))
    edges *= nodes
    edges += place[parent]
    if parent.size and parent.min() < 0:
        edges = edges[parent >= 0]
    if not (edges[1:] > edges[:-1]).all():
        edges.sort()
        edges = edges[np.append(True, edges[1:] != edges[:-1])]
    child = edges // max(1, nodes)
    waits = np.concatenate([[0], np.cumsum(np.bincount(child, minlength=nodes))]).astype(np.int64)
    child *= nodes
    edges -= child
    return waits, edges
