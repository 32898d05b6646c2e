"""Host threads that wake and await each other: which stretch of the main thread is another thread's time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from msgspec import Struct, field

from astrarium.profile.link.calls import Calls
from astrarium.profile.link.comm import CPU_BACKENDS, annotated
from astrarium.profile.link.host import HostTrace
from astrarium.profile.link.join import Join
from astrarium.profile.link.nodes import Draft
from astrarium.profile.link.records import DeviceTrace
from astrarium.profile.link.threads import CALL, FOLD, IDLE, OPERATOR, Stretches, Thread

__all__ = ["HostNodes", "host_nodes", "issue_edges"]

BURST = 100_000      # ns without an operator after which a thread other than the main one was asleep


class HostNodes(Struct):
    """Where host nodes are in the draft: of each operator's begin, each launching call, and each thread's last."""

    operators: int         # how many there are; calls count on from there
    operator: dict[int, int] = field(default_factory=dict)
    launch: dict[int, int] = field(default_factory=dict)
    caller: dict[int, int] = field(default_factory=dict)  # host nodes without a time -> the node they are called from
    main: list[int] = field(default_factory=list)      # nodes of the main thread, in order
    handed: int = 0        # times another thread was woken
    awaited: int = 0       # times the main thread waited for another
    idle: int = 0          # ns of the main thread without an operator


class _Burst(Struct):
    """What a thread does between two sleeps: nodes `first` to `last` of the draft, start and end in ns."""

    first: int
    last: int
    start: int
    end: int


def host_nodes(trace: DeviceTrace, calls: Calls, threads: list[Thread], draft: Draft) -> HostNodes:
    """Nodes of all host threads. Each is a chain; the main thread is one stretch of time, the others are bursts.

    A burst is woken by the main thread at the moment it begins. Where it lies inside one stretch of the main thread,
    the main thread waits for it: autograd's threads work while `backward` waits. So it does in a stretch in which
    nothing but an annotation, or nothing at all, is open, for what of a burst ends meanwhile, if that takes `BURST`.
    What no burst explains stays host time of the thread on which it passed.
    """
    found = HostNodes(len(trace.operators.name))
    if not threads:
        return found
    main = max(threads, key=lambda thread: _rank(trace, thread))
    bursts = [burst for thread in threads if thread is not main
              for burst in _bursts(thread, trace, calls, draft, found)]
    bursts.sort(key=lambda burst: (burst.start, burst.end, burst.first))
    _main(main, bursts, _Chain(main.number, trace, calls, draft, found))
    return found


def _rank(trace: DeviceTrace, thread: Thread) -> tuple[bool, bool, int, int]:
    """The main thread is the one of the profiler's steps, else the process's own, else the one that began first."""
    s = thread.stretches
    steps = any(trace.operators.name[number].startswith("ProfilerStep")
                for part, number in zip(s.part, s.of, strict=True) if part == OPERATOR)
    ids = next(key for key, number in trace.threads.items() if number == thread.number)
    return steps, ids[0] == ids[1], -s.start[0], -thread.number


def _cluster(bursts: Sequence[_Burst], place: int, end: int) -> tuple[list[_Burst], int]:
    """Bursts from `place` on that overlap each other, as far as they begin before `end`; the place after them."""
    members, last = [bursts[place]], bursts[place].end
    place += 1
    while place < len(bursts) and bursts[place].start < min(last, end):
        members.append(bursts[place])
        last = max(last, bursts[place].end)
        place += 1
    return members, place


def _note(found: HostNodes, part: int, of: int, node: int) -> None:
    if part == OPERATOR:
        found.operator[of] = node
    elif part == CALL:
        found.launch.setdefault(of - found.operators, node)


def _bursts(thread: Thread, trace: DeviceTrace, calls: Calls, draft: Draft, found: HostNodes) -> list[_Burst]:
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
        if begun:       # one that begins by waiting for the GPU was awake before that
            awake = s.start[place] if s.wait[place] < 0 else min(trace.calls.start[s.wait[place]], s.start[place])
            out.append(_Burst(node, node, awake, s.end[place]))
        out[-1].last, out[-1].end = node, s.end[place]
        last, begun = node, False
    return out


def _wait(draft: Draft, calls: Calls, call: int, node: int) -> None:
    """`node` waits for GPU operations; they are the first nodes of the draft."""
    for operation in calls.waits[call]:
        draft.edge(operation, node, int(call in calls.drained))


def _main(main: Thread, bursts: list[_Burst], chain: _Chain) -> None:
    """Nodes of the main thread, cut where bursts begin and end."""
    s = main.stretches
    inside: dict[int, list[_Burst]] = {}
    starts = list(s.start)
    long = [place for place in range(len(s)) if s.end[place] - s.start[place] >= BURST and chain.waiting(s, place)]
    for burst in bursts:
        place = bisect_right(starts, burst.start) - 1
        while place > 0 and s.end[place] <= burst.start and s.start[place] == s.end[place]:
            place -= 1
        if place < 0 or burst.start >= s.end[-1]:
            chain.outside.append(burst)
            place = -1
        else:
            inside.setdefault(place, []).append(burst)
        for later in long[bisect_right(long, place):]:
            if s.start[later] >= burst.end:
                break
            inside.setdefault(later, []).append(burst)
    chain.origin = min(min(chain.draft.start, default=s.start[0]), s.start[0])
    if s.start[0] - chain.origin >= FOLD:      # the trace begins with work of the GPU, or of another thread
        chain.begin(s.start[0])
    for place in range(len(s)):
        chain.stretch(s, place, inside.get(place, ()))
    chain.ends()


class _Chain:
    """The main thread's chain of nodes."""

    def __init__(self, lane: int, trace: DeviceTrace, calls: Calls, draft: Draft, found: HostNodes) -> None:
        self.lane, self.trace, self.calls, self.draft, self.found = lane, trace, calls, draft, found
        self.last, self.origin = -1, 0
        self.owed: list[int] = []          # nodes that the next node waits for
        self.outside: list[_Burst] = []

    def begin(self, start: int) -> None:
        """The time before the first stretch."""
        self._piece(self.origin, start, IDLE, -1, -1, True)

    def waiting(self, s: Stretches, place: int) -> bool:
        """Whether nothing, or nothing but an annotation, is open in a stretch."""
        return s.of[place] < 0 or s.of[place] in self.trace.operators.annotations

    def stretch(self, s: Stretches, place: int, bursts: Sequence[_Burst]) -> None:
        """One stretch, in pieces where bursts are inside."""
        what = s.part[place], s.of[place], s.wait[place]
        start, end, waiting = s.start[place], s.end[place], self.waiting(s, place)
        self.found.idle += (end - start) if what[0] == IDLE else 0
        at, first, burst = start, True, 0
        while burst < len(bursts):
            members, burst = _cluster(bursts, burst, end)
            begin = min(max(members[0].start, at), max(end, at))
            fresh = [member for member in members if member.start >= start]
            if fresh or begin > at:
                anchor = self._piece(at, begin, *what, first)
                first, at = False, begin
                self._hand(anchor, begin, fresh)
            done = [until for member in members if (until := self._until(member, start, end, at, waiting))[0] >= 0]
            self.owed += [node for node, _ in done]
            self.found.awaited += len(done)
            at = max((at, *(time for _, time in done)))
        if first or at < end or what[0] == CALL:
            self._piece(at, end, *what, first)

    def _until(self, burst: _Burst, start: int, end: int, at: int, waiting: bool) -> tuple[int, int]:
        """The node of a burst that the main thread awaits in a stretch, and its end; -1 where it awaits none."""
        if start <= burst.start and burst.end <= end:
            return burst.last, burst.end
        if not waiting:
            return -1, at
        ends = self.draft.end[burst.first:burst.last + 1]
        place = bisect_right(ends, end) - 1
        while place > 0 and self.draft.part[burst.first + place] == IDLE:      # no other thread waits for an idle one
            place -= 1
        if place < 0 or ends[place] - max(burst.start, at) < BURST:
            return -1, at
        return burst.first + place, ends[place]

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
            begin = self.draft.end[last] if last >= 0 else self.origin
            if burst.start > begin:
                idle = self.draft.node(begin, burst.start, IDLE, -1, lane)
                if last >= 0:
                    self.draft.edge(last, idle)
                self.draft.edge(idle, burst.first)


def issue_edges(trace: DeviceTrace, host: HostTrace | None, join: Join, found: HostNodes, draft: Draft) -> None:
    """Operators that run on a separate thread wait for the operator that issued them.

    `c10d::allreduce_` -> `gloo:all_reduce`: the host trace says who called, times alone only who ran before.

    Where an operation queued behind others of its thread, nothing else says that it cannot begin before it was issued.
    """
    if host is None:
        return
    number = {identity: node for node, identity in enumerate(host.id)}
    operator = {node: place for place, node in enumerate(join.host) if node >= 0}
    threads = trace.operators.thread
    for place, name in enumerate(trace.operators.name):
        if ":" not in name or annotated(name, CPU_BACKENDS) is None or join.host[place] < 0:
            continue
        caller = operator.get(number.get(host.parent[join.host[place]], -1), -1)
        if caller < 0 or threads[caller] == threads[place]:
            continue
        first, second = found.operator.get(caller, -1), found.operator.get(place, -1)
        if first >= 0 and second >= 0 and draft.end[first] <= draft.start[second]:
            draft.edge(first, second)
