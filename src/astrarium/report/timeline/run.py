"""A recorded run as a timeline for ui.perfetto.dev: a process per rank, a track per stream, arrows for messages.

Written rank by rank; what is held beside the run itself is one rank's slices and 8 bytes per message shown.
"""

from __future__ import annotations

import gzip
import heapq
from collections.abc import Callable, Sequence
from typing import IO, cast

import numpy as np
from msgspec import Struct

from astrarium.arrays import F64, I64
from astrarium.config.whole import write_whole
from astrarium.engine import Outcome, Plan
from astrarium.engine.plan import Kind, Lane, Program
from astrarium.errors import InputError, InternalError
from astrarium.report.timeline.events import TraceEvents, quoted
from astrarium.report.trace.names import node_names
from astrarium.result.source import Source, generated_class
from astrarium.trace.work import Generated
from astrarium.vocab import CommOp

__all__ = ["Counter", "Recorded", "assign", "write_timeline"]

STREAMS = {Lane.COMPUTE: "compute", Lane.COMM: "communication", Lane.CPU: "cpu", Lane.P2P: "point to point",
           Lane.COPY: "copy"}
PS_PER_NS = 1000
FIRST_TRACK = 1        # 0 is the process itself
RECEIVES, OTHER = "receives", "other"
ORDER = (*STREAMS.values(), RECEIVES, OTHER)
CATEGORY = {Kind.DELAY: "compute", Kind.COLLECTIVE: "collective", Kind.SEND: "send", Kind.RECV: "receive",
            Kind.REMOTE: "remote_memory"}


class Counter(Struct, frozen=True, eq=False):
    """A quantity of one rank, or of the network, over time: `value[i]` holds from `time[i]` (ps) on."""

    name: str
    unit: str
    time: I64
    value: I64 | F64


class Recorded(Struct, frozen=True, eq=False):
    """A run with its nodes' times (`engine.execute(record=True)`), and what names the nodes.

    `counters(rank)` are drawn below the rank's tracks, `network` below all ranks.
    """

    plan: Plan
    outcome: Outcome
    traces: Source | None = None
    counters: Callable[[int], Sequence[Counter]] = lambda rank: ()
    network: Sequence[Counter] = ()
    first_rank: int = 0     # the number under which rank 0 is shown
    label: Callable[[int], str] | None = None   # the name of a rank's tracks, in place of "rank 7"


def write_timeline(path: str, run: Recorded, *, ranks: Sequence[int] | None = None) -> int:
    """Write the timeline of `ranks` to `path`, compressed where it ends in .gz; the number of events.

    None means all ranks; of a folded run one rank of each class. Raises InputError for a rank that does not exist or
    a file that cannot be written.
    """
    shown = _shown(run, ranks)
    with write_whole(path) as raw:
        stream = cast(IO[bytes], gzip.GzipFile("", "wb", 5, raw, mtime=0)) if path.endswith(".gz") else raw
        with TraceEvents(stream) as events:
            flows = _Flows(run, shown)
            for rank in shown:
                _rank(events, run, rank, flows)
            if run.network:
                events.process(len(run.outcome.row), "network")
                _counters(events, len(run.outcome.row), run.network)
        if stream is not raw:
            stream.close()
    return events.written


def _shown(run: Recorded, ranks: Sequence[int] | None) -> list[int]:
    total = len(run.outcome.row)
    if ranks is None:
        first: list[int] = np.sort(np.unique(run.outcome.row, return_index=True)[1]).tolist()
        return first
    for rank in ranks:
        if not 0 <= rank < total:
            raise InputError("timeline ranks", f"there is no rank {rank}", expected=f"0 to {total - 1}")
    return sorted(set(ranks))


def _times(run: Recorded, rank: int) -> tuple[Program, I64, I64]:
    """(program, start, end) of a rank. Raises InputError where the run kept no times."""
    if len(run.outcome.node_ptr) != len(run.outcome.finish) + 1:
        raise InputError("timeline", "node times were not recorded", expected="a run with record=True")
    program = run.plan.programs[run.plan.program_of[rank]]
    row = run.outcome.row[rank]
    first, last = run.outcome.node_ptr[row:row + 2]
    if last - first != len(program.node_id):
        raise InternalError(f"rank {rank}: {last - first} recorded nodes, its program has {len(program.node_id)}")
    return program, run.outcome.start[first:last], run.outcome.end[first:last]


