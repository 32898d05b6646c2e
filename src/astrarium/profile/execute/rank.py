"""One rank's part of a replay: executes in its process group, says what it measured and writes it as a trace."""

from __future__ import annotations

import os
import statistics
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from astrarium.profile.execute.comm import Wire
from astrarium.profile.execute.group import joined_group
from astrarium.profile.execute.loop import Loop, Measured, Settings
from astrarium.profile.execute.program import program
from astrarium.trace.columns import Traces
from astrarium.trace.node import Node, attribute, decode_metadata, decode_node
from astrarium.trace.write import node_messages, write_trace

__all__ = ["measured_trace", "replay_rank", "write_durations"]


def replay_rank(traces: Traces, settings: Settings, *, repeat: int = 3) -> tuple[int, list[Measured]]:
    """Executes this process's rank `repeat` times after one that is not counted; every time begins with a barrier.

    The environment says which rank this is, and it must be one of as many as there are traces (`joined_group`).
    Returns the rank and what it measured; `makespan` is the longest of all ranks'.
    """
    with joined_group(settings.backend, "cpu", traces.ranks) as group:
        mine = program(traces, group.rank)
        loop = Loop(mine, settings, Wire(mine, group.device))
        runs = []
        for number in range(repeat + 1):
            group.barrier()
            found = loop.run()
            longest = group.longest(found.makespan)
            if number:
                runs.append(Measured(longest, found.taken))
        return group.rank, runs


def measured_trace(traces: Traces, rank: int, runs: Sequence[Measured], settings: Settings,
                   prefix: str | os.PathLike[str]) -> str:
    """Writes `<prefix>.<rank>.et`: measured nodes with the median of their times, whole us and at least 1; the rest as
    it was. Returns the path."""
    micros = {index: max(round(statistics.median(run.taken[index] for run in runs) * 1e6), 1)
              for index in sorted({node for run in runs for node in run.taken})}
    return write_durations(traces, rank, micros, f"{settings.backend}, compute as {settings.compute}", prefix)


def write_durations(traces: Traces, rank: int, micros: Mapping[int, int], replayed_on: str,
                    prefix: str | os.PathLike[str]) -> str:
    """Writes `<prefix>.<rank>.et`, whole or not at all: the trace of `rank` with `micros` (node -> us) as durations.
    The metadata say `replayed_on`. Returns the path."""
    metadata, *messages = node_messages(traces.file_bytes(rank))
    nodes: list[Node | bytes] = list(messages)
    for index, duration in micros.items():
        nodes[index] = replace(decode_node(messages[index]), duration=duration)
    first = decode_metadata(metadata)
    kept = tuple(each for each in first.attrs if each.name != "replayed_on")
    path = f"{os.fspath(prefix)}.{rank}.et"
    write_trace(path, replace(first, attrs=(*kept, attribute("replayed_on", replayed_on))), nodes)
    return path
