"""Names of a rank's nodes. Ranks of one class have the same compute nodes; communication nodes may be named apart."""

from __future__ import annotations

from collections.abc import Sequence

from astrarium.trace import Traces
from astrarium.trace._wire import DELIMITED, Cursor
from astrarium.trace.write import node_messages

__all__ = ["node_names"]

NAME = 2 << 3 | DELIMITED      # the tag of Node.name


def node_names(traces: Traces, rank: int) -> Sequence[str]:
    """[nodes] names of one rank, in the order of its file."""
    columns, row = traces.of(rank)
    names = columns.names()
    if row == 0 or not len(columns.comm_node):
        return names
    _, *messages = node_messages(traces.file_bytes(rank))
    for node in columns.comm_node.tolist():
        names[node] = _name(messages[node])
    return names


def _name(message: bytes) -> str:
    """The name in a Node message; the last one counts, as in protobuf."""
    cursor, name = Cursor(message, 0, len(message)), b""
    while cursor.at != cursor.end:
        tag = cursor.tag()
        if tag == NAME:
            start, end = cursor.delimited()
            name = message[start:end]
        else:
            cursor.skip(tag)
    return name.decode("utf-8", "replace")