class _Flows:
    """Arrows: the k-th send of (source, destination, tag, size) meets the k-th receive, each in order of issue."""

    def __init__(self, run: Recorded, shown: Sequence[int]) -> None:
        send, recv = (_ends(run, shown, kind) for kind in (Kind.SEND, Kind.RECV))
        both = np.concatenate([send, recv])
        _, number, count = np.unique(both[:, :5], axis=0, return_inverse=True, return_counts=True)
        number = number.reshape(-1)
        number = np.where(count[number] == 2, number, -1)      # the other end is not shown: no arrow
        left = np.zeros(len(count), np.int64)                  # when each message left
        left[number[:len(send)]] = send[:, 7]
        at = both[:, 7].copy()
        late = np.maximum(recv[:, 7], recv[:, 8] - PS_PER_NS)  # inside: at its end it would belong to no slice
        at[len(send):] = np.maximum(late, left[number[len(send):]])
        rows = zip(both[:, 5:7].tolist(), number.tolist(), at.tolist(), strict=True)
        self._of = {(rank, node): (flow, time) for (rank, node), flow, time in rows if flow >= 0}

    def find(self, rank: int, node: int) -> tuple[int, int] | None:
        """(number, time) of the arrow that starts or ends in a node, None where there is none."""
        return self._of.get((rank, node))


def _ends(run: Recorded, shown: Sequence[int], kind: Kind) -> I64:
    """[messages, 9] source, destination, tag, size, k, rank, node index, start, end of the sends (receives) shown."""
    tables = [np.zeros((0, 9), np.int64)]
    for rank in shown:
        program, start, end = _times(run, rank)
        nodes = np.flatnonzero(program.kind == kind)
        nodes = nodes[np.argsort(start[nodes], kind="stable")]
        slot = run.plan.slot_ptr[rank] + program.slot[nodes]
        own, peer = np.full(len(nodes), rank), run.plan.slot_a[slot].astype(np.int64)
        ends = (own, peer) if kind == Kind.SEND else (peer, own)
        key = np.stack([*ends, run.plan.slot_b[slot], program.size[nodes]], axis=1)
        tables.append(np.column_stack([key, _occurrence(key), own, nodes, start[nodes], end[nodes]]))
    return np.concatenate(tables)


