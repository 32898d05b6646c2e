"""ASTRA-sim's `track-local-mem`: the tensors that a rank's nodes read and write, their peak, and its Perfetto file.

A node's attributes `inputs` and `outputs` list names and bytes in turn. A tensor lives from the start of the node that
writes it (from 0 where nothing has written it before it is read) to the end of the node that reads it last.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from msgspec import Struct

from astrarium.arrays import I64
from astrarium.astra_sim.statistics import first_ranks, node_times
from astrarium.engine import Outcome
from astrarium.errors import TraceError
from astrarium.trace.columns import Columns, Traces
from astrarium.trace.node import Node, decode_node
from astrarium.trace.write import node_messages, write_files

__all__ = ["formatted", "track_memory"]

UNDEFINED = (0, 10, -1)     # ns, ns and node of the writer of a tensor that is read before anything writes it
MIB = 1024.0 * 1024.0
DIGITS = re.compile(r"\s*\+?([0-9]{1,18})(?![0-9])")


def track_memory(outcome: Outcome, traces: Traces, prefix: str) -> list[int]:
    """Write `prefix.<rank>.json` for every rank of a recorded run; the peak of every row, bytes."""
    tensors: dict[int, list[NodeTensors]] = {}
    ids: dict[int, list[int]] = {}
    found: list[Lifetimes] = []
    for row, rank in enumerate(first_ranks(outcome)):
        index = int(traces.rank_class[rank])
        if index not in tensors:
            tensors[index], ids[index] = tensors_of(traces, index), np.sort(traces.classes[index].node_id).tolist()
        found.append(lifetimes(tensors[index], *node_times(outcome, row), ids[index], traces.sources[rank]))
    write_files((f"{prefix}.{rank}.json",
                 trace_file(found[row], rank, ids[int(traces.rank_class[rank])], names_of(traces, rank)))
                for rank, row in enumerate(outcome.row.tolist()))
    return [each.peak() for each in found]


class NodeTensors(Struct, frozen=True, eq=False):
    """What one node reads and writes: (tensor, bytes), without those of 0 bytes."""

    reads: tuple[tuple[str, int], ...]
    writes: tuple[tuple[str, int], ...]


class Lifetimes(Struct, frozen=True, eq=False):
    """The tensors of a row, in order of first use. Accesses are (start ns, end ns, node index; -1: none)."""

    size: dict[str, int]
    write: dict[str, tuple[int, int, int]]
    reads: dict[str, list[tuple[int, int, int]]]

    def usage(self) -> list[tuple[int, int]]:
        """(ns, bytes from then on) at every instant at which a tensor comes or has been read for the last time."""
        change: dict[int, int] = {}
        for name, (start, _, _) in self.write.items():
            change[start] = change.get(start, 0) + self.size[name]
        for name, reads in self.reads.items():
            change[reads[-1][1]] = change.get(reads[-1][1], 0) - self.size[name]
        times = sorted(change)
        return list(zip(times, accumulate(change[time] for time in times), strict=True))

    def peak(self) -> int:
        """Most bytes at any time."""
        return max((size for _, size in self.usage()), default=0)


def tensors_of(traces: Traces, index: int) -> list[NodeTensors]:
    """What the nodes of a class read and write, by ascending node id. TraceError where a node does not say."""
    columns = traces.classes[index]
    source = traces.sources[int(traces.members(index)[0])]
    return [_tensors(_node(columns, i), source) for i in np.argsort(columns.node_id, kind="stable").tolist()]


def _node(columns: Columns, index: int) -> Node:
    start = int(columns.offset[index])
    return decode_node(columns.data[start:start + int(columns.size[index])])


def _tensors(node: Node, source: str) -> NodeTensors:
    return NodeTensors(_listed(node, "inputs", source), _listed(node, "outputs", source))


def _listed(node: Node, name: str, source: str) -> tuple[tuple[str, int], ...]:
    attribute = next((each for each in node.attrs if each.name == name), None)
    if attribute is None:
        raise TraceError(source, f"no attribute {name!r}, which track-local-mem needs", node=node.id, name=node.name,
                         expected="a string_list of tensors and their bytes, or track-local-mem 0")
    words = attribute.value if attribute.kind == "string_list" else ()
    sizes = [DIGITS.match(size) for size in words[1::2]]     # "524288.0" is 524288, as C++ reads it
    if len(words) % 2 or not all(sizes):
        raise TraceError(source, f"{name}: not tensors and their bytes in turn", node=node.id, name=node.name,
                         expected="name, bytes, name, bytes ...")
    pairs = [(tensor, int(size[1])) for tensor, size in zip(words[::2], sizes, strict=True) if size]
    return tuple((tensor, size) for tensor, size in pairs if size)


def lifetimes(tensors: Sequence[NodeTensors], start: I64, end: I64, node_id: Sequence[int], source: str) -> Lifetimes:
    """When each tensor lives, from the nodes' times in ns; nodes end in order of time, then of id.

    Raises TraceError for a tensor that is written twice, or after it was read, on which ASTRA-sim aborts.
    """
    found = Lifetimes({}, {}, {})
    for i in np.argsort(end, kind="stable").tolist():
        when = (int(start[i]), int(end[i]), i)
        for name, size in tensors[i].reads:
            if name not in found.size:
                found.size[name], found.write[name] = size, UNDEFINED
            found.reads.setdefault(name, []).append(when)
        for name, size in tensors[i].writes:
            if name in found.size:
                raise TraceError(source, f"writes tensor {name!r}, which was read or written before", node=node_id[i],
                                 expected="one write per tensor, before it is read, or track-local-mem 0")
            found.size[name], found.write[name] = size, when
    return found


def formatted(size: int) -> str:
    """`481.25 MB`: ASTRA-sim's units are powers of 1,024."""
    value, unit = np.float32(size), "B"
    for larger in ("KB", "MB", "GB", "TB"):
        if size < 1024:
            break
        value, unit, size = value / np.float32(1024), larger, size // 1024
    return f"{value:.2f} {unit}"


