"""Collectives that a back end runs as another one: gloo runs a reduce-scatter as an all-reduce."""

from __future__ import annotations

from astrarium.trace.columns import Columns
from astrarium.trace.node import decode_node
from astrarium.vocab import CommOp, NodeKind

__all__ = ["LOGICAL", "labelled", "logical_ops"]

LOGICAL = "logical_op"
"""Attribute of a collective: the operation that the program asked for, where another one ran (`comm_type`)."""


def logical_ops(columns: Columns) -> dict[int, str]:
    """Node index -> the operation that was asked for, of the collectives that say one."""
    if LOGICAL.encode() not in columns.data:
        return {}
    found: dict[int, str] = {}
    for node in columns.comm_node[columns.type[columns.comm_node] == NodeKind.COMM_COLL].tolist():
        start = int(columns.offset[node])
        attr = decode_node(columns.data[start:start + int(columns.size[node])]).attr(LOGICAL)
        if attr is not None and isinstance(attr.value, str) and attr.value.upper() in CommOp.__members__:
            found[node] = attr.value
    return found


def labelled(op: str, logical: str | None) -> str:
    """`all_reduce`, or `all_reduce (reduce_scatter)` where that was asked for."""
    return op if logical is None else f"{op} ({logical})"
