"""Comm nodes of a trace with equal arguments on every rank share one column of them: what folding reads is then as wide
as the distinct partners, not as the nodes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from astrarium.arrays import I64
from astrarium.lower.distinct import distinct_rows
from astrarium.trace.work import TraceClass
from astrarium.vocab import NodeKind

__all__ = ["share_slots"]

FEW = 16        # comm nodes, below which nothing is gained


def share_slots(trace: TraceClass) -> TraceClass:
    """The class with one slot per distinct (type, operation, bytes, priority, group | peer and tag).

    Columns are grouped by a sum with fixed odd weights per rank (modulo 2^64) and then compared: a coincidence of sums
    leaves every node its own slot, and never changes the result.
    """
    nodes = np.flatnonzero(np.isin(trace.type, (NodeKind.COMM_COLL, NodeKind.COMM_SEND, NodeKind.COMM_RECV)))
    if trace.slot is not None or nodes.size < FEW:
        return trace
    rows = np.stack([trace.type[nodes].astype(np.int64), trace.comm_type[nodes].astype(np.int64),
                     trace.comm_size[nodes], trace.priority[nodes].astype(np.int64),
                     _sums(trace.slot_a), _sums(trace.slot_b)], axis=1)
    _, slot = distinct_rows(rows)
    first = np.full(int(slot.max()) + 1, -1, np.int64)
    first[slot[::-1]] = np.arange(nodes.size - 1, -1, -1)
    if not all(np.array_equal(column, column[:, first[slot]]) for column in (trace.slot_a, trace.slot_b)):
        return trace
    order = np.argsort(first, kind="stable")        # slots in order of first use
    place = np.empty(order.size, np.int32)
    place[order] = np.arange(order.size, dtype=np.int32)
    chosen = first[order]
    return replace(trace, slot=place[slot], slot_a=np.ascontiguousarray(trace.slot_a[:, chosen]),
                   slot_b=np.ascontiguousarray(trace.slot_b[:, chosen]))


def _sums(columns: npt.NDArray[np.int32]) -> I64:
    """[nodes] one number per column of [ranks, nodes]."""
    ranks = np.arange(columns.shape[0], dtype=np.uint64)
    weights = (ranks * np.uint64(0x9E3779B97F4A7C15)) ^ np.uint64(0xD6E8FEB86659FD93) | np.uint64(1)
    total = np.zeros(columns.shape[1], np.uint64)
    for weight, row in zip(weights, columns, strict=True):
        total += weight * (row.astype(np.int64).astype(np.uint64) + np.uint64(1))
    return total.astype(np.int64)
