"""Collectives: chunks go through their phases, a phase follows a Schedule, messages meet by number.

An `Instance` is one collective, a `Member` one participant in it, a `ChunkPhase` one of a member's chunks in one phase.
A switch that computes has no rank. It takes part in a chunk's phase (`SwitchPhase`) from the first message that comes
to it until its last one has left; its adder serves all collectives, one message after the other, in the order in which
their last bytes come.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from msgspec import Struct

from astrarium.engine.plan import CollectivePlan, InSwitch, Phase, Plan, Policy
from astrarium.oracle.clock import ARRIVE, DONE, Clock, Event, Key, Order, collective_order, ticks
from astrarium.oracle.fabric import circle_base, switch_of
from astrarium.oracle.medium import ForeignMedium, Medium, collective_tag
from astrarium.oracle.meetings import Meeting
from astrarium.oracle.tables import ScheduleTable, Send
from astrarium.vocab import Schedule

__all__ = ["Instance", "Member", "Surroundings", "Switches"]

Early = dict[tuple[int, int, int], list[tuple[int, int]]]  # (position, chunk, phase) -> (receive, bytes)


class Surroundings(Protocol):
    """What a collective needs from the run."""

    clock: Clock
    network: Medium
    foreign: ForeignMedium | None
    plan: Plan
    policy: Policy
    switches: Switches

    def npu(self, group: int, position: int) -> int: ...

    def table(self, schedule: Schedule) -> ScheduleTable: ...


class Instance:
    """One collective: its members by position, and what they share."""

    __slots__ = ("early", "members", "phases", "switches", "waiting")

    def __init__(self) -> None:
        self.members: dict[int, Member] = {}
        self.early: Early = {}                                              # messages that came before their phase
        self.switches: dict[tuple[int, int, int, int], SwitchPhase] = {}
        self.waiting: list[tuple[Key, Event]] = []                          # members, where its time is given
        self.phases: dict[tuple[int, int, int], list[ChunkPhase]] = {}      # those of given time

    def join(self, clock: Clock, lasts: int, members: int, key: Key, done: Event) -> None:
        """One more participant of a collective of given time: with the last of them its end is known."""
        self.waiting.append((key, done))
        if len(self.waiting) == members:
            for each, over in self.waiting:
                clock.at(clock.now + lasts, DONE, each, over)

    def meet(self, inside: ChunkPhase, where: tuple[int, int, int], phase: Phase) -> None:
        """One more participant inside a phase of given time (`where`: chunk, phase, first place of its circle): such
        phases of a participant follow each other."""
        here = self.phases.setdefault(where, [])
        here.append(inside)
        if len(here) == phase.n:
            end = max(each.free for each in here) + phase.lasts
            for each in here:
                each.ends_at(end)

    def deliver(self, position: int, chunk: int, phase: int, receive: int, size: int) -> None:
        """A message for the participant at `position` is there."""
        member = self.members.get(position)
        inside = None if member is None else member.inside.get(chunk)
        if inside is not None and inside.number == phase:
            inside.received(receive, size)
        else:
            self.early.setdefault((position, chunk, phase), []).append((receive, size))

    def switch(self, run: Surroundings, circle: Circle, place: int) -> SwitchPhase:
        """The switch at `place` of a circle."""
        key = (circle.chunk, circle.number, circle.first, place)
        if key not in self.switches:
            self.switches[key] = SwitchPhase(run, circle, place)
        return self.switches[key]


Visit = tuple[int, int]     # chunk, phase number


def _lists(plan: CollectivePlan, phases: list[tuple[Phase, ...]]) -> list[list[Visit]]:
    """The lists of visits that take turns."""
    count = max(map(len, phases), default=0)
    if plan.turns:
        return [[(visit // count, visit % count) for visit in turns.tolist()] for turns in plan.turns]
    return [[(chunk, number) for chunk, mine in enumerate(phases) if number < len(mine)] for number in range(count)]


class Member:
    """One participant: which chunk is in which phase. Visits of a list begin in order, `active_chunks` at once."""

    def __init__(self, run: Surroundings, instance: Instance, plan: CollectivePlan, meeting: Meeting, rank: int,
                 position: int, node: int, done: Event) -> None:
        self.run, self.instance, self.group = run, instance, meeting.group
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
        self.inside: dict[int, ChunkPhase] = {}
        self.free = 0                            # when its phases of given time are over

    def start(self) -> None:
        """Enter the first phases; a collective without phases is done in the same instant."""
        self.instance.members[self.position] = self
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
            self.inside[chunk] = ChunkPhase(self, chunk, phase, self._phases[chunk][phase])
            self.inside[chunk].enter()

    def left(self, done: ChunkPhase) -> None:
        """A chunk has left its phase: it may enter the next one, and another may enter this one."""
        chunk, phase = done.chunk, done.number
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


class ChunkPhase:
    """One chunk of one participant inside one phase."""

    __slots__ = ("_complete", "_first", "_flags", "_member", "_next", "_phase", "_place", "_prefix", "_program",
                 "_table", "_undelivered", "chunk", "number")

    def __init__(self, member: Member, chunk: int, number: int, phase: Phase) -> None:
        self._member, self.chunk, self.number, self._phase = member, chunk, number, phase
        self._first, self._place = circle_base(phase, member.position)
        self._table = member.run.table(phase.schedule) if phase.schedule is not None and phase.n > 1 else None
        self._program = self._table.program[self._place] if self._table else 0
        self._flags = bytearray(len(self._table.reduces[self._program]) if self._table else 0)
        self._undelivered = len(self._sends())
        self._next = self._prefix = self._complete = 0

    def _sends(self) -> list[Send]:
        return self._table.sends[self._program] if self._table else []

    def enter(self) -> None:
        """Post what needs nothing, take what has come early; without messages leave at once."""
        member, clock, sends = self._member, self._member.run.clock, self._sends()
        if self._phase.lasts:
            member.instance.meet(self, (self.chunk, self.number, self._first), self._phase)
            return
        if sends and sends[0].needs == 0:
            start = clock.now + member.run.policy.endpoint_delay
            clock.at(start, DONE, (member.rank, member.node, self.chunk, 0), self._release)
        if member.run.foreign is not None:
            self._post_receives(member.run.foreign)
        for receive, size in member.instance.early.pop((member.position, self.chunk, self.number), ()):
            self.received(receive, size)
        self._leave()

    @property
    def free(self) -> int:
        """When another chunk's phase of given time is over here: now, or later."""
        return max(self._member.run.clock.now, self._member.free)

    def ends_at(self, end: int) -> None:
        """The phase of given time ends then."""
        member = self._member
        member.free = end
        member.run.clock.at(end, DONE, (member.rank, member.node, self.chunk, 0), self._leave)

    def _tag(self, number: int) -> int:
        step = self.chunk * self._member.phase_count + self.number
        return collective_tag(self._member.meeting, step, number)

    def _post_receives(self, network: ForeignMedium) -> None:
        member, table = self._member, self._table
        if table is None:
            return
        blocks = table.received_blocks(self._place)
        for receive, peer in enumerate(table.sources[self._program]):
            source = self._first + table.peer(self._place, peer) * self._phase.stride
            size = blocks[receive] * self._phase.block_size
            network.receive((member.rank, member.node, self.chunk, receive), member.run.npu(member.group, source),
                            member.run.npu(member.group, member.position), size, partial(self.received, receive, size),
                            self._tag(receive))

    def received(self, receive: int, size: int) -> None:
        """Delivered while inside: complete after the endpoint and, where it adds, three passes over memory."""
        member, clock, policy = self._member, self._member.run.clock, self._member.run.policy
        delay = policy.endpoint_delay
        rate = member.run.plan.reduction_rate(member.run.npu(member.group, member.position))
        if self._table and self._table.reduces[self._program][receive] and rate > 0:
            delay += ticks(3 * (size / rate * 1e9))
        key = (member.rank, member.node, self.chunk, receive)
        clock.at(clock.now + delay, DONE, key, lambda: self._completed(receive))

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
        member, table = self._member, self._table
        assert table is not None
        run, size = member.run, send.blocks * self._phase.block_size
        peer = table.peer(self._place, send.peer)
        to = self._first + peer * self._phase.stride
        end = (run.npu(member.group, to) if peer < self._phase.n
               else run.switches.node(self._phase, peer - self._phase.n, run.npu(member.group, self._first)))

        def delivered() -> None:
            if run.foreign is None:
                self._arrived(peer, send.match, size)
            self._undelivered -= 1
            self._leave()

        key = (member.rank, member.node, self.chunk, send.number)
        order = collective_order(member.collective, self.chunk, self.number, send.match)
        at_switch = partial(in_order, run.clock, order, key, delivered)
        run.network.send(key, order, run.npu(member.group, member.position), end, size,
                         delivered if peer < self._phase.n else at_switch, self._tag(send.match))

    def _arrived(self, place: int, receive: int, size: int) -> None:
        """A message is at a place of this one's circle."""
        member, phase, table = self._member, self._phase, self._table
        if place < phase.n:
            return member.instance.deliver(self._first + place * phase.stride, self.chunk, self.number, receive, size)
        assert table is not None
        circle = Circle(member.group, member.collective, member.meeting, self.chunk, self.number, phase, self._first,
                        table, self._arrived)
        return member.instance.switch(member.run, circle, place).received(receive, size)

    def _leave(self) -> None:
        if self._complete == len(self._flags) and self._next == len(self._sends()) and not self._undelivered:
            self._member.left(self)


