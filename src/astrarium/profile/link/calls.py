"""Runtime calls: which launch GPU work, which wait for it, and where each leaves the host thread free to go on."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate

from msgspec import Struct, field

from astrarium.profile.link.orphans import adopted, cut_corrupt, launches_of
from astrarium.profile.link.queues import Queues
from astrarium.profile.link.records import MEMCPY, DeviceTrace

__all__ = ["Calls", "classified"]

_SYNC = re.compile(r"(cuda|hip|cu|hc)(Ctx|Device|Stream|Event)Synchronize(_ptsz)?", re.IGNORECASE)
_DEVICE = re.compile(r"(cuda|hip|cu)(Ctx|Device)Synchronize(_ptsz)?", re.IGNORECASE)
_WAIT = re.compile(r"(cuda|hip|cu)StreamWaitEvent(_ptsz)?", re.IGNORECASE)
COPY_SETUP = 10_000      # ns: most host time that a blocking copy takes before it waits; see docs/background/linking.md
FULL_QUEUE = 256         # operations in flight on a stream from which on a slow launch means a full queue
SLOW_LAUNCH = 200_000    # ns: what is slow


class Calls(Struct):
    """What is known of runtime calls, by call number.

    `launched[c]`: GPU operations of call c, by start. `cut[c]`: when the host is done with a launch (ns), before it
    waits or goes on. `waits[c]`: GPU operations that the rest of the call waits for; `drained` are calls after which
    nothing was left to run. `stream_waits`: calls that make
    one stream wait for another, by start.
    """

    launched: dict[int, list[int]] = field(default_factory=dict)
    launcher: dict[int, int] = field(default_factory=dict)
    cut: dict[int, int] = field(default_factory=dict)
    waits: dict[int, list[int]] = field(default_factory=dict)
    drained: set[int] = field(default_factory=set)
    stream_waits: list[int] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    queues: Queues | None = None
    setup: int = COPY_SETUP            # ns of host time of a blocking copy before it waits
    gpu_end: Sequence[int] = ()         # ns, of every GPU operation as it was measured
    skew: int = 0                      # ns that GPU times were moved
    orphans: int = 0                   # GPU operations without a launching call
    adopted: dict[int, int] = field(default_factory=dict)     # communication kernel -> operator, matched in order
    corrupt: int = 0                   # GPU operations that ran over the next of their stream, and were cut there
    twins: int = 0                     # correlation ids that two calls share
    blocked: int = 0                   # calls that waited for GPU work

    def return_by(self, call: int, end: int) -> None:
        """A call that cannot have waited for what ended later."""
        if call in self.waits:
            self.waits[call] = [g for g in self.waits[call] if self.gpu_end[g] <= end]


MISJOINED = 1_000_000    # ns that an operation may start before its launch; beyond, the ids do not belong together


def classified(trace: DeviceTrace) -> Calls:
    """Joins calls and GPU operations by correlation id and finds what every call waits for. Moves GPU times by a
    constant where some operation starts before its launch, or ends after the device was waited for: the two clocks
    differ."""
    calls = Calls()
    _launches(trace, calls)
    calls.corrupt = cut_corrupt(trace, calls.launcher, calls.launched)
    _unskew(trace, calls)
    calls.gpu_end = list(trace.gpu.end)
    order = _Waits(trace, calls)
    calls.queues = order.queues
    calls.setup = _setup(trace, calls)
    by_correlation = {sync.correlation: sync for sync in trace.syncs if sync.correlation >= 0}
    record_start = dict(zip(trace.calls.key, trace.calls.start, strict=True))
    for call, name in enumerate(trace.calls.name):
        if call in calls.launched:
            _launch(trace, calls, order, call)
        elif _SYNC.fullmatch(name):
            sync = by_correlation.get(trace.calls.key[call])
            recorded = record_start.get(sync.record_call) if sync and sync.record_call >= 0 else None
            stream = None if sync is None else sync.stream if sync.wait_on is None else sync.wait_on
            calls.waits[call] = order.waited(call, name, stream, recorded)
            calls.blocked += any(trace.gpu.end[g] > trace.calls.start[call] for g in calls.waits[call])
        elif _WAIT.fullmatch(name):
            calls.stream_waits.append(call)
    calls.drained = {call for call in calls.waits if order.queues.idle(trace.calls.start[call], trace.calls.end[call])}
    calls.stream_waits.sort(key=lambda call: (trace.calls.start[call], call))
    calls.kept = sorted(calls.launched.keys() | calls.waits.keys())
    return calls


def _launches(trace: DeviceTrace, calls: Calls) -> None:
    wanted = set(trace.gpu.correlation)
    wanted.discard(-1)
    by_key: dict[int, int] = {}
    for call, key in enumerate(trace.calls.key):
        if key in wanted:
            calls.twins += key in by_key
            by_key.setdefault(key, call)
    for operation, key in enumerate(trace.gpu.correlation):
        call = by_key.get(key, -1)
        if call >= 0 and trace.gpu.start[operation] > trace.calls.start[call] - MISJOINED:
            calls.launcher[operation] = call
            calls.launched.setdefault(call, []).append(operation)
        else:
            calls.orphans += 1
    calls.adopted = adopted(trace, calls.launcher) if calls.orphans else {}
    inside = launches_of(trace, calls.adopted.values(), calls.launched) if calls.adopted else {}
    for operation, number in calls.adopted.items():
        if number in inside:
            calls.launcher[operation], calls.launched[inside[number]] = inside[number], [operation]
            calls.orphans -= 1
    for operations in calls.launched.values():
        operations.sort(key=lambda g: (trace.gpu.start[g], g))


def _unskew(trace: DeviceTrace, calls: Calls) -> None:
    early = max((trace.calls.start[call] - trace.gpu.start[g] for g, call in calls.launcher.items()), default=0)
    late = _late(trace, calls) if early < 0 else 0
    calls.skew = early if early > 0 else -late if late <= -early else 0
    if calls.skew:
        for times in (trace.gpu.start, trace.gpu.end):
            for place in range(len(times)):
                times[place] = max(times[place] + calls.skew, 0)


def _late(trace: DeviceTrace, calls: Calls) -> int:
    """By how many ns at most an operation ended after a call that waits for the whole device and for all before it."""
    launches = sorted((trace.calls.end[call], g) for g, call in calls.launcher.items())
    latest = list(accumulate((trace.gpu.end[g] for _, g in launches), max))
    most = 0
    for call, name in enumerate(trace.calls.name):
        if _DEVICE.fullmatch(name):
            place = bisect_right(launches, (trace.calls.start[call], len(trace.gpu.name))) - 1
            most = max(most, latest[place] - trace.calls.end[call]) if place >= 0 else most
    return most


def _setup(trace: DeviceTrace, calls: Calls) -> int:
    """ns from the begin of a blocking copy's call to that of the copy where nothing is queued before it."""
    gpu = trace.gpu
    return min((gpu.start[g] - trace.calls.start[call] for g, call in calls.launcher.items()
                if gpu.kind[g] == MEMCPY and gpu.end[g] <= trace.calls.end[call]
                and gpu.start[g] - trace.calls.start[call] < COPY_SETUP), default=COPY_SETUP)


