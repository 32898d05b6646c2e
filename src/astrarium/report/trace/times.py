"""What a trace's recorded times say: busy and idle GPU, overlap of compute and communication, busbw, longest names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from astrarium.collective.bandwidth import busbw
from astrarium.report.tables.table import Table
from astrarium.trace import Attr, Columns, Traces, group_key, groups_of
from astrarium.trace.linked import labelled, logical_ops
from astrarium.trace.micros import in_ns
from astrarium.trace.node import decode_metadata
from astrarium.units import format_bytes, format_rate, format_time
from astrarium.vocab import CommOp, NodeKind

__all__ = ["CollectiveTime", "Times", "collectives_from_last_arrival", "last_arrival_tables", "time_tables", "times_of"]

NS_PER_US, LONGEST = 1000, 10
Key = tuple[int, str, "int | None"]      # operation, the one asked for, ranks
Intervals = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]


class CollectiveTime(Struct, frozen=True):
    """Collectives of one operation and number of ranks that have a recorded time; busbw in bytes per ns, or None.

    `op` is what ran; `all_reduce (reduce_scatter)` where that was asked for.

    The recorded time runs from the kernel's start to its end: waiting for other ranks is in it.
    """

    op: str
    ranks: int | None
    count: int
    size: int
    recorded_us: int
    busbw: float | None

    def plain(self) -> dict[str, Any]:
        """As values, units in the names."""
        return {"op": self.op, "ranks": self.ranks, "count": self.count, "size_bytes": self.size,
                "recorded_us": self.recorded_us, "busbw_gb_per_s": self.busbw}


class Times(Struct, frozen=True):
    """Recorded times of one rank in microseconds.

    `span` from the first start to the last end; `compute`, `communication` the time in which at least one such GPU
    operation runs, `overlap` in which both do, `idle` in which none does. None where the trace has no start times.
    """

    span: int | None
    compute: int | None
    communication: int | None
    overlap: int | None
    idle: int | None
    collectives: tuple[CollectiveTime, ...]
    longest: tuple[tuple[str, int, int], ...]      # name, count, recorded_us

    def plain(self) -> dict[str, Any]:
        """As JSON values, units in the names."""
        times = {f"{name}_us": getattr(self, name) for name in ("span", "compute", "communication", "overlap", "idle")}
        found: dict[str, Any] = in_ns({
            **times, "collectives": [each.plain() for each in self.collectives], "longest": [
                dict(zip(("name", "count", "recorded_us"), each, strict=True)) for each in self.longest]})
        return found


def times_of(columns: Columns, texts: tuple[str, ...], groups: Mapping[str, tuple[int, ...]]) -> Times:
    """The times of the first rank of `columns`; `texts` and `groups` say how many ranks a collective has."""
    start, end = columns.start.astype(np.int64), (columns.start + columns.duration).astype(np.int64)
    comm = np.isin(columns.type, (NodeKind.COMM_COLL, NodeKind.COMM_SEND, NodeKind.COMM_RECV))
    gpu = (columns.is_cpu_op == 0) & (columns.duration > 0)
    compute = gpu & (columns.type == NodeKind.COMP)
    found: dict[str, int | None] = dict.fromkeys(("span", "compute", "communication", "overlap", "idle"))
    if columns.start.any():
        timed = columns.duration > 0
        span = int(end[timed].max(initial=0) - start[timed].min(initial=int(end.max(initial=0))))
        a, b = (_union(start[mask], end[mask]) for mask in (compute, gpu & comm))
        every = _length(_union(start[gpu], end[gpu]))
        both = _length(_union(np.concatenate([a[0], b[0]]), np.concatenate([a[1], b[1]])))
        found = {"span": span, "compute": _length(a), "communication": _length(b),
                 "overlap": _length(a) + _length(b) - both, "idle": max(0, span - every)}
    return Times(collectives=_collectives(columns, texts, groups), longest=_longest(columns, gpu), **found)


def _union(start: npt.NDArray[np.int64], end: npt.NDArray[np.int64]) -> Intervals:
    """Disjoint intervals that cover the same time."""
    if not start.size:
        return start, end
    order = np.argsort(start, kind="stable")
    start, end = start[order], np.maximum.accumulate(end[order])
    fresh = np.concatenate([[True], start[1:] > end[:-1]])
    return start[fresh], np.append(end[:-1][fresh[1:]], end[-1])


def _length(intervals: Intervals) -> int:
    return int((intervals[1] - intervals[0]).sum())


def collectives_from_last_arrival(traces: Traces) -> tuple[CollectiveTime, ...]:
    """Collectives of all ranks from the arrival of the last one: of each the shortest recorded time of its members,
    which has no waiting for others in it where all members have a trace. busbw is the median by bytes: half of the
    bytes went at this rate or faster, so that single ones whose last member has no trace do not count. Only
    collectives that two ranks or more have recorded. The k-th on a group of one rank is the k-th of the others."""
    shortest: dict[tuple[Key, str, int], list[int]] = {}
    groups = groups_of(traces)
    for number, columns in enumerate(traces.classes):
        counted: dict[tuple[Key, str], int] = {}
        for kind, name, size, time in _recorded(columns, traces.texts, groups):
            place = counted.get((kind, name), 0)
            counted[kind, name] = place + 1
            found = shortest.setdefault((kind, name, place), [size, time, 0])
            found[1] = min(found[1], time)
            found[2] += len(traces.members(number))
    rows = _sorted((kind, size, time) for (kind, _, _), (size, time, ranks) in shortest.items() if ranks > 1)
    return tuple(replace(_collective(*kind, pairs), busbw=_collective(*kind, [_median(pairs)]).busbw)
                 for kind, pairs in rows)


def _median(pairs: list[tuple[int, int]]) -> tuple[int, int]:
    """The (bytes, us) of the median rate by bytes."""
    order = sorted(pairs, key=lambda pair: pair[0] / pair[1], reverse=True)
    half, passed = sum(size for size, _ in pairs) / 2, 0
    for pair in order:
        passed += pair[0]
        if passed >= half:
            return pair
    return order[-1]


def _collectives(columns: Columns, texts: tuple[str, ...],
                 groups: Mapping[str, tuple[int, ...]]) -> tuple[CollectiveTime, ...]:
    rows = _sorted((kind, size, time) for kind, _, size, time in _recorded(columns, texts, groups))
    return tuple(_collective(*kind, pairs) for kind, pairs in rows)


def _recorded(columns: Columns, texts: tuple[str, ...], groups: Mapping[str, tuple[int, ...]]
              ) -> Iterator[tuple[Key, str, int, int]]:
    """Collectives that have a recorded time: what, group, bytes, us."""
    sizes = {group_key(name): len(members) for name, members in groups.items()}
    world = next((a.value for a in decode_metadata(columns.metadata).attrs if a.name == "world_size"), None)
    asked = logical_ops(columns)
    group = columns.group[0] if len(columns.group) else np.zeros(0, np.int32)
    for node, number in zip(columns.comm_node.tolist(), group.tolist(), strict=True):
        if columns.type[node] != NodeKind.COMM_COLL or not columns.duration[node] or not columns.has(
                Attr.COMM_TYPE)[node]:
            continue
        name = group_key(texts[number]) if number >= 0 else ""
        ranks = sizes.get(name, world if name in ("", "0") and isinstance(world, int) and world > 0 else None)
        kind = int(columns.comm_type[node]), asked.get(node, ""), ranks
        yield kind, name, int(columns.comm_size[node]), int(columns.duration[node])


def _sorted(found: Iterable[tuple[Key, int, int]]) -> list[tuple[Key, list[tuple[int, int]]]]:
    """(bytes, us) by operation and number of ranks."""
    rows: dict[Key, list[tuple[int, int]]] = {}
    for kind, size, time in found:
        rows.setdefault(kind, []).append((size, time))
    return sorted(rows.items(), key=lambda row: (*row[0][:2], row[0][2] or 0))


def _collective(op: int, logical: str, ranks: int | None, pairs: list[tuple[int, int]]) -> CollectiveTime:
    size, time = (sum(pair[side] for pair in pairs) for side in (0, 1))
    known = op in set(CommOp)
    word = CommOp(op).name.lower() if known else str(op)
    rate = busbw(CommOp(op), size, ranks, time * NS_PER_US) if ranks and known and op != CommOp.BARRIER else None
    return CollectiveTime(labelled(word, logical or None), ranks, len(pairs), size, time, rate)


def _longest(columns: Columns, gpu: npt.NDArray[np.bool_]) -> tuple[tuple[str, int, int], ...]:
    """GPU operations by name, the ten that take longest together."""
    sums: dict[str, list[int]] = {}
    duration = columns.duration
    for node in np.flatnonzero(gpu).tolist():
        entry = sums.setdefault(columns.name(node), [0, 0])
        entry[0] += 1
        entry[1] += int(duration[node])
    order = sorted(sums.items(), key=lambda item: (-item[1][1], item[0]))
    return tuple((name, count, time) for name, (count, time) in order[:LONGEST])


def time_tables(times: Times) -> list[Table]:
    """`Times` as tables for printing; no table if no duration is recorded."""
    tables = []
    if times.span:
        rows = [(word, format_time(value * NS_PER_US), f"{value / times.span:.1%}") for word, value in (
            ("from first to last", times.span), ("GPU computes", times.compute), ("GPU communicates",
            times.communication), ("both at once", times.overlap), ("GPU idle", times.idle)) if value is not None]
        tables.append(Table("over time, as recorded", "<>>", rows, ("what", "time", "share")))
    tables += _of_collectives("collectives, as recorded (waiting for other ranks included)", times.collectives)
    if times.longest:
        tables.append(Table("longest GPU operations", "<>>", [
            (name if len(name) <= 60 else f"{name[:57]}...", f"{count:,}", format_time(time * NS_PER_US))
            for name, count, time in times.longest], ("name", "count", "time")))
    return tables


def last_arrival_tables(found: tuple[CollectiveTime, ...], ranks: int) -> list[Table]:
    """`collectives_from_last_arrival` as a table; `ranks`: how many have a trace."""
    most = max((each.ranks or 0 for each in found), default=0)
    some = f"\n{ranks} of {most} ranks have a trace: where another came last, waiting for it is in the time" \
        if ranks < most else ""
    return _of_collectives(f"collectives of {ranks} ranks from the arrival of the last one (the shortest recorded time "
                           f"of each){some}", found, "busbw (median)")


def _of_collectives(title: str, found: tuple[CollectiveTime, ...], rate: str = "busbw") -> list[Table]:
    return [] if not found else [Table(title, "<>>>>>", [
        (each.op, "?" if each.ranks is None else f"{each.ranks:,}", f"{each.count:,}", format_bytes(each.size),
         format_time(each.recorded_us * NS_PER_US), "?" if each.busbw is None else format_rate(each.busbw))
        for each in found], ("operation", "ranks", "count", "bytes", "time", rate))]
