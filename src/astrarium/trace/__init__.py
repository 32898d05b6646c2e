"""Chakra execution traces: read, write, check.

Names are imported when first used: a run reads traces, and needs neither the doctor nor the writer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from astrarium.lazy import lazy

if TYPE_CHECKING:
    from astrarium.trace._native import HAVE_CORE
    from astrarium.trace.build import TraceBuilder
    from astrarium.trace.columns import Attr, Columns, Traces
    from astrarium.trace.doctor import check
    from astrarium.trace.export import Written, write_generated
    from astrarium.trace.finding import Finding
    from astrarium.trace.graph import Dependencies, Graph, graph_of, index_of, ready_order
    from astrarium.trace.groups import Groups, group_key, groups_of, read_groups
    from astrarium.trace.node import Attribute, IOInfo, Metadata, Node, attribute
    from astrarium.trace.read import find_traces, read_traces, traces_of_bytes
    from astrarium.trace.write import encode_trace, read_node, write_trace, write_traces

__all__ = [
    "HAVE_CORE", "Attr", "Attribute", "Columns", "Dependencies", "Finding", "Graph", "Groups", "IOInfo", "Metadata",
    "Node", "TraceBuilder", "Traces", "Written", "attribute", "check", "encode_trace", "find_traces", "graph_of",
    "group_key", "groups_of", "index_of", "read_groups", "read_node", "read_traces", "ready_order", "traces_of_bytes",
    "write_generated", "write_trace", "write_traces",
]
__getattr__ = lazy(__name__)