def _launch(trace: DeviceTrace, calls: Calls, order: _Waits, call: int) -> None:
    """Where a launching call is cut, and what its rest waits for."""
    start, end = trace.calls.start[call], trace.calls.end[call]
    operations = calls.launched[call]
    first = trace.gpu.start[operations[0]]
    cut = min(end, max(start, first))
    last = operations[-1]
    if trace.gpu.kind[last] == MEMCPY and trace.gpu.end[last] <= end:
        calls.waits[call] = [last]
        cut = min(cut, start + calls.setup)
        calls.blocked += 1
    elif end - start > SLOW_LAUNCH:
        waited = order.full_queue(call, trace.gpu.stream[operations[0]])
        if waited is not None:
            calls.waits[call] = [waited]
            cut = min(cut, start + COPY_SETUP)
            calls.blocked += 1
    calls.cut[call] = cut


class _Waits:
    """What synchronising calls and slow launches wait for."""

    def __init__(self, trace: DeviceTrace, calls: Calls) -> None:
        self.trace, self.queues = trace, Queues(trace, calls.launcher)
        self.by_thread: dict[int, tuple[list[int], list[int]]] = {}
        for call in sorted(calls.launched, key=lambda c: (trace.calls.start[c], c)):
            starts, streams = self.by_thread.setdefault(trace.calls.thread[call], ([], []))
            starts.append(trace.calls.start[call])
            streams.append(trace.gpu.stream[calls.launched[call][0]])

    def waited(self, call: int, name: str, stream: int | None, recorded: int | None) -> list[int]:
        """What a synchronising call waited for: what Kineto says; else what had ended when it returned.

        A device is waited for with all its streams; a stream is the one on which the thread launched last; an event is
        known only where something ended during the call, and then what ended last.
        """
        start, end = self.trace.calls.start[call], self.trace.calls.end[call]
        if stream is not None:
            found = self.queues.last(stream, start if recorded is None else recorded, end)
            return [] if found is None else [found]
        streams = range(len(self.queues.queued))
        every = [g for s in streams if (g := self.queues.last(s, start, end)) is not None]
        if "event" in name.lower() or "stream" in name.lower():
            ended = [g for g in every if self.trace.gpu.end[g] > start]
            if ended:
                return [max(ended, key=lambda g: (self.trace.gpu.end[g], g))]
            mine = self._own_stream(call, start) if "stream" in name.lower() else None
            return [g for g in every if self.trace.gpu.stream[g] == mine]
        return every

    def _own_stream(self, call: int, start: int) -> int | None:
        starts, streams = self.by_thread.get(self.trace.calls.thread[call], ([], []))
        place = bisect_left(starts, start) - 1
        return streams[place] if place >= 0 else None

    def full_queue(self, call: int, stream: int) -> int | None:
        """The operation whose end let a slow launch go on: the last to end during the call while many are in flight."""
        start, end = self.trace.calls.start[call], self.trace.calls.end[call]
        count, last = self.queues.in_flight(stream, start, end)
        if count < FULL_QUEUE or last is None or self.trace.gpu.end[last] <= start:
            return None
        return last


def next_launches(trace: DeviceTrace, calls: Calls, waits: Sequence[int]) -> dict[int, int]:
    """Per stream wait the GPU operation that the same thread launched next."""
    found: dict[int, int] = {}
    by_thread: dict[int, tuple[list[int], list[int]]] = {}
    for call in sorted(calls.launched, key=lambda c: (trace.calls.start[c], c)):
        starts, numbers = by_thread.setdefault(trace.calls.thread[call], ([], []))
        starts.append(trace.calls.start[call])
        numbers.append(call)
    for wait in waits:
        starts, numbers = by_thread.get(trace.calls.thread[wait], ([], []))
        place = bisect_left(starts, trace.calls.start[wait])
        if place < len(numbers):
            found[wait] = calls.launched[numbers[place]][0]
    return found
