"""Compute units of one GPU: workgroups, wavefronts, and when their instructions are issued."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Protocol

from astrarium.engine.gpu.values import Launch, Operation, OpKind, layout

__all__ = ["Events", "Instruction", "Packet", "Stage", "Unit", "Units", "Wavefront", "Work"]

DATA_OPS = (OpKind.LOAD, OpKind.STORE, OpKind.MEMCPY, OpKind.REDUCE)


class Stage:
    """What an event is, and which goes first in an instant."""

    DONE, TIMER, START, CHANNEL, OUT, IN, UNIT, HOP, PICK = range(9)


class Packet:
    """A request or its answer. `kind`: load, store, signal, poll (requests), data, ack (answers)."""

    __slots__ = ("instruction", "kind", "line", "serial")

    def __init__(self, instruction: Instruction, kind: str, line: int, serial: int):
        self.instruction, self.kind, self.line, self.serial = instruction, kind, line, serial


class Instruction:
    """Requests that one wavefront issued in a row; they are outstanding until the last one is back."""

    __slots__ = ("count", "done", "issued", "kind", "left", "peer", "serial", "wavefront")

    def __init__(self, wavefront: Wavefront, kind: str, count: int, peer: int, issued: int):
        self.wavefront, self.kind, self.count, self.left, self.peer = wavefront, kind, count, count, peer
        self.issued, self.done, self.serial = issued, 0, wavefront.serial


class Wavefront:
    """`at`: its next instruction of the operation. A phase issues `count` instructions; `cursor` of them are out."""

    __slots__ = ("at", "blocked", "count", "cursor", "index", "loads", "out", "pc", "phase", "serial", "step", "work")

    def __init__(self, work: Work, index: int):
        self.work, self.index, self.pc, self.at, self.step = work, index, 0, index, 0
        self.phase, self.cursor, self.count, self.loads, self.out = "", 0, 0, 0, 0
        self.blocked, self.serial = False, 0

    @property
    def operation(self) -> Operation:
        """The one that it executes."""
        return self.work.operations[self.pc]


class Work:
    """A workgroup."""

    __slots__ = ("arrived", "blocked", "end", "fencing", "left", "number", "operations", "out", "over",
                 "start", "unit", "wavefronts")

    def __init__(self, number: int, operations: tuple[Operation, ...], wavefronts: int):
        self.number, self.operations, self.left = number, operations, wavefronts
        self.wavefronts = [Wavefront(self, i) for i in range(wavefronts)]
        self.out, self.arrived, self.fencing, self.start, self.end = 0, 0, False, -1, -1
        self.blocked: list[Wavefront] = []
        self.over = [-1] * len(operations)
        self.unit: Unit


class Unit:
    """A compute unit: who is ready to issue, and when its ways and its ALU are free."""

    __slots__ = ("alu", "free", "inward", "number", "out", "outward", "ready", "since")

    def __init__(self, number: int, room: int):
        self.number, self.free, self.out = number, room, 0
        self.outward = self.inward = self.alu = self.since = 0
        self.ready: deque[Wavefront] = deque()


class Events(Protocol):
    """What units need of the run: the time, a timer, and packets on their way."""

    @property
    def now(self) -> int:
        """The time, ps."""

    def later(self, when: int, stage: int, wavefront: Wavefront, serial: int, what: object) -> None:
        """An event of this GPU."""

    def leaves(self, unit: int, packet: Packet, when: int) -> None:
        """A packet leaves a unit."""


class Units:
    """All units of a GPU."""

    def __init__(self, launch: Launch, gpu: int, events: Events):
        self.launch, self.machine, self.events = launch, launch.machine, events
        self.first, _, _, self.semaphore_line = layout(launch.buffers)
        m = launch.machine
        room = min(m.workgroups_per_unit, m.wavefronts_per_unit // launch.wavefronts)
        self.units = [Unit(i, room) for i in range(len(m.unit_router))]
        self.works = [Work(i, group.operations, launch.wavefronts) for i, group in enumerate(launch.grid(gpu))]
        self.waiting = deque(self.works)
        self.end = self.outstanding = self.latency = 0
        self.requests = [0, 0, 0]

    def begin(self, when: int) -> None:
        """Deal workgroups round-robin to units, as long as there is room."""
        self.end = when
        here = 0
        for _ in range(sum(unit.free for unit in self.units)):
            if not self.waiting:
                return
            while not self.units[here].free:
                here = (here + 1) % len(self.units)
            self._place(self.units[here], when)
            here = (here + 1) % len(self.units)

    def _place(self, unit: Unit, when: int) -> None:
        work = self.waiting.popleft()
        unit.free -= 1
        work.unit, work.start = unit, when + self.machine.dispatch
        self.events.later(work.start, Stage.START, work.wavefronts[0], 0, work)

    def start(self, work: Work) -> None:
        """A workgroup begins."""
        for wavefront in work.wavefronts:
            self._proceed(wavefront)
        self._serve(work.unit)

    # -- operations

    def _proceed(self, f: Wavefront) -> None:
        """Go on with the next operation that has something to do for this wavefront, or with more of this one."""
        work, m = f.work, self.machine
        while f.pc < len(work.operations):
            op = f.operation
            if op.kind == OpKind.NOP:
                f.phase = "nop"
                return self.events.later(self.events.now + op.time, Stage.TIMER, f, f.serial, f)
            if op.kind not in DATA_OPS:
                f.phase, f.cursor, f.count = "control", 0, 0
                work.arrived += 1
                return self._control(work) if work.arrived == len(work.wavefronts) else None
            left = -(-op.size // m.instruction) - f.at
            if left > 0:
                f.step = min(self.launch.unroll, -(-left // self.launch.wavefronts))
                return self._phase(f, "load", op.sources) if op.sources else self._phase(f, "store", op.targets)
            self._next(f)
        work.left -= 1
        return self._end_if_over(work)

    def _next(self, f: Wavefront) -> None:
        f.work.over[f.pc] = self.events.now
        f.pc, f.at = f.pc + 1, f.index

    def _phase(self, f: Wavefront, phase: str, places: tuple[object, ...]) -> None:
        f.phase, f.cursor, f.count = phase, 0, f.step * len(places)
        f.work.unit.ready.append(f)

    def _loaded(self, f: Wavefront) -> None:
        """All loads of a step are back."""
        more = (len(f.operation.sources) - 1) * self.machine.reduce if f.operation.kind != OpKind.MEMCPY else 0
        if not more:
            return self._added(f)
        unit = f.work.unit
        unit.alu = max(unit.alu, self.events.now) + more * sum(self._span(f, j)[1] for j in range(f.step))
        return self.events.later(unit.alu, Stage.TIMER, f, f.serial, f)

    def _added(self, f: Wavefront) -> None:
        if f.operation.targets:
            self._phase(f, "store", f.operation.targets)
        else:
            self._stepped(f)

    def _stepped(self, f: Wavefront) -> None:
        f.at += f.step * self.launch.wavefronts
        self._proceed(f)

    def _span(self, f: Wavefront, j: int) -> tuple[int, int]:
        """First request of payload of instruction j of the step, and how many."""
        size = self.machine.instruction
        first = (f.at + j * self.launch.wavefronts) * size
        return first, min(size, f.operation.size - first)

    # -- control operations

    def _control(self, work: Work) -> None:
        """All wavefronts are at a control operation."""
        leader, op = work.wavefronts[0], work.wavefronts[0].operation
        if op.kind == OpKind.BARRIER:
            return self.events.later(self.events.now + self.machine.barrier, Stage.TIMER, leader, leader.serial, leader)
        if op.kind == OpKind.RELEASE and op.fence:
            if work.out:
                work.fencing = True
                return None
            return self._fence(work)
        return self._ask(leader)

    def _fence(self, work: Work) -> None:
        leader = work.wavefronts[0]
        self.events.later(self.events.now + self.machine.fence, Stage.TIMER, leader, leader.serial, leader)

    def _ask(self, leader: Wavefront) -> None:
        leader.cursor, leader.count = 0, 1
        leader.work.unit.ready.append(leader)

    def _controlled(self, work: Work) -> None:
        work.arrived = 0
        for f in work.wavefronts:
            self._next(f)
            self._proceed(f)

    def timer(self, f: Wavefront) -> None:
        """What a wavefront waited for is over: a nop, an addition, a fence or a barrier."""
        if f.phase == "nop":
            self._next(f)
            self._proceed(f)
        elif f.phase == "load":
            self._added(f)
        elif f.operation.kind == OpKind.RELEASE:
            self._ask(f)
        else:
            self._controlled(f.work)
        self._serve(f.work.unit)

    # -- issue

    def _wanted(self, f: Wavefront) -> tuple[str, int, int, int]:
        """(kind, first line, lines, distance) of the instruction that a wavefront issues next."""
        op = f.operation
        if f.phase == "control":
            kind = "poll" if op.kind == OpKind.ACQUIRE else "signal"
            return kind, self.semaphore_line + op.semaphore, 1, op.peer if kind == "signal" else 0
        places = op.sources if f.phase == "load" else op.targets
        place = places[f.cursor % len(places)]
        first, count = self._span(f, f.cursor // len(places))
        lines = self.launch.buffers[place.buffer].lines
        return f.phase, self.first[place.buffer] + (place.offset + first) * lines, count * lines, place.peer

    def _serve(self, unit: Unit) -> None:
        """Issue as limits allow; ready wavefronts take turns."""
        m = self.machine
        while unit.ready:
            f = unit.ready[0]
            kind, line, count, peer = self._wanted(f)
            if unit.out + count > m.limit_unit:
                return
            unit.ready.popleft()
            if f.out + count > m.limit_wavefront:
                f.blocked = True
            elif f.work.out + count > m.limit_workgroup:
                f.work.blocked.append(f)
            else:
                self._issue(unit, f, kind, line, count, peer)
                f.cursor += 1
                if f.cursor < f.count:
                    unit.ready.append(f)
                elif kind == "store":
                    self._stepped(f)
                elif kind == "signal":
                    self._controlled(f.work)

    def _issue(self, unit: Unit, f: Wavefront, kind: str, line: int, count: int, peer: int) -> None:
        now, service = self.events.now, self.machine.unit_data if kind == "store" else self.machine.unit_control
        instruction = Instruction(f, kind, count, peer, now)
        self._count(unit, count)
        f.out, f.work.out = f.out + count, f.work.out + count
        f.loads += kind == "load"
        self.requests[{"load": 0, "store": 1}.get(kind, 2)] += count
        for i in range(count):
            unit.outward = max(unit.outward, now) + service
            self.events.leaves(unit.number, Packet(instruction, kind, line + i, f.serial), unit.outward)
            f.serial += 1

    def _count(self, unit: Unit, change: int) -> None:
        self.outstanding += unit.out * (self.events.now - unit.since)
        unit.since, unit.out = self.events.now, unit.out + change

    def arrived(self, instruction: Instruction, when: int) -> None:
        """A request of an instruction is back at `when`, which may be later than now."""
        instruction.done, instruction.left = max(instruction.done, when), instruction.left - 1
        if not instruction.left:
            self.events.later(instruction.done, Stage.DONE, instruction.wavefront, instruction.serial, instruction)

    def done(self, i: Instruction) -> None:
        """All requests of an instruction are back."""
        f, work = i.wavefront, i.wavefront.work
        unit = work.unit
        self._count(unit, -i.count)
        self.latency += i.count * (self.events.now - i.issued)
        f.out, work.out = f.out - i.count, work.out - i.count
        if i.kind == "load":
            f.loads -= 1
            if not f.loads and f.cursor == f.count:
                self._loaded(f)
        elif i.kind == "poll":
            self._controlled(work)
        if f.blocked:
            f.blocked = False
            unit.ready.append(f)
        unit.ready.extend(work.blocked)
        work.blocked.clear()
        if work.fencing and not work.out:
            work.fencing = False
            self._fence(work)
        self._end_if_over(work)
        self._serve(unit)

    def _end_if_over(self, work: Work) -> None:
        if work.left or work.out or work.end >= 0:
            return
        work.end, self.end = self.events.now, max(self.end, self.events.now)
        work.unit.free += 1
        if self.waiting:
            self._place(work.unit, self.events.now)

    def unfinished(self) -> Iterator[Work]:
        """Workgroups that began and did not end."""
        return (work for work in self.works if work.start >= 0 and work.end < 0)


