"""Compute units of one GPU: workgroups, wavefronts, and when their instructions are issued."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Protocol

from astrarium.gpu.engine.values import Launch, Machine, Operation, OpKind, Stream, layout

__all__ = ["EventKind", "Events", "Instruction", "Packet", "Unit", "Units", "Wavefront", "Work"]

DATA_OPS = (OpKind.LOAD, OpKind.STORE, OpKind.MEMCPY, OpKind.REDUCE, OpKind.MULTIPLY)


class EventKind:
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
                 "start", "stream", "unit", "wavefronts")

    def __init__(self, number: int, operations: tuple[Operation, ...], stream: Stream):
        self.number, self.operations, self.stream, self.left = number, operations, stream, stream.wavefronts
        self.wavefronts = [Wavefront(self, i) for i in range(stream.wavefronts)]
        self.out, self.arrived, self.fencing, self.start, self.end = 0, 0, False, -1, -1
        self.blocked: list[Wavefront] = []
        self.over = [-1] * len(operations)
        self.unit: Unit


class Unit:
    """A compute unit or copy engine: its room, who is ready to issue, and when its ways and its pipes are free."""

    __slots__ = ("alu", "control", "dispatch", "limits", "matrix", "number", "out", "outward", "places",
                 "ready", "since", "store", "wavefronts")

    def __init__(self, number: int, m: Machine):
        self.number, self.places, self.wavefronts, self.out = number, m.workgroups_per_unit, m.wavefronts_per_unit, 0
        self.outward = self.alu = self.matrix = self.since = 0
        self.ready: deque[Wavefront] = deque()
        self.limits = m.limit_wavefront, m.limit_workgroup, m.limit_unit
        self.store, self.control, self.dispatch = m.unit_store or m.unit_data, m.unit_control, m.dispatch
        if number >= m.computes:
            self.limits = (m.engine_limit,) * 3
            self.store, self.control, self.dispatch = m.engine_data, m.engine_control, m.engine_dispatch

    def fits(self, stream: Stream) -> bool:
        """Whether it has room for a workgroup."""
        return self.places >= stream.places and self.wavefronts >= stream.wavefronts


class Dealt:
    """A stream's workgroups that have no place yet, and the unit whose turn is next. `came`: the stream has begun."""

    __slots__ = ("came", "next", "stream", "units", "waiting")

    def __init__(self, stream: Stream, units: list[Unit], waiting: deque[Work]):
        self.stream, self.units, self.waiting, self.next, self.came = stream, units, waiting, 0, False


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
        grid = launch.grid(gpu)
        self.units = [Unit(i, self.machine) for i in range(len(self.machine.unit_router))]
        self.works = [Work(i, group.operations, launch.streams[group.stream]) for i, group in enumerate(grid)]
        self.ports = [[self.units[u] for u in port] for port in launch.ports()]
        self.dealt = [Dealt(stream, [self.units[u] for u in launch.units(s)], deque(
            work for work, group in zip(self.works, grid, strict=True) if group.stream == s))
            for s, stream in enumerate(launch.streams)]
        self.end = self.outstanding = self.latency = 0
        self.requests = [0, 0, 0]

    def begin(self, when: int) -> None:
        """Streams come at once, or when they start."""
        self.end = when
        for dealt in self.dealt:
            if not dealt.stream.start:
                self._deal(dealt, when)
            elif dealt.waiting:
                first = dealt.waiting[0]
                self.events.later(when + dealt.stream.start, EventKind.START, first.wavefronts[0], 0, first)

    def _deal(self, dealt: Dealt, when: int) -> None:
        """A stream comes: deal its workgroups round-robin to its units, as long as there is room."""
        dealt.came, full = True, 0
        while dealt.waiting and full < len(dealt.units):
            unit = dealt.units[dealt.next]
            dealt.next = (dealt.next + 1) % len(dealt.units)
            full = 0 if self._fits(dealt.stream, unit) else full + 1
            if not full:
                self._place(dealt, unit, when)

    def _fits(self, stream: Stream, unit: Unit) -> bool:
        """Whether a unit has room for a workgroup, or all units of its port for a cluster."""
        return all(each.fits(stream) for each in self._of(stream, unit))

    def _of(self, stream: Stream, unit: Unit) -> list[Unit]:
        return [unit] if stream.cluster == 1 else self.ports[unit.number]

    def _place(self, dealt: Dealt, unit: Unit, when: int) -> None:
        for each in self._of(dealt.stream, unit):
            self._put(dealt, each, when)

    def _put(self, dealt: Dealt, unit: Unit, when: int) -> None:
        work = dealt.waiting.popleft()
        unit.places, unit.wavefronts = unit.places - dealt.stream.places, unit.wavefronts - dealt.stream.wavefronts
        work.unit, work.start = unit, when + unit.dispatch
        self.events.later(work.start, EventKind.START, work.wavefronts[0], 0, work)

    def start(self, work: Work) -> None:
        """A workgroup begins; or its stream comes, of which it is the first."""
        if work.start < 0:
            coming = next(each for each in self.dealt if each.waiting and each.waiting[0] is work)
            self._deal(coming, self.events.now)
            return
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
                return self.events.later(self.events.now + op.time, EventKind.TIMER, f, f.serial, f)
            if op.kind not in DATA_OPS:
                f.phase, f.cursor, f.count = "control", 0, 0
                work.arrived += 1
                return self._control(work) if work.arrived == len(work.wavefronts) else None
            left = -(-op.size // m.instruction) - f.at
            if left > 0:
                f.step = min(work.stream.unroll, -(-left // work.stream.wavefronts))
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
        op, unit = f.operation, f.work.unit
        more = op.time if op.kind == OpKind.MULTIPLY else (len(op.sources) - 1) * self.machine.reduce
        if not more or op.kind == OpKind.MEMCPY:
            return self._added(f)
        pipe = "matrix" if op.kind == OpKind.MULTIPLY else "alu"
        end = max(getattr(unit, pipe), self.events.now) + more * sum(self._span(f, j)[1] for j in range(f.step))
        setattr(unit, pipe, end)
        return self.events.later(end, EventKind.TIMER, f, f.serial, f)

    def _added(self, f: Wavefront) -> None:
        if f.operation.targets:
            self._phase(f, "store", f.operation.targets)
        else:
            self._stepped(f)

    def _stepped(self, f: Wavefront) -> None:
        f.at += f.step * f.work.stream.wavefronts
        self._proceed(f)

    def _span(self, f: Wavefront, j: int) -> tuple[int, int]:
        """First request of payload of instruction j of the step, and how many."""
        size = self.machine.instruction
        first = (f.at + j * f.work.stream.wavefronts) * size
        return first, min(size, f.operation.size - first)

    # -- control operations

    def _control(self, work: Work) -> None:
        """All wavefronts are at a control operation."""
        leader, op = work.wavefronts[0], work.wavefronts[0].operation
        if op.kind == OpKind.BARRIER:
            met = self.events.now + self.machine.barrier
            return self.events.later(met, EventKind.TIMER, leader, leader.serial, leader)
        if op.kind == OpKind.RELEASE and op.fence:
            if work.out:
                work.fencing = True
                return None
            return self._fence(work)
        return self._ask(leader)

    def _fence(self, work: Work) -> None:
        leader = work.wavefronts[0]
        self.events.later(self.events.now + self.machine.fence, EventKind.TIMER, leader, leader.serial, leader)

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
        of_wavefront, of_workgroup, of_unit = unit.limits
        while unit.ready:
            f = unit.ready[0]
            kind, line, count, peer = self._wanted(f)
            if unit.out + count > of_unit:
                return
            unit.ready.popleft()
            if f.out + count > of_wavefront:
                f.blocked = True
            elif f.work.out + count > of_workgroup:
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
        now, service = self.events.now, unit.store if kind == "store" else unit.control
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
            self.events.later(instruction.done, EventKind.DONE, instruction.wavefront, instruction.serial, instruction)

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
        unit, stream = work.unit, work.stream
        unit.places, unit.wavefronts = unit.places + stream.places, unit.wavefronts + stream.wavefronts
        for dealt in self.dealt:
            while dealt.came and dealt.waiting and unit in dealt.units and self._fits(dealt.stream, unit):
                self._place(dealt, unit, self.events.now)

    def undispatched(self) -> int:
        """Workgroups that never had a place."""
        return sum(len(dealt.waiting) for dealt in self.dealt)

    def unfinished(self) -> Iterator[Work]:
        """Workgroups that began and did not end."""
        return (work for work in self.works if work.start >= 0 and work.end < 0)


