"""Host threads that wake and await each other: which stretch of the main thread is another thread's time."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

from astrarium.trace.link.calls import Calls
from astrarium.trace.link.kineto import DeviceTrace
from astrarium.trace.link.nodes import Draft
from astrarium.trace.link.threads import CALL, IDLE, OPERATOR, Thread

__all__ = ["HostNodes", "host_nodes"]

BURST = 100_000      # ns without an operator after which a thread other than the main one was asleep


@dataclass
class HostNodes:
    """Where host nodes are in the draft: of each operator's begin, each launching call, and each thread's last."""

    operators: int         # how many there are; calls count on from there
    operator: dict[int, int] = field(default_factory=dict)
    launch: dict[int, int] = field(default_factory=dict)
    caller: dict[int, int] = field(default_factory=dict)  # host nodes without a time -> the node they are called from
    main: list[int] = field(default_factory=list)      # nodes of the main thread, in order
    handed: int = 0        # times another thread was woken
    awaited: int = 0       # times the main thread waited for another
    idle: int = 0          # ns of the main thread without an operator


@dataclass
class _Burst:
    """What a thread does between two sleeps: nodes `first` to `last` of the draft, start and end in ns."""

    first: int
    last: int
    start: int
    end: int


def host_nodes(trace: DeviceTrace, calls: Calls, threads: list[Thread], draft: Draft) -> HostNodes:
    """Nodes of all host threads. Each is a chain; the main thread is one stretch of time, the others are bursts.

    A burst is woken by the main thread at the moment it begins. Where it lies inside one stretch of the main thread,
    the main thread waits for it: autograd's threads work while `backward` waits. What no burst explains stays host
    time of the thread on which it passed.
    """
    found = HostNodes(len(trace.operators.name))
    if not threads:
        return found
    main = max(threads, key=lambda thread: _rank(trace, thread))
    bursts = [burst for thread in threads if thread is not main for burst in _bursts(thread, calls, draft, found)]
    bursts.sort(key=lambda burst: (burst.start, burst.end, burst.first))
    _main(main, bursts, calls, draft, found)
    return found


def _rank(trace: DeviceTrace, thread: Thread) -> tuple[bool, bool, int, int]:
    """The main thread is the one of the profiler's steps, else the process's own, else the one that began first."""
    s = thread.stretches
    steps = any(trace.operators.name[number].startswith("ProfilerStep")
                for part, number in zip(s.part, s.of, strict=True) if part == OPERATOR)
    ids = next(key for key, number in trace.threads.items() if number == thread.number)
    return steps, ids[0] == ids[1], -s.start[0], -thread.number


def _note(found: HostNodes, part: int, of: int, node: int) -> None:
    if part == OPERATOR:
        found.operator[of] = node
    elif part == CALL:
        found.launch.setdefault(of - found.operators, node)


def _bursts(thread: Thread, calls: Calls, draft: Draft, found: HostNodes) -> list[_Burst]:
    s, out, last = thread.stretches, list[_Burst](), -1
    begun = True
    for place in range(len(s)):
        if s.part[place] == IDLE and s.end[place] - s.start[place] > BURST:
            begun = True
            continue
        node = draft.node(s.start[place], s.end[place], s.part[place], s.of[place], thread.number)
        _note(found, s.part[place], s.of[place], node)
        if s.wait[place] >= 0:
            _wait(draft, calls, s.wait[place], node)
        if last >= 0:
            draft.edge(last, node)
        if begun:
            out.append(_Burst(node, node, s.start[place], s.end[place]))
        out[-1].last, out[-1].end = node, s.end[place]
        last, begun = node, False
    return out


def _wait(draft: Draft, calls: Calls, call: int, node: int) -> None:
    """`node` waits for GPU operations; they are the first nodes of the draft."""
    for operation in calls.waits[call]:
        draft.edge(operation, node, 1)


def _main(main: Thread, bursts: list[_Burst], calls: Calls, draft: Draft, found: HostNodes) -> None:
    """Nodes of the main thread, cut where bursts begin and end."""
    s = main.stretches
    chain = _Chain(main.number, calls, draft, found)
    inside: list[list[_Burst]] = [[] for _ in range(len(s))]
    starts = list(s.start)
    for burst in bursts:
        place = bisect_right(starts, burst.start) - 1
        while place > 0 and s.end[place] <= burst.start and s.start[place] == s.end[place]:
            place -= 1
        if place >= 0 and burst.start < s.end[-1]:
            inside[place].append(burst)
        else:
            chain.outside.append(burst)
    for place in range(len(s)):
        chain.stretch((s.start[place], s.end[place], s.part[place], s.of[place], s.wait[place]), inside[place])
    chain.ends()


class _Chain:
    """The main thread's chain of nodes."""

    def __init__(self, lane: int, calls: Calls, draft: Draft, found: HostNodes) -> None:
        self.lane, self.calls, self.draft, self.found = lane, calls, draft, found
        self.last = -1
        self.owed: list[int] = []          # nodes that the next node waits for
        self.outside: list[_Burst] = []

    def stretch(self, what: tuple[int, int, int, int, int], bursts: list[_Burst]) -> None:
        """One stretch, in pieces where bursts are inside."""
        start, end, part, of, wait = what
        self.found.idle += (end - start) if part == IDLE else 0
        at, first, place = start, True, 0
        while place < len(bursts):
            burst = bursts[place]
            cluster_end = burst.end
            members = [burst]
            place += 1
            while place < len(bursts) and bursts[place].start < min(cluster_end, end):
                members.append(bursts[place])
                cluster_end = max(cluster_end, bursts[place].end)
                place += 1
            begin = min(max(burst.start, at), max(end, at))
            anchor = self._piece(at, begin, part, of, wait, first)
            first, at = False, begin
            self._hand(anchor, begin, members)
            nested = [member for member in members if member.end <= end]
            if nested:
                self.owed += [member.last for member in nested]
                self.found.awaited += len(nested)
                at = max(at, *(member.end for member in nested))
        if first or at < end or part == CALL:
            self._piece(at, end, part, of, wait, first)

    def _piece(self, start: int, end: int, part: int, of: int, wait: int, first: bool) -> int:
        draft = self.draft
        piece = part if first or part == IDLE else 1      # REST
        node = draft.node(start, end, piece, of, self.lane)
        if first:
            _note(self.found, part, of, node)
            if wait >= 0:
                _wait(draft, self.calls, wait, node)
        if self.last >= 0:
            draft.edge(self.last, node)
        for before in self.owed:
            draft.edge(before, node)
        self.owed.clear()
        self.found.main.append(node)
        self.last = node
        return node

    def _hand(self, anchor: int, begin: int, members: list[_Burst]) -> None:
        for member in members:
            self.found.handed += 1
            if member.start > begin:       # the rest of the way is time on its own thread
                lane = self.draft.lane[member.first]
                idle = self.draft.node(begin, member.start, IDLE, -1, lane)
                self.draft.edge(anchor, idle)
                self.draft.edge(idle, member.first)
            else:
                self.draft.edge(anchor, member.first)

    def ends(self) -> None:
        """Bursts before the main thread's first stretch, or after its last: their delay is time on their own thread."""
        for burst in self.outside:
            lane = self.draft.lane[burst.first]
            last = self.last if self.last >= 0 and self.draft.end[self.last] <= burst.start else -1
            begin = self.draft.end[last] if last >= 0 else 0
            if burst.start > begin:
                idle = self.draft.node(begin, burst.start, IDLE, -1, lane)
                if last >= 0:
                    self.draft.edge(last, idle)
                self.draft.edge(idle, burst.first)
