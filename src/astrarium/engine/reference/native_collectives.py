"""Native collectives: chunks walk their phases, a phase follows a Schedule, messages meet by number.

One `Meeting` is one collective; a `Walk` is one participant in it; a `Stay` is one chunk of it inside one phase.
"""

from __future__ import annotations

from functools import partial
from typing import Protocol

from astrarium.engine.plan import CollectivePlan, Phase, Plan, Policy
from astrarium.engine.reference.clock import Event
from astrarium.engine.reference.geometry import circle_base
from astrarium.engine.reference.meetings import Meeting
from astrarium.engine.reference.native_clock import DONE, BatchClock, collective_order, ticks
from astrarium.engine.reference.native_foreign import ForeignWires, collective_tag
from astrarium.engine.reference.native_media import Medium
from astrarium.engine.reference.native_switches import Circle, Switches, SwitchStay, in_order
from astrarium.engine.reference.schedules import ScheduleTable, Send
from astrarium.vocab import Schedule

__all__ = ["Board", "Stay", "Surroundings", "Walk"]


class Surroundings(Protocol):
    """What a collective needs from the run."""

    clock: BatchClock
    network: Medium
    foreign: ForeignWires | None
    plan: Plan
    policy: Policy
    switches: Switches

    def npu(self, group: int, position: int) -> int: ...

    def table(self, schedule: Schedule) -> ScheduleTable: ...


Key = tuple[int, int, int, int]
Early = dict[tuple[int, int, int], list[tuple[int, int]]]  # (position, chunk, phase) -> (receive, bytes)


class Board:
    """What the participants of one meeting know of each other: who walks, and messages that came before their phase."""

    __slots__ = ("early", "phases", "switches", "waiting", "walks")

    def __init__(self) -> None:
        self.switches: dict[tuple[int, int, int, int], SwitchStay] = {}
        self.phases: dict[tuple[int, int, int], list[Stay]] = {}
        self.waiting: list[tuple[Key, Event]] = []
        self.walks: dict[int, Walk] = {}
        self.early: Early = {}

    def join(self, clock: BatchClock, lasts: int, members: int, key: Key, done: Event) -> None:
        """One more participant of a collective of given time: with the last of them its end is known."""
        self.waiting.append((key, done))
        if len(self.waiting) == members:
            for each, over in self.waiting:
                clock.at(clock.now + lasts, DONE, each, over)

    def meet(self, stay: Stay, where: tuple[int, int, int], phase: Phase) -> None:
        """One more participant inside a phase of given time (`where`: chunk, phase, first place of its circle): such
        phases of a participant follow each other."""
        here = self.phases.setdefault(where, [])
        here.append(stay)
        if len(here) == phase.n:
            end = max(each.free for each in here) + phase.lasts
            for each in here:
                each.ends_at(end)

    def deliver(self, position: int, chunk: int, phase: int, receive: int, size: int) -> None:
        """A message for the participant at `position` is there."""
        walk = self.walks.get(position)
        stay = walk.inside.get(chunk) if walk is not None else None
        if stay is not None and stay.number == phase:
            stay.received(receive, size)
        else:
            self.early.setdefault((position, chunk, phase), []).append((receive, size))


    def switch(self, run: Surroundings, circle: Circle, place: int) -> SwitchStay:
        """The switch at `place` of a circle."""
        key = (circle.chunk, circle.number, circle.first, place)
        if key not in self.switches:
            self.switches[key] = SwitchStay(run, circle, place)
        return self.switches[key]


Visit = tuple[int, int]     # chunk, phase number


