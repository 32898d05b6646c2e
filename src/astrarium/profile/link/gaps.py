"""Time in which a stream is idle although everything that an operation waits for is done: nodes of their own."""

from __future__ import annotations

from bisect import bisect_right

from msgspec import Struct

from astrarium.profile.link.calls import Calls
from astrarium.profile.link.nodes import GAP, Draft
from astrarium.profile.link.records import DeviceTrace

__all__ = ["Gaps", "fill_gaps"]

QUEUED = 500         # ns: shorter gaps between operations of a stream vanish in Chakra's whole microseconds
LATE = 20_000        # ns: an operation that begins later than this after its launch waited for something
NEAR = 20_000        # ns: begin of a late operation after the end of one of another stream that explains it
TAIL = 50_000        # ns: begin of a late operation before the end of one of another stream that explains it
TAIL_SHARE = 0.1     # of that operation: the same
LOOK_BACK = 16       # operations that are looked through for one of another stream


class Gaps(Struct):
    """What was added: `nodes` of `time` ns in all; `waits` of one stream for another that explain late operations, and
    how many of these end the other `clipped` where the late one begins."""

    nodes: int = 0
    time: int = 0
    waits: int = 0
    clipped: int = 0


def fill_gaps(trace: DeviceTrace, calls: Calls, draft: Draft) -> Gaps:
    """Nodes before GPU operations (the first nodes of `draft`) that begin later than their dependencies explain.

    Such a node waits for the last of what the operation waits for and lasts until the operation begins: the gap between
    two kernels, the latency of a launch, what the GPU had to do before the trace began. Faster kernels do not shorten
    it. An operation that is late by `LATE` waits for one on another stream that ended within `NEAR` before it began, or
    whose last blocks were running then (`_tail`). One that queued behind others gets the latency that launches have
    when nothing is queued: it does not count unless the others become faster.
    """
    found, gpu = Gaps(), trace.gpu
    count = len(gpu.name)
    if not count:
        return found
    origin = min(draft.start)
    last, launch = _last_parents(draft, count)
    _late(trace, draft, last, found)
    latencies, queued = list[int](), list[int]()
    for g in range(count):
        parent, start = last[g], gpu.start[g]
        ready = draft.end[parent] if parent >= 0 else origin
        if parent < count:
            queued.append(g)
        elif start - ready <= LATE:
            latencies.append(start - ready)
        if start - ready >= QUEUED:
            _gap(draft, g, gpu.stream[g], parent, ready, start)
            found.nodes += 1
            found.time += start - ready
    _latencies(trace, calls, draft, [(g, launch[g]) for g in queued if launch[g] >= 0], latencies)
    return found


def _late(trace: DeviceTrace, draft: Draft, last: list[int], found: Gaps) -> None:
    """Adds what late operations wait for on other streams, to `draft` and to `last`."""
    gpu, origin = trace.gpu, min(draft.start)
    by_end = sorted(range(len(last)), key=lambda g: (gpu.end[g], g))
    ends = [gpu.end[g] for g in by_end]
    for g, parent in enumerate(last):
        start = gpu.start[g]
        ready = draft.end[parent] if parent >= 0 else origin
        if start - ready <= LATE:
            continue
        other = _other(trace, by_end, bisect_right(ends, start), g)
        if other < 0 or max(ready, start - NEAR) >= gpu.end[other]:
            other = _tail(trace, by_end, ends, g)
            if other < 0:
                continue
            gpu.end[other] = draft.end[other] = min(gpu.end[other], start)
            found.clipped += 1
        draft.edge(other, g)
        last[g], found.waits = other, found.waits + 1


def _tail(trace: DeviceTrace, by_end: list[int], ends: list[int], g: int) -> int:
    """The operation on another stream in whose tail `g` began: its last blocks left room for those of `g`. -1 where
    there is none."""
    gpu, start = trace.gpu, trace.gpu.start[g]
    device = trace.stream_names[gpu.stream[g]][0]
    place = bisect_right(ends, start)
    for h in by_end[place:place + LOOK_BACK]:
        overlap = gpu.end[h] - start
        if overlap > TAIL:
            break
        if (gpu.stream[h] != gpu.stream[g] and trace.stream_names[gpu.stream[h]][0] == device
                and overlap <= TAIL_SHARE * (gpu.end[h] - gpu.start[h])):
            return h
    return -1


def _gap(draft: Draft, g: int, stream: int, before: int, start: int, end: int) -> None:
    node = draft.node(start, end, GAP, g, -2 - stream)
    if before >= 0:
        draft.edge(before, node)
    draft.edge(node, g)


def _latencies(trace: DeviceTrace, calls: Calls, draft: Draft, queued: list[tuple[int, int]],
               latencies: list[int]) -> None:
    """The usual latency after the launch of operations that queued: (operation, its launch). A copy that its call waits
    for has it in the call."""
    usual = sorted(latencies)[len(latencies) // 2] if latencies else 0
    if usual < QUEUED:
        return
    for g, before in queued:
        call = calls.launcher.get(g, -1)
        if call not in calls.waits and draft.end[before] + usual <= trace.gpu.start[g]:
            _gap(draft, g, trace.gpu.stream[g], before, draft.end[before], draft.end[before] + usual)


def _last_parents(draft: Draft, count: int) -> tuple[list[int], list[int]]:
    """Per GPU operation the dependency that ends last, and of those on the host the one that does; -1 where it has
    none."""
    last, launch, end = [-1] * count, [-1] * count, draft.end
    for before, after in zip(draft.before, draft.after, strict=True):
        if after < count:
            if last[after] < 0 or end[before] > end[last[after]]:
                last[after] = before
            if before >= count and (launch[after] < 0 or end[before] > end[launch[after]]):
                launch[after] = before
    return last, launch


def _other(trace: DeviceTrace, by_end: list[int], place: int, g: int) -> int:
    """The last operation to end before a place that ran on another stream of the same device and began before `g`."""
    gpu, mine = trace.gpu, trace.gpu.stream[g]
    device = trace.stream_names[mine][0]
    for h in by_end[max(place - LOOK_BACK, 0):place][::-1]:
        if gpu.stream[h] != mine and trace.stream_names[gpu.stream[h]][0] == device and gpu.start[h] < gpu.start[g]:
            return h
    return -1