class Switches:
    """When the adder of each switch of a run is free."""

    def __init__(self, plan: Plan) -> None:
        self._dims, self.ranks = plan.network.dims, len(plan.program_of)
        self._free: dict[int, int] = {}

    def node(self, phase: Phase, number: int, npu: int) -> int:
        """The switch that is number `number` of the phase of an NPU's circle."""
        assert phase.in_switch is not None
        nodes = phase.in_switch.nodes
        return nodes[number] if nodes else switch_of(self._dims, phase.dim, npu)

    def add(self, node: int, now: int, size: int, able: InSwitch) -> int:
        """When a message that is there is part of the sum."""
        start = max(now, self._free.get(node, 0))
        self._free[node] = end = start + ticks(size / able.rate)
        return end + able.latency


def in_order(clock: Clock, order: Order, key: Key, there: Event) -> None:
    """Let what is at a switch in this instant be `there` in the order of what arrives."""
    clock.at(clock.now, ARRIVE, (*order, key[0], key[1]), there)


class Circle(Struct, frozen=True):
    """The participants of one chunk's phase: `first` is the position of the first one. `arrived` (place, receive,
    bytes) tells one of them, or a switch, that a message is there."""

    group: int
    collective: int
    meeting: int
    chunk: int
    number: int         # of the phase
    phase: Phase
    first: int
    table: ScheduleTable
    arrived: Callable[[int, int, int], None]


