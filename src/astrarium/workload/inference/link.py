"""One class of ranks with messages to and from other programs: receives in front, sends behind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.arrays import I64
from astrarium.trace.work import Tensors, TraceClass
from astrarium.vocab import NodeKind

__all__ = ["Transfer", "linked", "moved_on"]

Lists = Sequence[Sequence["Transfer"]]


class Transfer(Struct, frozen=True):
    """`size` bytes from rank `source`, after its unit `after`, to rank `target`, before its unit `before`; a pair of
    ranks has at most one transfer of a `tag`."""

    name: str
    source: int
    target: int
    size: int
    tag: int
    after: int
    before: int

    def peer(self, *, sending: bool) -> int:
        """Who is at the other end."""
        return self.target if sending else self.source

    def unit(self, *, sending: bool) -> int:
        """The unit at this end."""
        return self.after if sending else self.before


def linked(trace: TraceClass, give: Lists, take: Lists, offset: I64, leave: I64) -> TraceClass:
    """The class with its receives in front and its sends behind. `give` and `take` [ranks] are equal but for peers and
    tags; `offset` and `leave`: first node and exit of every unit (-1: a unit without nodes)."""
    front, back, nodes = len(take[0]), len(give[0]), len(trace.type)
    if not front and not back:
        return trace
    parents = _parents(trace, give[0], take[0], offset, leave)
    pointer = np.zeros(len(parents) + 1, np.int64)
    np.cumsum([len(each) for each in parents], out=pointer[1:])
    width, total, shape = trace.slot_a.shape[1], front + nodes + back, (len(trace.ranks), front + back)
    peers = np.array([[*(each.source for each in t), *(each.target for each in g)]
                      for t, g in zip(take, give, strict=True)], np.int32).reshape(shape)
    tags = np.array([[each.tag for each in (*t, *g)] for t, g in zip(take, give, strict=True)], np.int32).reshape(shape)
    inner = np.zeros(0, np.int32) if trace.slot is None else trace.slot

    def around(column: npt.NDArray[Any], first: object, last: object) -> npt.NDArray[Any]:
        return np.concatenate([np.full(front, first, column.dtype), column, np.full(back, last, column.dtype)])

    size = around(trace.comm_size, 0, 0)
    size[:front] = [each.size for each in take[0]]
    size[front + nodes:] = [each.size for each in give[0]]
    return TraceClass(
        ranks=trace.ranks, node_id=np.arange(1, total + 1, dtype=np.uint64),
        type=around(trace.type, NodeKind.COMM_RECV, NodeKind.COMM_SEND), is_cpu=around(trace.is_cpu, False, False),
        duration_us=around(trace.duration_us, 0, 0), num_ops=around(trace.num_ops, np.nan, np.nan),
        tensor_size=around(trace.tensor_size, 0, 0), comm_type=around(trace.comm_type, -1, -1), comm_size=size,
        involved=np.full(total, -1, np.int32), priority=around(trace.priority, 2, 2), parent_ptr=pointer,
        parent=np.array([node for each in parents for node in each], np.int32),
        slot_a=np.concatenate([trace.slot_a, peers], axis=1), slot_b=np.concatenate([trace.slot_b, tags], axis=1),
        names=_names(trace.names, [each.name for each in take[0]], nodes, [each.name for each in give[0]]),
        kernel=None if trace.kernel is None else around(trace.kernel, -1, -1), kernels=trace.kernels,
        slot=np.concatenate([width + np.arange(front), inner, width + front + np.arange(back)]).astype(np.int32))


def _parents(trace: TraceClass, give: Sequence[Transfer], take: Sequence[Transfer], offset: I64,
             leave: I64) -> list[list[int]]:
    """Parents of every node. What begins a unit waits for the unit's receives too."""
    before = len(take)
    found: list[list[int]] = [[] for _ in take]
    pointer = trace.parent_ptr.tolist()
    parent = (trace.parent + before).tolist()
    found += [parent[pointer[node]:pointer[node + 1]] for node in range(len(trace.type))]
    ends = [*offset.tolist()[1:], len(trace.type)]
    for number, each in enumerate(take):
        first = int(offset[each.before]) + before
        for node in range(first, ends[each.before] + before):
            if not any(other >= first for other in found[node]):
                found[node].append(number)
    ends_at = (int(leave[each.after]) for each in give)
    return [*found, *([end + before] if end >= 0 else [] for end in ends_at)]


def _names(inner: Callable[[int], str] | None, first: Sequence[str], nodes: int,
           last: Sequence[str]) -> Callable[[int], str]:
    def name(node: int) -> str:
        if node < len(first):
            return f"{first[node]}.receive"
        if node < len(first) + nodes:
            return inner(node - len(first)) if inner else str(node)
        return f"{last[node - len(first) - nodes]}.send"

    return name


def moved_on(tensors: Tensors, nodes: int) -> Tensors:
    """Move tensors by a number of nodes."""
    return Tensors(tensors.size, np.where(tensors.writer >= 0, tensors.writer + nodes, -1).astype(np.int32),
                   tensors.read_ptr, (tensors.reader + nodes).astype(np.int32))
