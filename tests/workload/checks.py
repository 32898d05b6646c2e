"""What every generated workload must satisfy, whatever made it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

import numpy as np

from astrarium.trace.work import Generated, TraceClass
from astrarium.vocab import CommOp, NodeKind

__all__ = ["bytes_by", "check", "flops", "programs"]

Event = tuple[int, int, int]     # op or kind, bytes, tag


def programs(generated: Generated) -> dict[int, tuple[TraceClass, int]]:
    """rank -> (class, row); AssertionError where a rank is missing or twice."""
    found = {int(rank): (trace, row) for trace in generated.classes for row, rank in enumerate(trace.ranks)}
    assert len(found) == sum(len(trace.ranks) for trace in generated.classes)
    assert sorted(found) == list(range(len(found)))
    return found


def check(generated: Generated) -> None:
    """Dependencies point back, every message has a receiver, members of a group agree on every collective."""
    for trace in generated.classes:
        node = np.repeat(np.arange(len(trace.node_id)), np.diff(trace.parent_ptr))
        assert (trace.parent < node).all()
        assert (trace.parent >= 0).all()
        assert (np.diff(trace.node_id.astype(np.int64)) > 0).all()
        assert trace.slot is not None
        assert (trace.slot >= 0).all()
        assert (trace.slot < trace.slot_a.shape[1]).all()
    _check_messages(generated)
    _check_collectives(generated)


def _comm(trace: TraceClass) -> np.ndarray:
    return np.flatnonzero(np.isin(trace.type, (NodeKind.COMM_COLL, NodeKind.COMM_SEND, NodeKind.COMM_RECV)))


def _columns(trace: TraceClass, row: int) -> Iterator[tuple[int, int, int, int, int]]:
    """(kind, op, bytes, slot_a, slot_b) of a rank's comm nodes, as Python's numbers."""
    assert trace.slot is not None
    nodes = _comm(trace)
    return zip(*(each.tolist() for each in (trace.type[nodes], trace.comm_type[nodes], trace.comm_size[nodes],
                                            trace.slot_a[row, trace.slot], trace.slot_b[row, trace.slot])), strict=True)


def _check_messages(generated: Generated) -> None:
    sent: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    received: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    send, receive = int(NodeKind.COMM_SEND), int(NodeKind.COMM_RECV)
    for rank, (trace, row) in programs(generated).items():
        for kind, _, size, peer, tag in _columns(trace, row):
            if kind == send:
                assert peer != rank
                sent[rank, peer, tag].append(size)
            elif kind == receive:
                received[peer, rank, tag].append(size)
    assert sent == received


def _check_collectives(generated: Generated) -> None:
    """In order of issue, per group."""
    said: dict[int, dict[int, list[Event]]] = defaultdict(lambda: defaultdict(list))
    collective = int(NodeKind.COMM_COLL)
    for rank, (trace, row) in programs(generated).items():
        for kind, op, size, _, group in _columns(trace, row):
            if kind == collective:
                said[group][rank].append((op, size, 0))
    for group, by_rank in said.items():
        members = range(len(programs(generated))) if group < 0 else generated.groups[group].tolist()
        assert sorted(by_rank) == sorted(members)
        assert len({tuple(events) for events in by_rank.values()}) == 1


def flops(generated: Generated) -> float:
    """FLOPs of all ranks."""
    return float(sum(np.nansum(trace.num_ops) * len(trace.ranks) for trace in generated.classes))


def bytes_by(generated: Generated, rank: int, name: str) -> Counter[tuple[CommOp | None, int]]:
    """(operation, size of the group) -> bytes as Chakra counts them, of a rank's comm nodes that `name` is part of."""
    trace, row = programs(generated)[rank]
    assert trace.slot is not None
    assert trace.names is not None
    found: Counter[tuple[CommOp | None, int]] = Counter()
    for node, slot in zip(_comm(trace).tolist(), trace.slot.tolist(), strict=True):
        if name in trace.names(node):
            op = CommOp(int(trace.comm_type[node])) if trace.type[node] == NodeKind.COMM_COLL else None
            group = int(trace.slot_b[row, slot])
            size = 2 if op is None else len(programs(generated)) if group < 0 else len(generated.groups[group])
            found[op, size] += int(trace.comm_size[node])
    return found
