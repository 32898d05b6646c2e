"""Profiled traces natively: ranks begin when they began, and each group's collectives are issued in recorded order.

A dependency graph alone does not hold that order: gloo runs a group's operations on several threads, so on a slower
network a later one may become ready first, on one rank and not on the other.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from astrarium.arrays import I64
from astrarium.design import Design
from astrarium.engine.plan import CollectivePlan, Lane
from astrarium.errors import TraceError
from astrarium.lower.distinct import distinct
from astrarium.lower.recorded_meetings import with_meetings
from astrarium.lower.work import Work, named_groups, replays_everything
from astrarium.profile.clocks import clocks_of, refuse_apart
from astrarium.trace.columns import Columns, Traces
from astrarium.trace.graph import runs_through
from astrarium.trace.work import TraceClass
from astrarium.vocab import NodeKind
from astrarium.workload.config import Trace

__all__ = ["as_recorded"]

PS_PER_NS = 1000


def as_recorded(design: Design, work: Work, traces: Traces, process_groups: int
                ) -> tuple[Work, tuple[CollectivePlan, ...]]:
    """The work of a design whose traces a profiler wrote, with what they say beyond the dependency graph; any other
    work as it is. A design that replays everything gets its collectives back as the plans of meetings (see
    `recorded_meetings`).

    Raises InputError as `refuse_apart` does, and for groups that cannot be read.
    """
    workload, replays = design.workload, replays_everything(design)
    if not isinstance(workload, Trace) or not traces.is_recorded or (replays and traces.ranks == 1):
        return work, ()
    try:
        groups = named_groups(workload, traces)
    except TraceError:
        if not replays:
            raise
        groups = {}     # the command says so: `trace_notes`
    clocks = clocks_of(traces, groups)
    meetings: tuple[CollectivePlan, ...] = ()
    if replays:
        work, meetings = with_meetings(work, traces, groups, clocks)
    classes = [part for trace, columns in zip(work.classes, traces.classes, strict=True)
               for part in _ordered(trace, columns, design.system.lanes(process_groups)[Lane.COMM])]
    if clocks is not None and workload.starts == "recorded":
        refuse_apart(traces, clocks)
        begin = clocks.begin * PS_PER_NS
        classes = [replace(part, begin=int(begin[part.ranks[0]])) for trace in classes
                   for part in _parts(trace, begin[trace.ranks])]
    return replace(work, classes=tuple(classes)), meetings


def _parts(trace: TraceClass, label: npt.NDArray[np.integer]) -> Iterator[TraceClass]:
    """The class in parts whose ranks have one `label` [ranks of the class]."""
    for value in dict.fromkeys(label.tolist()):
        chosen = label == value
        yield trace if chosen.all() else replace(trace, ranks=trace.ranks[chosen], slot_a=trace.slot_a[chosen],
                                                 slot_b=trace.slot_b[chosen])


# ------------------------------------------------------------ order of issue
def _ordered(trace: TraceClass, columns: Columns, streams: int) -> Iterator[TraceClass]:
    """The class with dependencies that hold the recorded order of each group's collectives.

    Its parts are ranks that divide their collectives among groups in the same way.
    """
    place = np.empty(columns.nodes, np.int64)
    place[np.argsort(columns.node_id, kind="stable")] = np.arange(columns.nodes)
    issued = place[columns.issue_order]
    if issued.size < 2:
        yield trace
        return
    by_id = np.argsort(place)
    begin = columns.start[by_id].astype(np.int64)
    times = begin, begin + columns.duration[by_id].astype(np.int64)
    group = _groups(trace, issued)
    patterns: dict[bytes, int] = {}
    labels = [np.unique(row, return_inverse=True)[1].reshape(-1) for row in group]
    pattern = np.array([patterns.setdefault(label.tobytes(), len(patterns)) for label in labels], np.int64)
    for part, number in zip(_parts(trace, pattern), dict.fromkeys(pattern.tolist()), strict=True):
        yield _chained(part, issued, group[int(np.argmax(pattern == number))], times, streams)


def _groups(trace: TraceClass, nodes: I64) -> npt.NDArray[np.int32]:
    """[ranks, nodes] the group of collective `nodes`."""
    comm = np.flatnonzero(np.isin(trace.type, (NodeKind.COMM_COLL, NodeKind.COMM_SEND, NodeKind.COMM_RECV)))
    slot = np.searchsorted(comm, nodes)
    return trace.slot_b[:, slot if trace.slot is None else trace.slot[slot]]


def _chained(trace: TraceClass, issued: I64, group: npt.NDArray[np.int32], times: tuple[I64, I64],
             streams: int) -> TraceClass:
    """In the order of issue, or in that of ids (in time) where a dependency contradicts it.

    Where there are fewer streams than groups, groups take turns in that order, too: else two ranks may each hold a
    stream with what the other has behind it.
    """
    groups = np.unique(group).tolist()
    at_once = max(1, streams // len(groups))
    for chosen in (np.arange(issued.size), np.argsort(issued, kind="stable")):
        more = [_edges(trace, issued[chosen][group[chosen] == each], times, at_once) for each in groups]
        if streams < len(groups):
            more.append(np.stack([issued[chosen][streams:], issued[chosen][:-streams]], axis=1))
        found = _with_edges(trace, np.concatenate(more))
        if runs_through(found.node_id, found.parent_ptr, found.parent):
            return found
    return trace


def _edges(trace: TraceClass, calls: I64, times: tuple[I64, I64], at_once: int) -> I64:
    """[edges, 2] (what waits, for what) that make one group's `calls` ready in that order.

    Each waits for the last one before it that had ended when it began, and for whatever those in between waited for:
    what ran side by side still does, but at most `at_once`, so that all find room and are issued as they become ready.
    Nodes that become ready together are issued in order of id, so one whose id is lower than that of the one before
    waits for its end.
    """
    begin, end = times
    found: list[tuple[int, int]] = []
    waits: dict[int, list[int]] = {}

    def own(node: int) -> list[int]:
        return list(trace.parent[trace.parent_ptr[node]:trace.parent_ptr[node + 1]].tolist())

    for number, call in enumerate(calls.tolist()):
        last = number - 1
        while last > number - at_once and last >= 0 and end[calls[last]] > begin[call] and calls[last] < call:
            last -= 1
        between = [each for other in calls[last + 1:number].tolist() for each in (*waits[other], *own(other))]
        waits[call] = list(dict.fromkeys([*calls[max(last, 0):last + 1].tolist(), *between]))
        found += [(call, each) for each in waits[call]]
    return np.array(found, np.int64).reshape(-1, 2)


def _with_edges(trace: TraceClass, more: I64) -> TraceClass:
    nodes = trace.node_id.size
    child = np.repeat(np.arange(nodes, dtype=np.int64), np.diff(trace.parent_ptr))
    edges = distinct(np.concatenate([child * nodes + trace.parent, more[:, 0] * nodes + more[:, 1]]))[0]
    child, parent = np.divmod(edges, nodes)
    pointer = np.zeros(nodes + 1, np.int64)
    np.cumsum(np.bincount(child, minlength=nodes), out=pointer[1:])
    return replace(trace, parent_ptr=pointer, parent=parent.astype(np.int32))
