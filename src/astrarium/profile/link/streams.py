"""Order on the GPU: each stream one after the other, and streams that wait for each other."""

from __future__ import annotations

from msgspec import Struct

from astrarium.profile.link.calls import Calls, next_launches
from astrarium.profile.link.queues import Queues
from astrarium.profile.link.records import DeviceTrace

__all__ = ["GpuEdges", "gpu_edges"]

MOST_AT_ONCE = 128   # operations of one stream at once (concurrent kernels of the largest GPUs)
CONCURRENT = 0.5     # share of the earlier operation by which two of one stream overlap, from which on they ran at once


class GpuEdges(Struct):
    """Dependencies between GPU operations: `before[i]` must end before `after[i]` starts."""

    before: list[int]
    after: list[int]
    stream_order: int = 0
    waits: int = 0             # of one stream for another
    inferred: int = 0          # of those, how many from times rather than from Kineto's own records
    clipped: int = 0           # operations shortened to where the next one on the stream began


def gpu_edges(trace: DeviceTrace, calls: Calls) -> GpuEdges:
    """Stream order and waits between streams; no edge goes back in measured time.

    Operations of one stream that overlap a little (programmatic dependent launch, rounding) stay in order, and the
    earlier one ends where the later begins; those that overlap by more than `CONCURRENT` of the earlier one (branches
    of a CUDA graph) ran at once.
    """
    edges = GpuEdges([], [])
    gpu = trace.gpu
    by_stream: list[list[int]] = [[] for _ in trace.stream_names]
    for g in sorted(range(len(gpu.name)), key=lambda g: (gpu.start[g], gpu.end[g], g)):
        by_stream[gpu.stream[g]].append(g)
    for operations in by_stream:
        _in_order(trace, operations, edges)
    edges.stream_order = len(edges.before)
    _waits(trace, calls, edges)
    return edges


def _in_order(trace: DeviceTrace, operations: list[int], edges: GpuEdges) -> None:
    start, end = trace.gpu.start, trace.gpu.end
    running: list[int] = []        # without a successor so far
    done = -1                      # the last to end of those that have one
    for g in operations:
        at = start[g]
        for h in running:
            overlap = end[h] - at
            if 0 < overlap <= CONCURRENT * (end[h] - start[h]) and at > start[h]:
                end[h] = at
                edges.clipped += 1
        ended = [h for h in running if end[h] <= at]
        if ended:
            running = [h for h in running if end[h] > at]
            edges.before += ended
            edges.after += [g] * len(ended)
            done = max((*ended, done) if done >= 0 else ended, key=lambda h: (end[h], h))
        elif done >= 0:
            edges.before.append(done)
            edges.after.append(g)
        if len(running) == MOST_AT_ONCE:      # more than hardware runs: the first to end goes before
            first = min(running, key=lambda h: (end[h], h))
            running.remove(first)
            edges.before.append(first)
            edges.after.append(g)
        running.append(g)


def _waits(trace: DeviceTrace, calls: Calls, edges: GpuEdges) -> None:
    gpu = trace.gpu
    look = calls.queues
    assert look is not None
    told = _told(trace, look, edges)
    rest = [call for call in calls.stream_waits if trace.calls.key[call] not in told]
    waited: dict[tuple[int, int], int] = {}
    for call, launched in next_launches(trace, calls, rest).items():
        mine = gpu.stream[launched]
        first = look.first(mine, trace.calls.start[call])
        assert first is not None
        for stream in range(len(look.queued)):
            if stream == mine:
                continue
            before = look.last(stream, trace.calls.start[call], gpu.start[first])
            if before is not None and waited.get((mine, stream), -1) != before:
                waited[mine, stream] = before
                edges.before.append(before)
                edges.after.append(first)
                edges.waits += 1
                edges.inferred += 1


def _told(trace: DeviceTrace, look: Queues, edges: GpuEdges) -> set[int]:
    """Waits that Kineto recorded (`cuda_sync`); returns the calls (correlation ids) that they explain."""
    start = {key: at for key, at in zip(trace.calls.key, trace.calls.start, strict=True) if key >= 0}
    told: set[int] = set()
    for sync in trace.syncs:
        if "stream wait" not in sync.kind.lower() or sync.stream is None or sync.wait_on is None:
            continue
        recorded = start.get(sync.record_call)
        if recorded is None:
            continue
        told.add(sync.correlation)
        after = look.first(sync.stream, start.get(sync.correlation, sync.start))
        before = None if after is None else look.last(sync.wait_on, recorded, trace.gpu.start[after])
        if after is not None and before is not None and before != after:
            edges.before.append(before)
            edges.after.append(after)
            edges.waits += 1
    return told
