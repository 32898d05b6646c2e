"""Retrieval before prefill: a vector search by servers of their own (RAGO, arXiv 2503.14649)."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from astrarium.config import Config, Knob
from astrarium.trace.work import Generated, TraceClass
from astrarium.vocab import CommOp, NodeKind

__all__ = ["Retrieval", "retrieval"]

RESULT = 12     # bytes of one neighbour: a 64-bit number and a 32-bit distance


class Retrieval(Config, frozen=True, kw_only=True):
    """A search in product-quantised vectors: every server scans its share for every query, one collects the nearest.

    A scan looks up and adds a number per byte of code (Jegou et al., TPAMI 2011). The servers are ranks behind the
    others: give them their compute and memory in npu_types.
    """

    servers: Annotated[int, Knob("Ranks that search.", ge=1)]
    vectors: Annotated[int, Knob("Vectors of the database.", ge=1, lt=10**15)]
    bytes_per_vector: Annotated[int, Knob("Bytes of one quantised vector.", ge=1)]
    scanned: Annotated[float, Knob("Share of the vectors that one query looks at.", gt=0, lt=1.0000001)]
    neighbours: Annotated[int, Knob("Nearest vectors that each server reports.", ge=1)] = 10


def retrieval(search: Retrieval, queries: int) -> Generated:
    """One search for all queries: a scan, and on several servers an all_gather of what each found. A class of equal
    ranks; the last node is what prefill waits for."""
    moved = queries * search.vectors * search.scanned * search.bytes_per_vector / search.servers
    several = search.servers > 1
    count = 2 if several else 1
    gathered = queries * search.neighbours * RESULT
    names = ("retrieval.scan", "retrieval.nearest")
    slots = np.full((search.servers, count - 1), -1, np.int32)
    trace = TraceClass(
        ranks=np.arange(search.servers, dtype=np.int32), node_id=np.arange(1, count + 1, dtype=np.uint64),
        type=np.array([NodeKind.COMP, NodeKind.COMM_COLL][:count], np.uint8), is_cpu=np.zeros(count, np.bool_),
        duration_us=np.zeros(count, np.uint64), num_ops=np.array([round(moved), np.nan][:count]),
        tensor_size=np.array([round(moved), 0][:count], np.uint64),
        comm_type=np.array([-1, CommOp.ALL_GATHER][:count], np.int32),
        comm_size=np.array([0, gathered][:count], np.int64), involved=np.full(count, -1, np.int32),
        priority=np.zeros(count, np.int32), parent_ptr=np.array([0, 0, 1][:count + 1], np.int64),
        parent=np.array([0] * (count - 1), np.int32), slot_a=slots, slot_b=slots.copy(), names=lambda node: names[node],
        slot=np.zeros(count - 1, np.int32))
    return Generated((trace,), (), (), (None,))