def _occurrence(key: I64) -> I64:
    """[rows] how many equal rows came before."""
    order = np.lexsort(key.T)
    ordered = key[order]
    fresh = np.ones(len(key), np.bool_)
    fresh[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    first = np.maximum.accumulate(np.where(fresh, np.arange(len(key)), 0))
    found = np.empty(len(key), np.int64)
    found[order] = np.arange(len(key)) - first
    return found


def _rank(events: TraceEvents, run: Recorded, rank: int, flows: _Flows) -> None:
    program, start, end = _times(run, rank)
    nodes = np.flatnonzero((program.kind != Kind.SKIP) & (end >= start) & (start >= 0)).tolist()
    begin, until = start[nodes].tolist(), end[nodes].tolist()
    tiers = (program.kind == Kind.DELAY) & (program.size > 0)        # transfers to and from tiers of memory
    kinds, lanes = np.where(tiers, Kind.REMOTE, program.kind)[nodes].tolist(), program.lane[nodes].tolist()
    apart = {Kind.RECV: RECEIVES, Kind.REMOTE: STREAMS[Lane.COPY]}
    streams = [STREAMS[Lane(lane)] if lane >= 0 else apart.get(kind, OTHER)
               for lane, kind in zip(lanes, kinds, strict=True)]
    tracks = assign(streams, begin, until, ORDER)
    events.process(rank, f"rank {run.first_rank + rank}" if run.label is None else run.label(rank))
    for tid, name in enumerate(tracks.names, start=FIRST_TRACK):
        events.thread(rank, tid, name)
    names, about = _names(run, rank, program), _About(run.plan, rank, program)
    for i in sorted(range(len(nodes)), key=lambda i: (begin[i], tracks.of[i])):
        node, kind, tid = nodes[i], Kind(kinds[i]), tracks.of[i] + FIRST_TRACK
        events.slice(rank, tid, quoted(names[node] or kind.name.lower()), CATEGORY[kind], begin[i], until[i],
                     about.text(node, kind))
        flow = flows.find(rank, node) if kind in (Kind.SEND, Kind.RECV) else None
        if flow is not None:
            (events.flow_start if kind == Kind.SEND else events.flow_end)(rank, tid, *flow)
    _counters(events, rank, run.counters(rank))


def _counters(events: TraceEvents, process: int, counters: Sequence[Counter]) -> None:
    for counter in counters:
        for time, value in zip(counter.time.tolist(), counter.value.tolist(), strict=True):
            events.counter(process, counter.name, time, {counter.unit: value})


def _names(run: Recorded, rank: int, program: Program) -> Sequence[str]:
    """A name per node of the program."""
    if run.traces is None:
        return [""] * len(program.node_id)
    if isinstance(run.traces, Generated):
        name = generated_class(run.traces, rank).names
        return [""] * len(program.node_id) if name is None else [name(i) for i in range(len(program.node_id))]
    columns, _ = run.traces.of(rank)
    order = np.argsort(columns.node_id, kind="stable")
    known, names = columns.node_id[order], node_names(run.traces, rank)
    at = np.minimum(np.searchsorted(known, program.node_id), max(len(known) - 1, 0))
    found = known[at] == program.node_id if len(known) else np.zeros(len(program.node_id), np.bool_)
    return [names[order[i]] if there else "" for i, there in zip(at.tolist(), found.tolist(), strict=True)]


class _About:
    """What a click on a slice shows: node id and, for communication, bytes, peer, tag, operation and group."""

    def __init__(self, plan: Plan, rank: int, program: Program) -> None:
        self.plan, self.program, self.base = plan, program, int(plan.slot_ptr[rank])
        self.ids, self.sizes, self.slots = program.node_id.tolist(), program.size.tolist(), program.slot.tolist()

    def text(self, node: int, kind: Kind) -> str:
        """The args of a slice, as JSON."""
        parts = [f'"node":{self.ids[node]}']
        if kind in (Kind.COLLECTIVE, Kind.SEND, Kind.RECV, Kind.REMOTE):
            parts.append(f'"bytes":{self.sizes[node]}')
        if kind in (Kind.COLLECTIVE, Kind.SEND, Kind.RECV):
            slot = self.base + self.slots[node]
            first, second = int(self.plan.slot_a[slot]), int(self.plan.slot_b[slot])
            collective = kind == Kind.COLLECTIVE
            parts.append(self._collective(first, second) if collective else f'"peer":{first},"tag":{second}')
        return "{" + ",".join(parts) + "}"

    def _collective(self, collective: int, group: int) -> str:
        op = CommOp(self.plan.collectives[collective].op).name.lower()
        ranks = self.plan.npus if group < 0 else len(self.plan.groups[group])
        return f'"op":"{op}","ranks":{ranks}'


class Tracks(Struct, frozen=True):
    """`of` [nodes] is a node's track; `names` the tracks' names, by number from 0."""

    of: tuple[int, ...]
    names: tuple[str, ...]


def assign(streams: Sequence[str], start: Sequence[int], end: Sequence[int], order: Sequence[str]) -> Tracks:
    """Tracks for nodes of one rank: on none do two slices overlap (slices of one track must nest to be drawn).

    Nodes go, by start, to the track of their stream that has been free longest enough: the lowest free one. Streams are
    numbered in the order of `order`.
    """
    place: dict[str, list[int]] = {}
    for node, stream in enumerate(streams):
        place.setdefault(stream, []).append(node)
    of, names = [0] * len(streams), list[str]()
    for stream in sorted(place, key=order.index):
        base, count = len(names), 0
        free: list[int] = []                      # heap of local numbers
        busy: list[tuple[int, int]] = []          # heap of (end, local number)
        for node in sorted(place[stream], key=lambda node: (start[node], end[node])):
            while busy and busy[0][0] <= start[node]:
                heapq.heappush(free, heapq.heappop(busy)[1])
            if not free:
                heapq.heappush(free, count)
                count += 1
            track = heapq.heappop(free)
            of[node] = base + track
            heapq.heappush(busy, (end[node], track))
        names += [stream if number == 0 else f"{stream} ({number + 1})" for number in range(count)]
    return Tracks(tuple(of), tuple(names))