def trace_file(found: Lifetimes, rank: int, node_id: Sequence[int], names: Sequence[str]) -> bytes:
    """The file that ASTRA-sim writes for ui.perfetto.dev: its events, tensors numbered in order of first use."""
    number = {name: i for i, name in enumerate(found.size)}
    events: list[dict[str, Any]] = []

    def add(name: str, kind: str, phase: str, time: int, process: int, **more: Any) -> None:
        events.append({"name": name, "cat": kind, "ph": phase, "ts": 1e-3 * time, "pid": rank + process,
                       "tid": number[name], "args": {"size": found.size[name], **more}})

    for kind, accesses in (("tensorRead", found.reads), ("tensorWrite", {k: [v] for k, v in found.write.items()})):
        for name, times in accesses.items():
            for start, end, i in times:
                who = {"node_name": names[i], "node_id": node_id[i]} if i >= 0 else {
                    "node_name": "UNDEFINED", "node_id": 2**64 - 1}
                add(name, kind, "B", start, 0, **who)
                add(name, kind, "E", end, 0, **who)
    for name, (start, _, _) in found.write.items():
        add(name, "tensorLifetime", "B", start, 1_000_000)
    for name, reads in found.reads.items():
        add(name, "tensorLifetime", "E", reads[-1][1], 1_000_000)
    events += [{"name": "GPU Memory Usage (MB)", "cat": "GPU Memory", "ph": "C", "ts": 1e-3 * time,
                "pid": rank + 2_000_000, "args": {"Memory_MB": size / MIB}} for time, size in found.usage()]
    events += _heatmap(found, rank + 3_000_000)
    return json.dumps({"traceEvents": events}, indent=2, sort_keys=True, ensure_ascii=False).encode()


def _heatmap(found: Lifetimes, process: int) -> Iterator[dict[str, Any]]:
    """Tensors by how long they live, in the colour of their size."""
    last = max((time for time, _ in found.usage()), default=0)
    lives = []
    for name, (start, _, _) in found.write.items():
        end = found.reads[name][-1][1] if name in found.reads else last
        lives.append((end - start, start, name))
    lives.sort(key=lambda life: -life[0])
    least, most = (lives[-1][0], lives[0][0]) if lives else (0, 0)
    largest = max(found.size.values(), default=1)
    yield {"name": "process_name", "ph": "M", "pid": process, "args": {"name": "Tensor Lifetime Heap"}}
    yield {"name": "thread_name", "ph": "M", "pid": process, "tid": 0,
           "args": {"name": "Longest Lifetime → Shortest Lifetime"}}
    for duration, start, name in lives:
        size = found.size[name]
        place = int((duration - least) / (most - least) * (len(lives) - 1)) if most != least else 0
        heat = min(255, int(size / largest * 255))
        short = name if len(name) <= 20 else name[:17] + "..."
        yield {"name": f"{short} ({f'{size / MIB:.6f}'[:5]} MB)", "cat": "tensorHeatmap", "ph": "X", "ts": 1e-3 * start,
               "dur": 1e-3 * duration, "pid": process, "tid": place, "cname": f"#{heat:02X}64{255 - heat:02X}",
               "args": {"tensor_name": name, "size_bytes": size, "size_mb": size / MIB, "lifetime_ns": duration,
                        "position": place}}
    yield {"name": "Tensor Lifetime Heatmap", "cat": "tensorHeatmap", "ph": "i", "ts": 0, "pid": process, "s": "p",
           "args": {"description": "Tensors arranged by lifetime duration (longest at bottom)",
                    "total_tensors": len(lives), "displayed_tensors": len(lives)}}


def names_of(traces: Traces, rank: int) -> list[str]:
    """Names of a rank's nodes, by ascending node id."""
    columns, row = traces.of(rank)
    order = np.argsort(columns.node_id, kind="stable").tolist()
    if row == 0:
        return [columns.name(i) for i in order]
    messages = list(node_messages(traces.file_bytes(rank)))[1:]
    return [decode_node(messages[i]).name for i in order]
