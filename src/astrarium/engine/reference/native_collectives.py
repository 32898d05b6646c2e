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
from astrarium.engine.reference.native_clock import DONE, BatchClock, ticks
from astrarium.engine.reference.native_foreign import ForeignWires, collective_tag
from astrarium.engine.reference.native_wires import NativeNetwork
from astrarium.engine.reference.schedules import ScheduleTable, Send
from astrarium.vocab import Schedule

__all__ = ["Board", "Stay", "Surroundings", "Walk"]


class Surroundings(Protocol):
    """What a collective needs from the run."""

    clock: BatchClock
    network: NativeNetwork
    foreign: ForeignWires | None
    plan: Plan
    policy: Policy

    def npu(self, group: int, position: int) -> int: ...

    def table(self, schedule: Schedule) -> ScheduleTable: ...


Early = dict[tuple[int, int, int], list[tuple[int, int]]]  # (position, chunk, phase) -> (receive, bytes)


class Board:
    """What the participants of one meeting know of each other: who walks, and messages that came before their phase."""

    __slots__ = ("early", "walks")

    def __init__(self) -> None:
        self.walks: dict[int, Walk] = {}
        self.early: Early = {}

    def deliver(self, position: int, chunk: int, phase: int, receive: int, size: int) -> None:
        """A message for the participant at `position` is there."""
        walk = self.walks.get(position)
        stay = walk.inside.get(chunk) if walk is not None else None
        if stay is not None and stay.number == phase:
            stay.received(receive, size)
        else:
            self.early.setdefault((position, chunk, phase), []).append((receive, size))


class Walk:
    """One participant: which chunk is in which phase. Chunks enter a phase in order, `active_chunks` at once."""

    def __init__(self, run: Surroundings, board: Board, plan: CollectivePlan, meeting: Meeting, rank: int,
                 position: int, node: int, done: Event) -> None:
        self.run, self.board, self.group = run, board, meeting.group
        self.rank, self.position, self.node, self.meeting = rank, position, node, meeting.number
        self._done, self._limit = done, plan.active_chunks
        self._phases = [chunk.phases for chunk in plan.chunks for _ in range(chunk.repeat)]
        self.phase_count = count = max((len(phases) for phases in self._phases), default=0)
        self._entered = [0] * (count + 1)   # chunks that have entered, or have not got, each phase number
        self._inside = [0] * (count + 1)
        self._reached = [0] * len(self._phases)  # the phase number that each chunk may enter next
        self._left = sum(1 for phases in self._phases if phases)
        self.inside: dict[int, Stay] = {}

    def start(self) -> None:
        """Enter the first phase; a collective without phases is done in the same instant."""
        self.board.walks[self.position] = self
        if self._left:
            self._advance(0)
        else:
            self.run.clock.at(self.run.clock.now, DONE, (self.rank, self.node, 0, 0), self._done)

    def _advance(self, number: int) -> None:
        """Let chunks enter phase `number`, in chunk order, while the window has room."""
        while self._entered[number] < len(self._phases):
            chunk = self._entered[number]
            if number >= len(self._phases[chunk]):
                self._entered[number] += 1
                continue
            if self._reached[chunk] != number or chunk in self.inside:
                return
            if self._limit and self._inside[number] >= self._limit:
                return
            self._entered[number] += 1
            self._inside[number] += 1
            self.inside[chunk] = stay = Stay(self, chunk, number, self._phases[chunk][number])
            stay.enter()

    def left(self, stay: Stay) -> None:
        """A chunk has left its phase: it may enter the next one, and another may enter this one."""
        chunk, number = stay.chunk, stay.number
        del self.inside[chunk]
        self._inside[number] -= 1
        self._reached[chunk] = number + 1
        if number + 1 < len(self._phases[chunk]):
            self._advance(number + 1)
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
        if sends and sends[0].needs == 0:
            start = clock.now + walk.run.policy.endpoint_delay
            clock.at(start, DONE, (walk.rank, walk.node, self.chunk, 0), self._release)
        if walk.run.foreign is not None:
            self._post_receives(walk.run.foreign)
        for receive, size in walk.board.early.pop((walk.position, self.chunk, self.number), ()):
            self.received(receive, size)
        self._leave()

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
        to = self._first + table.peer(self._place, send.peer) * self._phase.stride
        size = send.blocks * self._phase.block_size

        run = walk.run

        def delivered() -> None:
            if run.foreign is None:
                walk.board.deliver(to, self.chunk, self.number, send.match, size)
            self._undelivered -= 1
            self._leave()

        run.network.send((walk.rank, walk.node, self.chunk, send.number), run.npu(walk.group, walk.position),
                         run.npu(walk.group, to), size, delivered, self._tag(send.match))

    def _leave(self) -> None:
        if self._complete == len(self._flags) and self._next == len(self._sends()) and not self._undelivered:
            self._walk.left(self)
