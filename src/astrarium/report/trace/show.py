"""Traces for people: one line per class of equal ranks, or one per node of a rank."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from astrarium.errors import InputError, short_name
from astrarium.report.tables.table import Table
from astrarium.report.trace.json_lines import lines_of
from astrarium.report.trace.names import node_names
from astrarium.trace import Attr, Columns, Traces, graph_of
from astrarium.trace.linked import labelled, logical_ops
from astrarium.trace.read import spans
from astrarium.trace.write import node_messages
from astrarium.units import format_bytes, format_time
from astrarium.vocab import CommOp, NodeKind

__all__ = ["class_rows", "class_table", "node_lines", "node_table"]

NS_PER_US = 1000
DEPS_SHOWN = 6
COUNTED = (("compute", (NodeKind.COMP,)), ("collectives", (NodeKind.COMM_COLL,)), ("sends", (NodeKind.COMM_SEND,)),
           ("receives", (NodeKind.COMM_RECV,)), ("memory", (NodeKind.MEM_LOAD, NodeKind.MEM_STORE)))


def class_rows(traces: Traces) -> list[dict[str, Any]]:
    """Per class of equal ranks: its ranks, node counts by kind, recorded time, communicated bytes."""
    rows = []
    for number, columns in enumerate(traces.classes):
        ranks = traces.members(number)
        row: dict[str, Any] = {"class": number, "rank_count": len(ranks), "ranks": spans(ranks.tolist()),
                               "source": traces.sources[int(ranks[0])], "nodes": columns.nodes}
        for name, kinds in COUNTED:
            row[name] = int(np.isin(columns.type, kinds).sum())
        comm = columns.type[columns.comm_node]
        size = columns.comm_size[columns.comm_node]
        row["recorded_ns"] = int(columns.duration.sum()) * NS_PER_US
        row["collective_bytes"] = int(size[comm == NodeKind.COMM_COLL].sum())
        row["sent_bytes"] = int(size[comm == NodeKind.COMM_SEND].sum())
        rows.append(row)
    return rows


def class_table(traces: Traces) -> Table:
    """`class_rows` as a table."""
    names = [name for name, _ in COUNTED]
    rows = [(row["ranks"], f"{row['nodes']:,}", *(f"{row[name]:,}" for name in names),
             format_time(row["recorded_ns"]), format_bytes(row["collective_bytes"]),
             format_bytes(row["sent_bytes"])) for row in class_rows(traces)]
    title = f"{traces.ranks:,} ranks, {traces.nodes:,} nodes, {len(traces.classes)} different traces (numbers per rank)"
    return Table(title, "<" + ">" * (len(names) + 4), rows,
                 ("ranks", "nodes", *names, "recorded time", "in collectives", "sent"))


def _checked(traces: Traces, rank: int) -> Columns:
    if not 0 <= rank < traces.ranks:
        raise InputError("--rank", f"there is no rank {rank}", expected=f"0 to {traces.ranks - 1}")
    return traces.of(rank)[0]


def node_lines(traces: Traces, rank: int) -> Iterator[str]:
    """A rank's trace as JSON lines, every field."""
    _checked(traces, rank)
    return lines_of(node_messages(traces.file_bytes(rank)))


def node_table(traces: Traces, rank: int) -> Table:
    """A line per node of a rank, in the order of its file."""
    columns = _checked(traces, rank)
    names, details, graph = node_names(traces, rank), _details(traces, rank), graph_of(columns)
    ids = columns.node_id.tolist()
    rows = []
    for node in range(columns.nodes):
        parents = dict.fromkeys(graph.parent[graph.ptr[node]:graph.ptr[node + 1]].tolist())
        after = [str(ids[i]) if i >= 0 else "?" for i in parents]
        more = f" and {len(after) - DEPS_SHOWN} more" if len(after) > DEPS_SHOWN else ""
        micros = int(columns.duration[node])
        kind = _kind(int(columns.type[node])) + (" (host)" if columns.is_cpu_op[node] else "")
        rows.append((str(ids[node]), short_name(names[node]), kind, f"{micros:,} us" if micros else "", details[node],
                     ", ".join(after[:DEPS_SHOWN]) + more))
    return Table(f"rank {rank}: {columns.nodes:,} nodes ({traces.sources[rank]})", "><<><<", rows,
                 ("id", "name", "type", "recorded", "what", "after"))


def _kind(number: int) -> str:
    return NodeKind(number).name if number in set(NodeKind) else f"type {number}"


def _details(traces: Traces, rank: int) -> list[str]:
    """[nodes] what a node is about: work, bytes, group, peer and tag."""
    columns, row = traces.of(rank)
    found = [""] * columns.nodes
    for node in np.flatnonzero(columns.has(Attr.NUM_OPS)).tolist():
        found[node] = f"{columns.num_ops[node]:.4g} flop"
    for node in np.flatnonzero(columns.has(Attr.TENSOR_SIZE)).tolist():
        found[node] = ", ".join(part for part in (found[node], format_bytes(int(columns.tensor_size[node]))) if part)
    asked = logical_ops(columns)
    for place, node in enumerate(columns.comm_node.tolist()):
        found[node] = _communication(traces, columns, row, place, node, asked.get(node))
    return found


def _communication(traces: Traces, columns: Columns, row: int, place: int, node: int,
                   logical: str | None) -> str:
    size = format_bytes(int(columns.comm_size[node]))
    kind = int(columns.type[node])
    if kind == NodeKind.COMM_COLL:
        number, group = int(columns.comm_type[node]), int(columns.group[row, place])
        op = CommOp(number).name.lower() if number in set(CommOp) else f"operation {number}"
        size = f"{labelled(op, logical)} {size}"
        return size + (f", group {traces.texts[group]}" if group >= 0 and traces.texts[group] else "")
    end, side = (columns.destination, "to") if kind == NodeKind.COMM_SEND else (columns.source, "from")
    return f"{size} {side} {int(end[row, place])}, tag {int(columns.tag[row, place])}"