def _lists(plan: CollectivePlan, phases: list[tuple[Phase, ...]]) -> list[list[Visit]]:
    """The lists of visits that take turns."""
    count = max(map(len, phases), default=0)
    if plan.turns:
        return [[(visit // count, visit % count) for visit in turns.tolist()] for turns in plan.turns]
    return [[(chunk, number) for chunk, mine in enumerate(phases) if number < len(mine)] for number in range(count)]


class Walk:
    """One participant: which chunk is in which phase. Visits of a list begin in order, `active_chunks` at once."""

    def __init__(self, run: Surroundings, board: Board, plan: CollectivePlan, meeting: Meeting, rank: int,
                 position: int, node: int, done: Event) -> None:
        self.run, self.board, self.group = run, board, meeting.group
        self.rank, self.position, self.node, self.meeting = rank, position, node, meeting.number
        self.collective = meeting.collective
        self._done, self._limit = done, plan.active_chunks
        self._phases = [chunk.phases for chunk in plan.chunks for _ in range(chunk.repeat)]
        self.phase_count = max(map(len, self._phases), default=0)
        self._lists = _lists(plan, self._phases)
        self._list_of = {visit: number for number, visits in enumerate(self._lists) for visit in visits}
        self._entered = [0] * len(self._lists)   # visits of each list that have begun
        self._inside = [0] * len(self._lists)    # and have not ended
        self._reached = [0] * len(self._phases)  # the phase number that each chunk may enter next
        self._left = sum(1 for phases in self._phases if phases)
        self.inside: dict[int, Stay] = {}
        self.free = 0                            # when its phases of given time are over

    def start(self) -> None:
        """Enter the first phases; a collective without phases is done in the same instant."""
        self.board.walks[self.position] = self
        if not self._left:
            self.run.clock.at(self.run.clock.now, DONE, (self.rank, self.node, 0, 0), self._done)
        for number in range(len(self._lists)):
            if self._left:
                self._advance(number)

    def _advance(self, number: int) -> None:
        """Let the next visits of list `number` begin, while the window has room."""
        visits = self._lists[number]
        while self._entered[number] < len(visits):
            chunk, phase = visits[self._entered[number]]
            if self._reached[chunk] != phase or chunk in self.inside:
                return
            if self._limit and self._inside[number] >= self._limit:
                return
            self._entered[number] += 1
            self._inside[number] += 1
            self.inside[chunk] = stay = Stay(self, chunk, phase, self._phases[chunk][phase])
            stay.enter()

    def left(self, stay: Stay) -> None:
        """A chunk has left its phase: it may enter the next one, and another may enter this one."""
        chunk, phase = stay.chunk, stay.number
        number = self._list_of[chunk, phase]
        del self.inside[chunk]
        self._inside[number] -= 1
        self._reached[chunk] = phase + 1
        if phase + 1 < len(self._phases[chunk]):
            self._advance(self._list_of[chunk, phase + 1])
        else:
            self._left -= 1
        if self._left:
            self._advance(number)
        else:
            self._done()


class Stay:
    """One chunk of one participant inside one phase."""

    __slots__ = ("_complete", "_first", "_flags", "_next", "_phase", "_place", "_prefix", "_program", "_table",
                 "_undelivered", "_walk", "chunk", "number")

    def __init__(self, walk: Walk, chunk: int, number: int, phase: Phase) -> None:
        self._walk, self.chunk, self.number, self._phase = walk, chunk, number, phase
        self._first, self._place = circle_base(phase, walk.position)
        self._table = walk.run.table(phase.schedule) if phase.schedule is not None and phase.n > 1 else None
        self._program = self._table.program[self._place] if self._table else 0
        self._flags = bytearray(len(self._table.reduces[self._program]) if self._table else 0)
        self._undelivered = len(self._sends())
        self._next = self._prefix = self._complete = 0

    def _sends(self) -> list[Send]:
        return self._table.sends[self._program] if self._table else []

    def enter(self) -> None:
        """Post what needs nothing, take what has come early; without messages leave at once."""
        walk, clock, sends = self._walk, self._walk.run.clock, self._sends()
        if self._phase.lasts:
            walk.board.meet(self, (self.chunk, self.number, self._first), self._phase)
            return
        if sends and sends[0].needs == 0:
            start = clock.now + walk.run.policy.endpoint_delay
            clock.at(start, DONE, (walk.rank, walk.node, self.chunk, 0), self._release)
        if walk.run.foreign is not None:
            self._post_receives(walk.run.foreign)
        for receive, size in walk.board.early.pop((walk.position, self.chunk, self.number), ()):
            self.received(receive, size)
        self._leave()

    @property
    def free(self) -> int:
        """When another chunk's phase of given time is over here: now, or later."""
        return max(self._walk.run.clock.now, self._walk.free)

    def ends_at(self, end: int) -> None:
        """The phase of given time ends then."""
        walk = self._walk
        walk.free = end
        walk.run.clock.at(end, DONE, (walk.rank, walk.node, self.chunk, 0), self._leave)

    def _tag(self, number: int) -> int:
        step = self.chunk * self._walk.phase_count + self.number
        return collective_tag(self._walk.meeting, step, number)

    def _post_receives(self, network: ForeignWires) -> None:
        walk, table = self._walk, self._table
        if table is None:
            return
        blocks = table.received_blocks(self._place)
        for receive, peer in enumerate(table.sources[self._program]):
            source = self._first + table.peer(self._place, peer) * self._phase.stride
            size = blocks[receive] * self._phase.block_size
            network.receive((walk.rank, walk.node, self.chunk, receive), walk.run.npu(walk.group, source),
                            walk.run.npu(walk.group, walk.position), size, partial(self.received, receive, size),
                            self._tag(receive))

    def received(self, receive: int, size: int) -> None:
        """Delivered while inside: complete after the endpoint and, where it adds, three passes over memory."""
        walk, clock, policy = self._walk, self._walk.run.clock, self._walk.run.policy
        delay = policy.endpoint_delay
        rate = walk.run.plan.reduction_rate(walk.run.npu(walk.group, walk.position))
        if self._table and self._table.reduces[self._program][receive] and rate > 0:
            delay += ticks(3 * (size / rate * 1e9))
        clock.at(clock.now + delay, DONE, (walk.rank, walk.node, self.chunk, receive), lambda: self._completed(receive))

    def _completed(self, receive: int) -> None:
        self._flags[receive] = 1
        self._complete += 1
        while self._prefix < len(self._flags) and self._flags[self._prefix]:
            self._prefix += 1
        self._release()
        self._leave()

    def _release(self) -> None:
        """Sends whose first `needs` receives are complete depart now."""
        sends = self._sends()
        while self._next < len(sends) and sends[self._next].needs <= self._prefix:
            self._post(sends[self._next])
            self._next += 1

    def _post(self, send: Send) -> None:
        walk, table = self._walk, self._table
        assert table is not None
        run, size = walk.run, send.blocks * self._phase.block_size
        peer = table.peer(self._place, send.peer)
        to = self._first + peer * self._phase.stride
        end = (run.npu(walk.group, to) if peer < self._phase.n
               else run.switches.node(self._phase, peer - self._phase.n, run.npu(walk.group, self._first)))

        def delivered() -> None:
            if run.foreign is None:
                self._arrived(peer, send.match, size)
            self._undelivered -= 1
            self._leave()

        key = (walk.rank, walk.node, self.chunk, send.number)
        order = collective_order(walk.collective, self.chunk, self.number, send.match)
        at_switch = partial(in_order, run.clock, order, key, delivered)
        run.network.send(key, order, run.npu(walk.group, walk.position), end, size,
                         delivered if peer < self._phase.n else at_switch, self._tag(send.match))

    def _arrived(self, place: int, receive: int, size: int) -> None:
        """A message is at a place of this one's circle."""
        walk, phase, table = self._walk, self._phase, self._table
        if place < phase.n:
            return walk.board.deliver(self._first + place * phase.stride, self.chunk, self.number, receive, size)
        assert table is not None
        circle = Circle(walk.group, walk.collective, walk.meeting, self.chunk, self.number, phase, self._first, table,
                        self._arrived)
        return walk.board.switch(walk.run, circle, place).received(receive, size)

    def _leave(self) -> None:
        if self._complete == len(self._flags) and self._next == len(self._sends()) and not self._undelivered:
            self._walk.left(self)
