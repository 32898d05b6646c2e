"""Names of a rank's nodes. Ranks of one class have the same compute nodes; communication nodes may be named apart."""

from __future__ import annotations

from collections.abc import Sequence

from astrarium.trace import Traces
from astrarium.trace.node import decode_node
from astrarium.trace.write import node_messages

__all__ = ["node_names"]


def node_names(traces: Traces, rank: int) -> Sequence[str]:
    """[nodes] names of one rank, in the order of its file."""
    columns, row = traces.of(rank)
    names = columns.names()
    if row == 0 or not len(columns.comm_node):
        return names
    _, *messages = node_messages(traces.file_bytes(rank))
    for node in columns.comm_node.tolist():
        names[node] = decode_node(messages[node]).name
    return names
