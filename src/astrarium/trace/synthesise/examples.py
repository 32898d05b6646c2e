"""What a model of traces learns from: one rank's trace as tokens in an order that keeps dependencies, and its
conditions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from astrarium.errors import InputError
from astrarium.trace.columns import Attr, Columns, Traces
from astrarium.trace.graph import graph_of, ready_order
from astrarium.trace.groups import Groups, group_key
from astrarium.trace.synthesise.layout import Layout, layout_of
from astrarium.trace.work import Generated, TraceClass
from astrarium.vocab import NodeKind

__all__ = ["VALUES", "Example", "Token", "examples_of", "examples_of_generated"]

VALUES = ("duration_us", "num_ops", "tensor_size", "comm_size")
DIGITS = re.compile(r"\d+")
COMM = (NodeKind.COMM_COLL, NodeKind.COMM_SEND, NodeKind.COMM_RECV)
F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, order=True)
class Token:
    """What nodes are told apart by: kind, name without numbers, host or not, operation, the role of the group or of
    the peer (see `layout`), priority, and dims that are involved (bits; -1: not said)."""

    kind: int
    name: str
    host: bool
    op: int
    role: str
    priority: int
    involved: int


@dataclass(frozen=True, eq=False)
class Example:
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
    graph = graph_of(columns)
    order = ready_order(columns, graph)
    if len(order) != columns.nodes:
        raise InputError("synthesise", f"{traces.sources[rank]} cannot run", expected="a trace without cycles")
    place = {node: at for at, node in enumerate(columns.comm_node.tolist())}

    def role(node: int) -> str:
        at = place[node]
        if columns.type[node] == NodeKind.COMM_COLL:
            number = int(columns.group[row][at])
            name = group_key(traces.texts[number]) if number >= 0 else ""
            return layout.role(None if name in ("", "0") else members.get(name), rank)
        side = columns.destination if columns.type[node] == NodeKind.COMM_SEND else columns.source
        return layout.peer(int(side[row][at]), rank)

    values = np.stack([columns.duration.astype(np.float64), _value(columns, "num_ops", Attr.NUM_OPS),
                       _value(columns, "tensor_size", Attr.TENSOR_SIZE),
                       _value(columns, "comm_size", Attr.COMM_SIZE)], axis=1)
    names, name = columns.distinct_names()
    involved = np.where(columns.has(Attr.INVOLVED_DIM), columns.dims.astype(np.int64), -1)
    told = Told(columns.type.tolist(), (columns.is_cpu_op != 0).tolist(), columns.comm_type.tolist(),
                columns.comm_priority.tolist(), involved.tolist(), lambda node: names[name[node]], role)
    return _ordered(order.astype(np.int64), told, values, graph.ptr, graph.parent,
                    {**conditions, "stage": float(stage)})


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
    place = dict(zip(comm.tolist(), slots.tolist(), strict=True))
    known: dict[tuple[int, int], str] = {}

    def role(node: int) -> str:
        coll = bool(trace.type[node] == NodeKind.COMM_COLL)
        found = int((trace.slot_b if coll else trace.slot_a)[0, place[node]])
        if (coll, found) not in known:
            if coll:
                known[coll, found] = layout.role(None if found < 0 else made.groups[found].tolist(), rank)
            else:
                known[coll, found] = layout.peer(found, rank)
        return known[coll, found]

    comp, moved = trace.type == NodeKind.COMP, np.isin(trace.type, COMM)
    values = np.stack([trace.duration_us.astype(np.float64), trace.num_ops,
                       np.where(comp | ~moved, trace.tensor_size.astype(np.float64), np.nan),
                       np.where(moved, trace.comm_size.astype(np.float64), np.nan)], axis=1)
    told = Told(trace.type.tolist(), trace.is_cpu.tolist(), trace.comm_type.tolist(), trace.priority.tolist(),
                trace.involved.tolist(), trace.names or str, role)
    return _ordered(np.arange(nodes, dtype=np.int64), told, values, trace.parent_ptr, trace.parent,
                    {**conditions, "stage": float(stage)})


@dataclass(frozen=True)
class Told:
    """What a token is made of, per node; `role` of communication nodes only."""

    kind: Sequence[int]
    host: Sequence[bool]
    op: Sequence[int]
    priority: Sequence[int]
    involved: Sequence[int]
    name: Callable[[int], str]
    role: Callable[[int], str]

    def token(self, node: int, plain: dict[str, str]) -> Token:
        """The token of a node; `plain` remembers names without numbers."""
        text, kind = self.name(node), self.kind[node]
        short = plain.get(text) or plain.setdefault(text, DIGITS.sub("#", text))
        moved = kind in COMM
        return Token(kind, short, self.host[node], self.op[node] if kind == NodeKind.COMM_COLL else -1,
                     self.role(node) if moved else "", self.priority[node] if moved else 0,
                     self.involved[node] if moved else -1)


def _ordered(order: I64, told: Told, values: F64, ptr: I64, parent: npt.NDArray[np.int32],
             conditions: Mapping[str, float]) -> Example:
    place = np.empty(order.size, np.int64)
    place[order] = np.arange(order.size)
    tokens: dict[Token, int] = {}
    plain: dict[str, str] = {}
    token = np.array([tokens.setdefault(told.token(node, plain), len(tokens)) for node in order.tolist()], np.int64)
    waits, listed = ptr.tolist(), place[np.maximum(parent, 0)].tolist()
    good = (parent >= 0).tolist()
    lists = [sorted({listed[at] for at in range(waits[node], waits[node + 1]) if good[at]}) for node in order.tolist()]
    return Example(conditions, tuple(tokens), token, values[order],
                   np.cumsum([0, *map(len, lists)]).astype(np.int64),
                   np.array([p for each in lists for p in each], np.int64))


def _value(columns: Columns, name: str, attr: Attr) -> F64:
    return np.where(columns.has(attr), getattr(columns, name).astype(np.float64), np.nan)
