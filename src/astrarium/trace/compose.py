"""A class of ranks node by node: for small generators (microbenchmarks, text workloads) and tests.

Generators of large workloads tile columns instead.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.arrays import I32
from astrarium.trace.work import TraceClass
from astrarium.vocab import CommOp, NodeKind

__all__ = ["ClassBuilder"]

ALL = -1        # a collective of all ranks


class _Node(Struct, frozen=True):
    kind: NodeKind
    name: str
    after: tuple[int, ...]
    cpu: bool = False
    duration: int = 0
    flops: float = float("nan")
    bytes: int = 0
    op: int = -1
    priority: int = 0


class ClassBuilder:
    """Collects the nodes of equal ranks. Every method returns the index of the node that it added.

    `after` holds indexes; sizes are bytes, durations whole microseconds. Peers, tags and groups are a number for all,
    or one per rank [ranks]. Node ids count up from 0.
    """

    def __init__(self, ranks: npt.ArrayLike) -> None:
        self.ranks: I32 = np.asarray(ranks, np.int32)
        self._nodes: list[_Node] = []
        self._slot: list[int] = []
        self._slots: dict[tuple[object, ...], int] = {}
        self._a: list[I32] = []
        self._b: list[I32] = []

    def __len__(self) -> int:
        return len(self._nodes)

    def comp(self, name: str, duration: int = 0, *, flops: float | None = None, size: int = 0, cpu: bool = False,
             after: Iterable[int] = ()) -> int:
        """A compute node: a duration to replay, and `flops` and bytes moved for the roofline."""
        ops = float("nan") if flops is None else float(flops)
        return self._add(_Node(NodeKind.COMP, name, _ascending(after), cpu, duration, ops, size))

    def memory(self, name: str, size: int, *, store: bool = False, after: Iterable[int] = ()) -> int:
        """An access to remote memory."""
        kind = NodeKind.MEM_STORE if store else NodeKind.MEM_LOAD
        return self._add(_Node(kind, name, _ascending(after), bytes=size))

    def other(self, name: str, kind: NodeKind, *, after: Iterable[int] = ()) -> int:
        """A node that takes no time: METADATA or INVALID."""
        return self._add(_Node(kind, name, _ascending(after)))

    def coll(self, name: str, op: CommOp, size: int, *, group: npt.ArrayLike = ALL, priority: int = 0,
             after: Iterable[int] = ()) -> int:
        """A collective of a group (index), or of all ranks (-1)."""
        node = _Node(NodeKind.COMM_COLL, name, _ascending(after), bytes=size, op=int(op), priority=priority)
        return self._comm(node, -1, group)

    def send(self, name: str, peer: npt.ArrayLike, size: int, tag: npt.ArrayLike = 0, *,
             after: Iterable[int] = ()) -> int:
        """A send to rank `peer`."""
        return self._comm(_Node(NodeKind.COMM_SEND, name, _ascending(after), bytes=size), peer, tag)

    def recv(self, name: str, peer: npt.ArrayLike, size: int, tag: npt.ArrayLike = 0, *,
             after: Iterable[int] = ()) -> int:
        """A receive from rank `peer`."""
        return self._comm(_Node(NodeKind.COMM_RECV, name, _ascending(after), bytes=size), peer, tag)

    def build(self) -> TraceClass:
        """What was collected; comm nodes of equal kind, bytes and arguments share a slot."""
        nodes, size = tuple(self._nodes), len(self._nodes)
        kind = np.array([node.kind for node in nodes], np.uint8)
        amount = np.array([node.bytes for node in nodes], np.int64)
        comm = kind >= NodeKind.COMM_SEND
        empty = np.zeros((self.ranks.size, 0), np.int32)
        return TraceClass(
            ranks=self.ranks, node_id=np.arange(size, dtype=np.uint64), type=kind,
            is_cpu=np.array([node.cpu for node in nodes], np.bool_),
            duration_us=np.array([node.duration for node in nodes], np.uint64),
            num_ops=np.array([node.flops for node in nodes], np.float64),
            tensor_size=np.where(comm, 0, amount).astype(np.uint64),
            comm_type=np.array([node.op for node in nodes], np.int32), comm_size=np.where(comm, amount, 0),
            involved=np.full(size, -1, np.int32), priority=np.array([node.priority for node in nodes], np.int32),
            parent_ptr=np.cumsum([0, *(len(node.after) for node in nodes)]).astype(np.int64),
            parent=np.array([parent for node in nodes for parent in node.after], np.int32),
            slot_a=np.stack(self._a, axis=1) if self._a else empty,
            slot_b=np.stack(self._b, axis=1) if self._b else empty,
            names=lambda number: nodes[number].name, slot=np.array(self._slot, np.int32))

    def _add(self, node: _Node) -> int:
        self._nodes.append(node)
        return len(self._nodes) - 1

    def _comm(self, node: _Node, a: npt.ArrayLike, b: npt.ArrayLike) -> int:
        first, second = (np.broadcast_to(np.asarray(each, np.int32), self.ranks.shape) for each in (a, b))
        key = (node.kind, node.op, node.bytes, node.priority, first.tobytes(), second.tobytes())
        if key not in self._slots:
            self._slots[key] = len(self._slots)
            self._a.append(first)
            self._b.append(second)
        self._slot.append(self._slots[key])
        return self._add(node)


def _ascending(after: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(set(after)))
