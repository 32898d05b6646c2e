"""Look-up tables by the kind of a node, and who waits for a node."""

from __future__ import annotations

import numpy as np

from astrarium.arrays import I32, I64, Bool
from astrarium.vocab import NodeKind

__all__ = ["COMM_TYPE", "children_of", "table"]


def table(size: int, *members: int) -> Bool:
    """[size] whether a number is one of `members`: on short traces far faster than numpy.isin."""
    found = np.zeros(size, dtype=np.bool_)
    found[list(members)] = True
    return found


COMM_TYPE = table(256, NodeKind.COMM_COLL, NodeKind.COMM_SEND, NodeKind.COMM_RECV)


def children_of(parent_ptr: I64, parent: I32) -> tuple[I32, I32]:
    """Turn "waits for" round: child_ptr [nodes + 1] and child [edges], children ascending."""
    nodes = parent_ptr.size - 1
    if not parent.size:
        return np.zeros(nodes + 1, dtype=np.int32), np.zeros(0, dtype=np.int32)
    waiting = np.repeat(np.arange(nodes, dtype=np.int32), np.diff(parent_ptr))
    pointer = np.zeros(nodes + 1, dtype=np.int32)
    np.cumsum(np.bincount(parent, minlength=nodes), out=pointer[1:])
    return pointer, waiting[np.argsort(parent, kind="stable")]
