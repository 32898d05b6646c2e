"""Small generated workloads for Hypothesis: eight ranks in two classes, with everything that a node can have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from astrarium.trace.work import Generated, Tensors, TraceClass
from astrarium.vocab import CommOp, NodeKind

__all__ = ["RANKS", "workloads"]

RANKS, HALF = 8, 4
GROUPS = [(0, 1, 2, 3), (4, 5, 6, 7), (0, 4), (1, 5), (2, 6), (3, 7), (0, 2), (1, 3), (4, 6), (5, 7)]
AXES = {"half": (0, 0, 0, 0, 1, 1, 1, 1), "across": (2, 3, 4, 5, 2, 3, 4, 5), "pairs": (6, 7, 6, 7, 8, 9, 8, 9),
        "all": (-1,) * RANKS}
OPS = [CommOp.ALL_REDUCE, CommOp.ALL_GATHER, CommOp.REDUCE_SCATTER, CommOp.ALL_TO_ALL]
NAMINGS = {"numbers": [str(number + 3) for number in range(len(GROUPS))],
           "long": [str(10 ** (number % 4) * 2 + number) for number in range(len(GROUPS))],
           "words": [f"{number}:tp" for number in range(len(GROUPS))]}


@dataclass(frozen=True)
class _Node:
    """One node of both classes; `axis` of collectives, `tag` of messages (from the first class to the second)."""

    kind: NodeKind
    number: int
    after: tuple[int, ...]
    cpu: bool = False
    duration: int = 0
    ops: float = float("nan")
    bytes: int = 0
    op: int = -1
    axis: str = ""
    tag: int = 0
    priority: int = 0


@st.composite
def _nodes(draw: st.DrawFn) -> list[_Node]:
    found: list[_Node] = []
    number = 0
    for place in range(draw(st.integers(1, 12))):
        number += draw(st.sampled_from([1, 1, 1, 7, 300]))
        after = tuple(sorted(draw(st.sets(st.integers(0, place - 1), max_size=3)))) if place else ()
        common: dict[str, Any] = {"number": number - 1, "after": after}
        what = draw(st.sampled_from(["host", "compute", "collective", "collective", "message", "memory", "nothing"]))
        size = draw(st.sampled_from([1, 1000, 1 << 20, 3 << 20]))
        if what == "host":
            found.append(_Node(NodeKind.COMP, cpu=True, duration=draw(st.integers(1, 900)), **common))
        elif what == "compute":
            ops = draw(st.sampled_from([0.0, 1.5, 1e9, 2.0**64]))
            found.append(_Node(NodeKind.COMP, ops=ops, bytes=size, duration=draw(st.integers(1, 20)), **common))
        elif what == "collective":
            found.append(_Node(NodeKind.COMM_COLL, op=draw(st.sampled_from(OPS)), bytes=size,
                               axis=draw(st.sampled_from(sorted(AXES))), priority=draw(st.integers(0, 2)), **common))
        elif what == "message":
            found.append(_Node(NodeKind.COMM_SEND, bytes=size, tag=draw(st.sampled_from([0, 5, 70_000])), **common))
        elif what == "memory":
            kind = draw(st.sampled_from([NodeKind.MEM_LOAD, NodeKind.MEM_STORE]))
            found.append(_Node(kind, bytes=size, **common))
        else:
            found.append(_Node(NodeKind.INVALID, **common))
    return found


def _class(nodes: list[_Node], second: bool, shared: bool) -> TraceClass:
    ranks = np.arange(HALF, dtype=np.int32) + HALF * second
    kinds = [NodeKind.COMM_RECV if second and node.kind == NodeKind.COMM_SEND else node.kind for node in nodes]
    comm = [node for node, kind in zip(nodes, kinds, strict=True) if kind >= NodeKind.COMM_SEND]
    keys = [(node.op, node.bytes, node.priority, node.axis, node.tag) if shared else (node.number,) for node in comm]
    known = {key: place for place, key in enumerate(dict.fromkeys(keys))}
    first = [comm[keys.index(key)] for key in known]
    a = [[-1 if node.op >= 0 else (rank + HALF) % RANKS for node in first] for rank in ranks.tolist()]
    b = [[AXES[node.axis][rank] if node.op >= 0 else node.tag for node in first] for rank in ranks.tolist()]
    count = len(nodes)
    return TraceClass(
        ranks=ranks, node_id=np.array([node.number for node in nodes], np.uint64), type=np.array(kinds, np.uint8),
        is_cpu=np.array([node.cpu for node in nodes]), duration_us=np.array([n.duration for n in nodes], np.uint64),
        num_ops=np.array([node.ops for node in nodes]),
        tensor_size=np.array([n.bytes if k < NodeKind.COMM_SEND else 0 for n, k in zip(nodes, kinds)], np.uint64),
        comm_type=np.array([node.op for node in nodes], np.int32),
        comm_size=np.array([n.bytes if k >= NodeKind.COMM_SEND else 0 for n, k in zip(nodes, kinds)], np.int64),
        involved=np.full(count, -1, np.int32), priority=np.array([node.priority for node in nodes], np.int32),
        parent_ptr=np.cumsum([0, *(len(node.after) for node in nodes)]).astype(np.int64),
        parent=np.array([parent for node in nodes for parent in node.after], np.int32),
        slot_a=np.array(a, np.int32).reshape(HALF, len(known)), slot_b=np.array(b, np.int32).reshape(HALF, len(known)),
        names=lambda node: f"n{nodes[node].number}", slot=np.array([known[key] for key in keys], np.int32))


@st.composite
def _tensors(draw: st.DrawFn, nodes: int) -> Tensors:
    count = draw(st.integers(0, 5))
    writer = [draw(st.integers(-1, nodes - 1)) for _ in range(count)]
    readers = [sorted(draw(st.sets(st.integers(max(first, 0), nodes - 1), max_size=3))) for first in writer]
    return Tensors(np.array(draw(st.lists(st.integers(1, 10**9), min_size=count, max_size=count)), np.int64),
                   np.array(writer, np.int32), np.cumsum([0, *map(len, readers)]).astype(np.int64),
                   np.array([node for each in readers for node in each], np.int32))


@st.composite
def workloads(draw: st.DrawFn) -> Generated:
    """The second class receives what the first one sends; else both do the same."""
    nodes = draw(_nodes())
    classes = tuple(_class(nodes, second, draw(st.booleans())) for second in (False, True))
    return Generated(classes, tuple(np.array(group, np.int32) for group in GROUPS),
                     tuple(NAMINGS[draw(st.sampled_from(sorted(NAMINGS)))]),
                     tuple(draw(st.none() | _tensors(len(nodes))) for _ in classes))
