"""Host threads that spin on a value that a GPU operation writes, or wait in a call that was not recorded."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict

from msgspec import Struct

from astrarium.profile.link.calls import Calls
from astrarium.profile.link.records import DeviceTrace
from astrarium.profile.link.threads import CALL, IDLE, REST, Stretches, Thread

__all__ = ["Spins", "find_spins"]

HOLE = 200_000       # ns without anything nested from which on a stretch after a launch may be a wait
NEAR = 100_000       # ns between the end of such a stretch and that of the operation that it polls
SHARE = 0.1          # of the stretch: the same
TIMES = 2            # stretches after launches of the same operation that must end with it
MOST = 0.75          # of all such stretches: the same
FOLLOWS = 4          # times by which their lengths must differ more than their distances from the operation's end


class _Hole(Struct, frozen=True):
    """A stretch of a thread after the launch of a GPU operation; `off`: its end after that of the operation, ns."""

    thread: int
    place: int
    call: int
    operation: int
    length: int
    off: int


class Spins(Struct):
    """What was found: how many stretches became waits, their time in ns, and how many operations were cut."""

    count: int = 0
    time: int = 0
    clipped: int = 0


def find_spins(trace: DeviceTrace, calls: Calls, threads: list[Thread]) -> Spins:
    """Turns stretches of `threads` in which the host polled the GPU into waits, like those of synchronising calls.

    A stretch counts as one if all of this holds: nothing is nested in it for `HOLE`; the call right before it on its
    thread is a launch that has returned; the launched operation runs when the stretch ends, or has just ended, and ends
    within `NEAR` and `SHARE` of that; no operator of another thread that began meanwhile ended then. And of all
    such stretches after operations of the same name, at least `TIMES` and `MOST` do so, and their lengths differ by
    `NEAR` and `FOLLOWS` times as much as their distances from the operations' ends: the host follows the GPU. Host work
    of a constant length does not.
    """
    others = _Others(trace)
    by_name: dict[str, list[_Hole]] = defaultdict(list)
    for number, thread in enumerate(threads):
        for hole in _holes(trace, calls, thread, number):
            by_name[trace.gpu.name[hole.operation]].append(hole)
    found = Spins()
    for holes in by_name.values():
        good = [hole for hole in holes if _ends_with(trace, threads, others, hole)]
        if len(good) >= max(TIMES, MOST * len(holes)) and _follow(good):
            for hole in good:
                _wait(trace, calls, threads[hole.thread].stretches, hole)
                found.count += 1
                found.time += hole.length
                found.clipped += hole.off < 0
    return found


def _holes(trace: DeviceTrace, calls: Calls, thread: Thread, number: int) -> list[_Hole]:
    """Long stretches of a thread, in no call, right after launches that return before their operations end."""
    s, base, out = thread.stretches, len(trace.operators.name), list[_Hole]()
    for place in range(1, len(s)):
        length = s.end[place] - s.start[place]
        before = place - 1
        if length < HOLE or s.part[place] not in (REST, IDLE) or s.wait[place] >= 0 or s.of[place] >= base:
            continue
        call = s.of[before] - base
        if s.part[before] != CALL or call not in calls.launched or call in calls.waits:
            continue
        operation = calls.launched[call][-1]
        if trace.gpu.end[operation] > s.start[place]:
            out.append(_Hole(number, place, call, operation, length, s.end[place] - trace.gpu.end[operation]))
    return out


def _ends_with(trace: DeviceTrace, threads: list[Thread], others: _Others, hole: _Hole) -> bool:
    """Whether a stretch ends when its operation does, and nothing on another thread explains that."""
    s = threads[hole.thread].stretches
    start, end = s.start[hole.place], s.end[hole.place]
    return (trace.gpu.start[hole.operation] < end and abs(hole.off) <= min(NEAR, SHARE * hole.length)
            and not others.explain(threads[hole.thread].number, start, end))


def _follow(holes: list[_Hole]) -> bool:
    """Whether lengths differ, by `NEAR` at least, and by much more than the distances from the operations' ends."""
    lengths, offs = [hole.length for hole in holes], [hole.off for hole in holes]
    return max(lengths) - min(lengths) >= max(NEAR, FOLLOWS * (max(offs) - min(offs)))


def _wait(trace: DeviceTrace, calls: Calls, s: Stretches, hole: _Hole) -> None:
    """Leaves of a stretch what comes after the operation's end, and lets that wait for it. An operation that wrote the
    value before its end is cut there."""
    calls.waits[hole.call] = [hole.operation]
    calls.blocked += 1
    trace.gpu.end[hole.operation] = end = min(s.end[hole.place], trace.gpu.end[hole.operation])
    s.start[hole.place] = max(s.start[hole.place], end)
    s.wait[hole.place] = hole.call


class _Others:
    """Ends of operators, to ask whether another thread did something that ended with a stretch."""

    def __init__(self, trace: DeviceTrace) -> None:
        self.operators = trace.operators
        self.order = array("q", sorted(range(len(self.operators.name)), key=lambda op: self.operators.end[op]))
        self.ends = array("q", (self.operators.end[op] for op in self.order))

    def explain(self, thread: int, start: int, end: int) -> bool:
        """Whether an operator of another thread began after `start` and ended within `NEAR` before `end`."""
        low, high = bisect_left(self.ends, end - NEAR), bisect_right(self.ends, end)
        return any(self.operators.thread[op] != thread and self.operators.start[op] > start
                   for op in self.order[low:high])
