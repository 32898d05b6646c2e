"""Host threads: operators and calls that nest, cut into stretches of time that one of them has for itself."""

from __future__ import annotations

from array import array

from msgspec import Struct, field

from astrarium.profile.link.calls import Calls
from astrarium.profile.link.records import DeviceTrace

__all__ = ["CALL", "FOLD", "IDLE", "OPERATOR", "REST", "Stretches", "Thread", "host_threads"]

OPERATOR, REST, CALL, IDLE = range(4)
ROUNDING = 1000  # ns by which times that were rounded to microseconds may overlap
FOLD = 1000      # ns: a shorter rest of an operator joins the stretch before it


class Stretches(Struct):
    """Consecutive stretches of one thread; arrays [stretches], times in ns.

    `part`: OPERATOR, from an operator's begin; REST, an operator or call that goes on after something nested; CALL,
    from a runtime call's begin; IDLE, no operator is open. `of`: number of the operator, or of the call after all
    operators; -1 for IDLE. `wait`: the call whose GPU work must end before the stretch begins, or -1.
    """

    start: array[int] = field(default_factory=lambda: array("q"))
    end: array[int] = field(default_factory=lambda: array("q"))
    part: array[int] = field(default_factory=lambda: array("b"))
    of: array[int] = field(default_factory=lambda: array("q"))
    wait: array[int] = field(default_factory=lambda: array("q"))

    def add(self, start: int, end: int, part: int, of: int, wait: int = -1) -> None:
        self.start.append(start)
        self.end.append(end)
        self.part.append(part)
        self.of.append(of)
        self.wait.append(wait)

    def __len__(self) -> int:
        return len(self.start)


class Thread(Struct):
    """A host thread: its number in the trace, its stretches."""

    number: int
    stretches: Stretches


def host_threads(trace: DeviceTrace, calls: Calls) -> tuple[list[Thread], array[int]]:
    """The threads that have operators, or calls that matter, by number; and [operators, then calls] the operator around
    each, or -1. Calls of a thread id without operators go to the thread of the operator with their external id."""
    operators = trace.operators
    parent = array("q", [-1]) * (len(operators.name) + len(trace.calls.name))
    members: list[list[int]] = [[] for _ in trace.threads]
    for number, thread in enumerate(operators.thread):
        members[thread].append(number)
    _adopt(trace, calls, members)
    base = len(operators.name)
    for call in calls.kept:
        members[trace.calls.thread[call]].append(base + call)
    return [Thread(number, _sweep(trace, calls, inside, parent)) for number, inside in enumerate(members)
            if inside], parent


def _adopt(trace: DeviceTrace, calls: Calls, members: list[list[int]]) -> None:
    """Old Kineto gives runtime calls another thread id than operators."""
    lonely = {thread for call in calls.kept if not members[thread := trace.calls.thread[call]]}
    if not lonely:
        return
    owner = dict(zip(trace.operators.external, trace.operators.thread, strict=True))
    owner.pop(-1, None)
    for call in calls.kept:
        if trace.calls.thread[call] in lonely:
            trace.calls.thread[call] = owner.get(trace.calls.external[call], trace.calls.thread[call])


def _sweep(trace: DeviceTrace, calls: Calls, inside: list[int], parent: array[int]) -> Stretches:
    """Stretches of one thread. An event that outlives the one around it ends with that one, a call also where another
    event begins in it. Events that overlap by no more than rounding follow each other."""
    operators, runtime, base = trace.operators, trace.calls, len(trace.operators.name)
    starts, ends = operators.start, operators.end
    span = {number: ((starts[number], ends[number]) if number < base else
                     (runtime.start[number - base], runtime.end[number - base])) for number in inside}
    inside.sort(key=lambda number: (span[number][0], -span[number][1], number >= base, number))
    cutter = _Cutter(calls, base)
    stack: list[tuple[int, int]] = []      # (end, number)
    for place, number in enumerate(inside, 1):
        start, end = span[number]
        if number >= base and place < len(inside) and span[inside[place]][0] < end:
            end = span[inside[place]][0]
            calls.return_by(number - base, end)
        while stack and _ended(stack[-1][0], start, end):
            cutter.until(min(stack[-1][0], start), stack[-1][1])
            stack.pop()
        cutter.until(start, stack[-1][1] if stack else -1)
        if stack:
            end = min(end, stack[-1][0])
            parent[number] = stack[-1][1] if stack[-1][1] < base else -1
        cutter.begin(number, start, end)
        stack.append((end, number))
    while stack:
        cutter.until(stack[-1][0], stack[-1][1])
        stack.pop()
    cutter.flush()
    return cutter.out


def _ended(last: int, start: int, end: int) -> bool:
    """Whether what ends at `last` has ended for an event from `start` to `end`: before it, or that close."""
    return last <= start or (last - start <= ROUNDING and last - start < end - last)


class _Cutter:
    """Collects the stretches of a thread while its events are walked through in order."""

    def __init__(self, calls: Calls, base: int) -> None:
        self.calls, self.base, self.out = calls, base, Stretches()
        self.at = -1                 # time up to which everything is known
        self.fresh = -1              # event that has begun and has no stretch yet
        self.rest_start = -1         # start of a run of rests
        self.rest_of, self.rest_most = -1, -1

    def begin(self, number: int, start: int, end: int) -> None:
        self.flush()
        self.at = start
        if number < self.base:
            self.fresh = number
            return
        call = number - self.base
        cut = min(self.calls.cut.get(call, start), end)
        wait = call if self.calls.waits.get(call) else -1
        if call in self.calls.launched:
            self.out.add(start, cut, CALL, number)
            resume = max(cut, *(min(end, at) for at in self._ends(call))) if wait >= 0 else cut
            if end > cut or wait >= 0:
                self.out.add(resume, end, REST, number, wait)
        else:
            resume = max((start, *(min(end, at) for at in self._ends(call)))) if wait >= 0 else start
            self.out.add(resume, end, CALL, number, wait)
        self.at = end

    def _ends(self, call: int) -> list[int]:
        return [self.calls.gpu_end[operation] for operation in self.calls.waits[call]]

    def until(self, time: int, number: int) -> None:
        """The event `number` (-1: none) had the thread until `time`."""
        if self.at < 0 or time < self.at:
            return
        if self.fresh >= 0:
            self.out.add(self.at, time, OPERATOR, self.fresh)
            self.fresh = -1
        elif time > self.at:
            if number < 0 and time - self.at >= FOLD:
                self.flush()
                self.out.add(self.at, time, IDLE, -1)
            else:
                self._rest(time, number)
        self.at = time

    def _rest(self, time: int, number: int) -> None:
        if self.rest_start < 0:
            self.rest_start, self.rest_of, self.rest_most = self.at, number, time - self.at
        elif time - self.at > self.rest_most:
            self.rest_of, self.rest_most = number, time - self.at

    def flush(self) -> None:
        """Ends a run of rests: one stretch, of the event that has most of it, or more of the stretch before."""
        if self.rest_start < 0:
            return
        out, length = self.out, self.at - self.rest_start
        if length < FOLD and len(out) and out.part[-1] == OPERATOR and out.end[-1] == self.rest_start:
            out.end[-1] = self.at
        else:
            out.add(self.rest_start, self.at, REST if self.rest_of >= 0 else IDLE, self.rest_of)
        self.rest_start = -1
