"""What `trace link` says in a trace beyond Chakra's schema: operations that a back end replaced, unexplained time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from astrarium.arrays import F64, I64
from astrarium.trace.columns import Columns
from astrarium.trace.node import decode_metadata, decode_node
from astrarium.vocab import CommOp, NodeKind

__all__ = ["GAP_NAME", "LOGICAL", "QUIET", "RECORDED", "STEPS", "STRIDES", "TOTAL", "UNEXPLAINED", "UNRECORDED",
           "headline", "labelled", "logical_ops", "says_gaps", "unexplained_parts", "unrecorded_line"]

LOGICAL = "logical_op"
"""Attribute of a collective: the operation that the program asked for, where another one ran (`comm_type`). So gloo
runs a reduce-scatter as an all-reduce."""

UNEXPLAINED = "unexplained_share"
"""Attribute of a node: the share of its duration that no recorded operator, call or kernel accounts for; of a trace:
the share of its replay's critical path."""

UNRECORDED, RECORDED, STEPS, QUIET, TOTAL = "unrecorded_ns", "recorded_ns", "steps", "without_profilers", "nodes_us"
"""Attributes of a trace: what the run takes without the profilers and with them (ns), the steps in it, whether its
nodes have the times without, and the sum of their durations (us), by which a trace that was changed since is known."""

STRIDES = "input_strides"
"""Attribute of an operator with inputs that are not contiguous: the strides of all its inputs, as lists like shapes."""

GAP_NAME = "unexplained idle time of a stream"
"""Name of the nodes that represent such time of a stream."""


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


def says_gaps(columns: Columns) -> bool:
    """Whether a trace says which of its time is unexplained: one that `link` wrote."""
    return any(attr.name == UNEXPLAINED for attr in decode_metadata(columns.metadata).attrs)


def unexplained_parts(columns: Columns, nodes: I64) -> F64:
    """[nodes given] the share of each node's duration that is unexplained, 0 to 1."""
    out, word, data = np.zeros(nodes.size, np.float64), UNEXPLAINED.encode(), columns.data
    starts, sizes = columns.offset[nodes].tolist(), columns.size[nodes].tolist()
    for place, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        if data.find(word, start, start + size) < 0:
            continue
        attr = decode_node(data[start:start + size]).attr(UNEXPLAINED)
        if attr is not None and isinstance(attr.value, float):
            out[place] = min(max(attr.value, 0.0), 1.0)
    return out


def headline(share: float) -> str:
    """The sentence that leads every report on a linked trace; `share` of the critical path, 0 to 1."""
    found = f"{100 * share:.1f} % of this replay's critical path is unexplained gap"
    if share < 0.0005:
        return f"{found}: the recording names what ran all along it."
    return (f"{found}: no recorded operator, call or kernel says what passed then. A what-if leaves it as recorded and "
            f"can shorten the other {100 * (1 - share):.1f} % at most.")


def unrecorded_line(traces: Sequence[Columns]) -> str | None:
    """What a recorded run takes without its profilers, of the rank that takes longest; None where no trace says it, or
    a trace was changed since."""
    found = [said for columns in traces if (said := _said(columns)) is not None]
    if not found:
        return None
    without, recorded, steps, quiet = max(found)
    per = " a step" if steps > 1 else ""
    line = (f"unrecorded: {without / steps / 1e6:.1f} ms{per} (recorded {recorded / steps / 1e6:.1f} ms, since "
            "profilers slow the host); ")
    return line + ("these nodes have the times without profilers" if quiet else
                   "`astrarium trace link --unrecorded` writes the trace without them")


def _said(columns: Columns) -> tuple[int, int, int, bool] | None:
    """(ns without profilers, ns recorded, steps, whether the nodes are those without) as `link` wrote it."""
    said = {attr.name: attr.value for attr in decode_metadata(columns.metadata).attrs}
    values = [value for name in (UNRECORDED, RECORDED, STEPS) if isinstance(value := said.get(name), int) and value > 0]
    if len(values) < 3:
        return None
    without, recorded, steps = values
    same = said.get(TOTAL) == int(columns.duration.sum())
    return (without, recorded, steps, bool(said.get(QUIET))) if same else None
