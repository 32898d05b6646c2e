"""Measured times as durations: a new trace beside the one that was executed."""

from __future__ import annotations

import os
import statistics
from collections.abc import Sequence
from dataclasses import replace

from astrarium.profile.execute.loop import Measured, Settings
from astrarium.trace.columns import Traces
from astrarium.trace.node import Node, attribute, decode_metadata, decode_node
from astrarium.trace.write import node_messages, write_trace

__all__ = ["measured_trace"]


def measured_trace(traces: Traces, rank: int, runs: Sequence[Measured], settings: Settings,
                   prefix: str | os.PathLike[str]) -> str:
    """Writes `<prefix>.<rank>.et`: measured nodes with the median of their times, whole us and at least 1; the rest as
    it was. The metadata say `replayed_on`. Returns the path."""
    metadata, *messages = node_messages(traces.file_bytes(rank))
    nodes: list[Node | bytes] = list(messages)
    for index in sorted({node for run in runs for node in run.taken}):
        micros = statistics.median(run.taken[index] for run in runs) * 1e6
        nodes[index] = replace(decode_node(messages[index]), duration=max(round(micros), 1))
    first = decode_metadata(metadata)
    said = attribute("replayed_on", f"{settings.backend}, compute as {settings.compute}")
    kept = tuple(each for each in first.attrs if each.name != "replayed_on")
    path = f"{os.fspath(prefix)}.{rank}.et"
    write_trace(path, replace(first, attrs=(*kept, said)), nodes)
    return path