class SwitchPhase:
    """A switch in one chunk's phase."""

    def __init__(self, run: Surroundings, circle: Circle, place: int) -> None:
        self._run, self._circle = run, circle
        self._node = self._node_of(place)
        self._key = (run.switches.ranks + self._node, circle.meeting)
        program = circle.table.program[place]
        self._sends, self._reduces = circle.table.sends[program], circle.table.reduces[program]
        self._flags = bytearray(len(self._reduces))
        self._next = self._prefix = 0

    def _node_of(self, place: int) -> int:
        """The node of a switch, or the NPU of a participant."""
        run, circle = self._run, self._circle
        if place < circle.phase.n:
            return run.npu(circle.group, circle.first + place * circle.phase.stride)
        return run.switches.node(circle.phase, place - circle.phase.n, run.npu(circle.group, circle.first))

    def received(self, receive: int, size: int) -> None:
        """A message is there; where it is added, the adder takes it in its turn."""
        clock, able = self._run.clock, self._circle.phase.in_switch
        assert able is not None
        when = clock.now
        if self._reduces[receive]:
            when = self._run.switches.add(self._node, when, size, able)
        clock.at(when, DONE, (*self._key, self._circle.chunk, receive), lambda: self._completed(receive))

    def _completed(self, receive: int) -> None:
        self._flags[receive] = 1
        while self._prefix < len(self._flags) and self._flags[self._prefix]:
            self._prefix += 1
        while self._next < len(self._sends) and self._sends[self._next].needs <= self._prefix:
            self._post(self._sends[self._next])
            self._next += 1

    def _post(self, send: Send) -> None:
        circle, size = self._circle, send.blocks * self._circle.phase.block_size
        key = (*self._key, circle.chunk, send.number)
        order = collective_order(circle.collective, circle.chunk, circle.number, send.match)
        there = partial(circle.arrived, send.peer, send.match, size)
        at_switch = partial(in_order, self._run.clock, order, key, there)
        self._run.network.send(key, order, self._node, self._node_of(send.peer), size,
                                  there if send.peer < circle.phase.n else at_switch)
