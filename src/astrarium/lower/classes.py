"""Traces to one column set per class of equal ranks, with everything by index: nodes, parents, groups, peers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from astrarium.arrays import I32, I64, U64
from astrarium.errors import TraceError, nearest
from astrarium.lower.distinct import distinct
from astrarium.lower.node_tables import COMM_TYPE, table
from astrarium.trace import Dependencies, graph_of, group_key, ready_order
from astrarium.trace.columns import Attr, Columns, Traces
from astrarium.trace.memory_ops import ALLOC, FREE, memory_ops
from astrarium.trace.work import TraceClass
from astrarium.vocab import Kernel, NodeKind

__all__ = ["trace_classes"]

_MEMORY = table(256, NodeKind.MEM_LOAD, NodeKind.MEM_STORE)
_USED = COMM_TYPE | _MEMORY | table(256, NodeKind.COMP)


def trace_classes(traces: Traces, group_ids: Sequence[int | str], *,
                  dependencies: Dependencies = "data+ctrl") -> list[TraceClass]:
    """One TraceClass per class of `traces`, nodes by ascending id.

    `group_ids[g]` is the name that collectives use for group g; "" and "0" mean all ranks. `dependencies` is
    "data+ctrl" or "data". Raises TraceError (rank, node, name) for what cannot run: unknown node types, missing or
    wrongly typed attributes, unknown groups, dependencies on absent nodes, cycles, duplicate ids.
    """
    number = {str(name): index for index, name in enumerate(group_ids)}
    return [_class(traces, index, number, dependencies) for index in range(len(traces.classes))]


def _class(traces: Traces, index: int, groups: Mapping[str, int], dependencies: Dependencies) -> TraceClass:
    columns, ranks = traces.classes[index], traces.members(index).astype(np.int32)
    fault = _Fault(traces, columns, int(ranks[0]))
    order = np.argsort(columns.node_id, kind="stable")
    ids = columns.node_id[order]
    fault.where(order[1:][ids[1:] == ids[:-1]], "a node id that another node has too")
    fault.where(np.flatnonzero(columns.type > max(NodeKind)), "a node type that Chakra does not define")
    _check_attributes(columns, fault)
    parent_ptr, parent = _parents(columns, order, ids, dependencies, fault)
    place = np.empty(order.size, dtype=np.int64)
    place[order] = np.arange(order.size)
    comm_order = np.argsort(place[columns.comm_node], kind="stable")
    slot_a, slot_b = _arguments(traces, columns, comm_order, groups, ranks, fault)
    has, kinds = columns.has, columns.type
    ops, tiers = memory_ops(columns, traces.sources[fault.rank], fault.rank), dict[str, Any]()
    if ops is not None:
        space = (ops.op == ALLOC) | (ops.op == FREE)     # takes no time, and no transfer
        kinds = np.where(space, np.uint8(NodeKind.METADATA), kinds)
        tiers = {"tier": np.where(space, np.int32(-1), ops.tier)[order], "source_tier": ops.source[order],
                 "tiers": ops.tiers}
    return TraceClass(
        ranks=ranks, node_id=ids, type=kinds[order], is_cpu=columns.is_cpu_op[order].astype(np.bool_),
        duration_us=columns.duration[order],
        num_ops=np.where(has(Attr.NUM_OPS), columns.num_ops, np.nan)[order],
        tensor_size=columns.tensor_size[order].astype(np.uint64),
        comm_type=np.where(has(Attr.COMM_TYPE), columns.comm_type, -1)[order].astype(np.int32),
        comm_size=columns.comm_size[order],
        involved=np.where(has(Attr.INVOLVED_DIM), columns.dims.astype(np.int64), -1)[order].astype(np.int32),
        priority=columns.comm_priority[order].astype(np.int32),
        parent_ptr=parent_ptr, parent=parent, slot_a=slot_a, slot_b=slot_b,
        sources=traces.sources, names=lambda i: columns.name(int(order[i])),
        operators=cache(lambda: _operators(columns, order)) if columns.is_recorded else None, **tiers)


def _operators(columns: Columns, order: npt.NDArray[np.intp]) -> tuple[I32, tuple[Kernel, ...]]:
    """([nodes] number of a recorded node's kernel, -1 where it is not known; the kernels)."""
    from astrarium.compute.recorded import kernels_of
    from astrarium.profile.launches import launches_of

    node, run = launches_of(columns, "")
    numbers: dict[Kernel, int] = {}
    found = np.full(order.size, -1, np.int32)
    for place, kernel in zip(node.tolist(), kernels_of(run), strict=True):
        if kernel is not None:
            found[place] = numbers.setdefault(kernel, len(numbers))
    return found[order], tuple(numbers)


class _Fault:
    """Raises a TraceError for the first of some nodes of a class."""

    def __init__(self, traces: Traces, columns: Columns, rank: int) -> None:
        self.traces, self.columns, self.rank = traces, columns, rank

    def where(self, nodes: npt.NDArray[np.integer], message: str, expected: str | None = None) -> None:
        """Raise when `nodes` (indexes in file order) is not empty."""
        if len(nodes):
            self.at(int(nodes[0]), message, expected)

    def at(self, node: int, message: str, expected: str | None = None, *, rank: int | None = None,
           did_you_mean: str | None = None) -> None:
        """Raise for one node."""
        who = self.rank if rank is None else rank
        raise TraceError(self.traces.sources[who], message, rank=who, node=int(self.columns.node_id[node]),
                         name=self.columns.name(node), expected=expected, did_you_mean=did_you_mean)


def _check_attributes(columns: Columns, fault: _Fault) -> None:
    kind = columns.type
    comm, memory = COMM_TYPE[kind], _MEMORY[kind]
    needs = ((Attr.COMM_SIZE, comm), (Attr.COMM_TYPE, kind == NodeKind.COMM_COLL), (Attr.TENSOR_SIZE, memory))
    for attr, used in needs:
        fault.where(np.flatnonzero(used & ~columns.has(attr) & ~columns.is_wrong(attr)), f"no {attr.name.lower()}")
    if columns.wrong.any():
        for attr in Attr:
            fault.where(np.flatnonzero(columns.is_wrong(attr) & _USED[kind]), f"{attr.name.lower()} has the wrong type")
    fault.where(np.flatnonzero((columns.comm_size < 0) & comm), "a negative comm_size", "bytes")
    fault.where(np.flatnonzero((columns.tensor_size < 0) & memory), "a negative tensor_size", "bytes")
    limit = np.uint64(2**63 // 10**6)
    fault.where(np.flatnonzero(columns.duration > limit), "a duration beyond 2^63 ps", "at most 106 days")


def _parents(columns: Columns, order: I64, ids: U64, dependencies: Dependencies, fault: _Fault) -> tuple[I64, I32]:
    """Distinct parents of each node by index: parent_ptr [nodes + 1], parent [edges]."""
    nodes = order.size
    place = np.empty(nodes, dtype=np.int64)
    place[order] = np.arange(nodes)
    pairs = []
    kinds = [("data", columns.data_ptr, columns.data_dep)]
    if dependencies == "data+ctrl":
        kinds.append(("control", columns.ctrl_ptr, columns.ctrl_dep))
    for kind, pointer, dep in kinds:
        child = np.repeat(place, np.diff(pointer))
        at = np.minimum(np.searchsorted(ids, dep), max(nodes - 1, 0))
        known = ids[at] == dep if nodes else np.zeros(0, dtype=np.bool_)
        if kind == "data" and not known.all():
            bad = int(np.flatnonzero(~known)[0])
            fault.at(int(order[child[bad]]), f"depends on node {int(dep[bad])}, which the trace does not have")
        pairs.append(child[known] * nodes + at[known])
    edges = distinct(np.concatenate(pairs))[0]
    child, parent = np.divmod(edges, max(nodes, 1))
    if (parent >= child).any():  # a node that waits for a later one
        _refuse_cycles(columns, dependencies, fault)
    pointer = np.zeros(nodes + 1, dtype=np.int64)
    np.cumsum(np.bincount(child, minlength=nodes), out=pointer[1:])
    return pointer, parent.astype(np.int32)


def _refuse_cycles(columns: Columns, dependencies: Dependencies, fault: _Fault) -> None:
    graph = graph_of(columns, dependencies)
    blocked = np.ones(columns.nodes, dtype=np.bool_)
    blocked[ready_order(columns, graph)] = False
    if not blocked.any():
        return
    path, seen = [int(np.argmax(blocked))], dict[int, int]()
    while path[-1] not in seen:
        seen[path[-1]] = len(seen)
        waits_for = graph.parent[graph.ptr[path[-1]]:graph.ptr[path[-1] + 1]].tolist()
        path.append(next(node for node in waits_for if node >= 0 and blocked[node]))
    cycle = path[seen[path[-1]]:]
    shown = " -> ".join(str(int(columns.node_id[node])) for node in cycle[:12]) + (" -> …" if len(cycle) > 12 else "")
    fault.at(cycle[0], f"a dependency cycle, each node waits for the next: {shown}", "no cycle")


def _arguments(traces: Traces, columns: Columns, comm_order: I64, groups: Mapping[str, int], ranks: I32,
               fault: _Fault) -> tuple[I32, I32]:
    """slot_a, slot_b [ranks, comm nodes in node order]: peer and tag, or -1 and group."""
    node = columns.comm_node[comm_order]
    kind = columns.type[node]
    group = _group_numbers(traces, columns, groups, fault)[:, comm_order]
    send, recv = kind == NodeKind.COMM_SEND, kind == NodeKind.COMM_RECV
    tag = columns.tag[:, comm_order]
    peer = np.where(send, columns.destination[:, comm_order], columns.source[:, comm_order])
    own = np.where(send, columns.source[:, comm_order], columns.destination[:, comm_order])
    p2p = send | recv
    if not p2p.any():
        return np.full(group.shape, -1, dtype=np.int32), group.astype(np.int32)
    for bad, message in ((peer < 0, "no peer (comm_dst of a send, comm_src of a receive)"), (tag < 0, "no comm_tag"),
                         ((own >= 0) & (own != ranks[:, None]), "its own end is another rank"),
                         (peer >= traces.ranks, f"its peer is not one of the {traces.ranks} ranks"),
                         (tag > 2**31 - 1, "a comm_tag above 2^31 - 1")):
        hits = np.argwhere(bad & p2p)
        if len(hits):
            fault.at(int(node[hits[0, 1]]), message, rank=int(ranks[hits[0, 0]]))
    slot_a = np.where(p2p, peer, -1).astype(np.int32)
    return slot_a, np.where(p2p, tag, group).astype(np.int32)


def _group_numbers(traces: Traces, columns: Columns, groups: Mapping[str, int], fault: _Fault) -> I64:
    """[ranks, comm nodes]: group index of collectives, -1 for all ranks."""
    text = np.array([groups.get(_plain(name), -1 if _plain(name) in ("", "0") else -2) for name in traces.texts] + [-1],
                    dtype=np.int64)
    number = text[columns.group]
    collective = columns.type[columns.comm_node] == NodeKind.COMM_COLL
    hits = np.argwhere((number == -2) & collective)
    if len(hits):
        row, slot = int(hits[0, 0]), int(hits[0, 1])
        name = traces.texts[int(columns.group[row, slot])]
        rank = int(np.flatnonzero((traces.rank_row == row) & np.isin(traces.rank_class, _index_of(traces, columns)))[0])
        fault.at(int(columns.comm_node[slot]), f"communicator group {name!r} not found", rank=rank,
                 expected="a group of the comm-group file" if groups else "a comm-group file",
                 did_you_mean=nearest(name, groups))
    return number


def _index_of(traces: Traces, columns: Columns) -> int:
    return next(i for i, c in enumerate(traces.classes) if c is columns)


def _plain(name: str) -> str:
    """Group names are numbers written as text: " 007" is group 7."""
    return group_key(name).strip()
