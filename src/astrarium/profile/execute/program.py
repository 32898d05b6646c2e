"""What one rank of a trace does, as lists: kinds, durations, who waits for whom, the order of collectives."""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from astrarium.errors import InputError
from astrarium.trace.columns import Attr, Traces
from astrarium.trace.graph import graph_of, ready_order
from astrarium.trace.groups import group_key, groups_of
from astrarium.trace.node import decode_metadata
from astrarium.vocab import CommOp, NodeKind

__all__ = ["Message", "Program", "program"]

LANELESS = "profiled"      # such traces hold the order on every stream and thread as dependencies


class Message(Struct, frozen=True):
    """One communication: `op` None for sends and receives, whose `peer` is a rank; `group` () for all ranks."""

    op: CommOp | None
    size: int
    group: tuple[int, ...]
    peer: int = -1
    tag: int = 0
    sends: bool = False


class Program(Struct, frozen=True):
    """The nodes of a rank; lists are [nodes], times in seconds. `lane` is -1 where dependencies hold the order."""

    rank: int
    ranks: int
    order: list[int]                  # a topological order
    waits: list[int]                  # how many others each node waits for
    children: list[list[int]]
    duration: list[float]
    flops: list[float]                # of compute nodes; 0 where unknown
    lane: list[int]
    messages: dict[int, Message]
    groups: tuple[tuple[int, ...], ...]


def program(traces: Traces, rank: int, *, communicates: bool = True) -> Program:
    """The program of `rank`, without its communications unless it `communicates`.

    Raises InputError where the trace cannot be executed as it is: a cycle, an operation without bytes, collectives of a
    group in another order than on its first rank.
    """
    if not communicates:
        return _rank(traces, rank, None)
    known = {group_key(name): ranks for name, ranks in groups_of(traces).items()}
    mine, found = _rank(traces, rank, known), set(known.values())
    for group in sorted({message.group for message in mine.messages.values() if message.op is not None}):
        first = group[0] if group else 0
        other = mine if first == rank else _rank(traces, first, known)
        if _sequence(mine, group) != _sequence(other, group):
            raise InputError(traces.sources[rank], f"collectives of group {list(group) or 'of all ranks'} come in "
                             f"another order, or with other bytes, than on rank {first}",
                             expected="one order on all ranks of a group")
    every = tuple(range(traces.ranks))
    for name, members in known.items():
        if max(members) >= traces.ranks:
            raise InputError(traces.sources[rank], f"group {name!r} has rank {max(members)}",
                             expected=f"ranks 0 to {traces.ranks - 1}: a trace for each")
    return replace(mine, groups=tuple(sorted(found - {every})))


def _sequence(one: Program, group: tuple[int, ...]) -> list[tuple[CommOp | None, int]]:
    return [(one.messages[node].op, one.messages[node].size) for node in one.order
            if node in one.messages and one.messages[node].op is not None and one.messages[node].group == group]


def _rank(traces: Traces, rank: int, known: dict[str, tuple[int, ...]] | None) -> Program:
    columns, row = traces.of(rank)
    graph = graph_of(columns)
    order = ready_order(columns, graph).tolist()
    if len(order) != columns.nodes:
        raise InputError(traces.sources[rank], f"{columns.nodes - len(order)} nodes can never run (a cycle, or a "
                         "dependency that is missing)", expected="a trace that `astrarium check` passes")
    children: list[list[int]] = [[] for _ in range(columns.nodes)]
    waits = [0] * columns.nodes
    for node in range(columns.nodes):
        for parent in set(graph.parent[graph.ptr[node]:graph.ptr[node + 1]].tolist()):
            children[parent].append(node)
            waits[node] += 1
    kinds = [a.value for a in decode_metadata(columns.metadata).attrs if a.name == "kind"]
    free = bool(kinds) and kinds[-1] == LANELESS
    cpu = columns.is_cpu_op.tolist()
    flops = np.where(columns.has(Attr.NUM_OPS) & (columns.type == NodeKind.COMP), columns.num_ops, 0.0)
    lane = [-1 if free or kind != NodeKind.COMP else host
            for kind, host in zip(columns.type.tolist(), cpu, strict=True)]
    messages = {} if known is None else {int(node): _message(traces, rank, int(node), place, row, known)
                                         for place, node in enumerate(columns.comm_node)}
    return Program(rank, traces.ranks, order, waits, children, (columns.duration * 1e-6).tolist(), flops.tolist(), lane,
                   messages, ())


def _message(traces: Traces, rank: int, node: int, place: int, row: int, known: dict[str, tuple[int, ...]]) -> Message:
    columns = traces.of(rank)[0]
    where = f"{traces.sources[rank]}: node {int(columns.node_id[node])}"
    size, kind = int(columns.comm_size[node]), int(columns.type[node])
    if size < 0:
        raise InputError(where, f"{size} bytes", expected="0 or more")
    if kind != NodeKind.COMM_COLL:
        peer = int((columns.destination if kind == NodeKind.COMM_SEND else columns.source)[row, place])
        if not 0 <= peer < traces.ranks or peer == rank:
            raise InputError(where, f"the other rank is {peer}", expected=f"another of ranks 0 to {traces.ranks - 1}")
        return Message(None, size, (), peer, max(int(columns.tag[row, place]), 0), kind == NodeKind.COMM_SEND)
    if int(columns.comm_type[node]) not in set(CommOp):
        raise InputError(where, f"comm_type {int(columns.comm_type[node])}", expected="a collective of Chakra's schema")
    text = int(columns.group[row, place])
    name = group_key(traces.texts[text]) if text >= 0 else ""
    if name not in known and name not in ("", "0"):
        raise InputError(where, f"group {name!r} is not defined in the traces",
                         expected=", ".join(sorted(known)) or "a METADATA node that defines it")
    members = known.get(name, ())
    group = () if members == tuple(range(traces.ranks)) else members
    if group and rank not in group:
        raise InputError(where, f"rank {rank} is not in group {name!r}", expected=f"one of {list(group)}")
    return Message(CommOp(int(columns.comm_type[node])), size, group)
