"""The run: one list of events over all GPUs, in order of time and key."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

import numpy as np

from astrarium.gpu.engine.recorded import bins_of
from astrarium.gpu.engine.stall import stalled
from astrarium.gpu.engine.values import ON_ROOM, ON_SEMAPHORE, Finished, Launch, Recorded, Wait
from astrarium.gpu.oracle.chip import Chip
from astrarium.gpu.oracle.units import EventKind, Packet, Units, Wavefront

__all__ = ["run"]

Way = tuple[int, int, int]


def run(launch: Launch, *, fold: bool = True, record: int = 0) -> Finished:
    """Run a launch to its end. `fold`: where all GPUs do the same, simulate one. Raises StallError."""
    return _Run(launch, fold and launch.symmetric, record).finish()


class _Gpu:
    """One GPU, and what its parts ask of the run."""

    def __init__(self, run: _Run, number: int):
        self.run, self.number = run, number
        self.units, self.chip = Units(run.launch, number, self), Chip(run.launch, self, run.record)

    @property
    def now(self) -> int:
        return self.run.now

    def later(self, when: int, stage: int, wavefront: Wavefront, serial: int, what: object) -> None:
        self.run.push(when, _key(stage, 0, wavefront, serial), self, (stage, 0, what, None))

    def at(self, when: int, stage: int, origin: int, packet: Packet, way: Way | None = None) -> None:
        key = _key(stage, origin, packet.instruction.wavefront, packet.serial)
        self.run.push(when, key, self, (stage, origin, packet, way))

    def leaves(self, unit: int, packet: Packet, when: int) -> None:
        self.chip.leaves(unit, packet, when)

    def crosses(self, when: int, distance: int, origin: int, packet: Packet) -> None:
        self.run.there(self, distance).at(when, EventKind.IN, origin, packet)

    def picks(self, when: int, stage: int, port: int) -> None:
        self.run.push(when, EventKind.PICK << 60 | stage << 50 | port, self, (EventKind.PICK, stage, port, None))

    def back(self, packet: Packet, when: int) -> None:
        self.units.arrived(packet.instruction, when)

    def handle(self, stage: int, origin: int, what: Any, way: Way | None) -> None:
        units, chip = self.units, self.chip
        if stage == EventKind.HOP and way is not None:
            return chip.hop(origin, what, way)
        if stage == EventKind.PICK:
            return chip.pick(origin, what)
        own: dict[int, Callable[[Any], None]] = {EventKind.DONE: units.done, EventKind.TIMER: units.timer,
                                                 EventKind.START: units.start, EventKind.UNIT: chip.unit}
        if stage in own:
            return own[stage](what)
        return {EventKind.CHANNEL: chip.channel, EventKind.OUT: chip.out, EventKind.IN: chip.into}[stage](origin, what)


class _Run:
    def __init__(self, launch: Launch, folded: bool, record: int):
        self.launch, self.folded, self.record, self.now, self.events = launch, folded, record, 0, 0
        self.heap: list[tuple[int, int, int, int, tuple[int, int, Any, Way | None]]] = []
        self.pushed = 0      # the last key of the heap: answers to one multimem load may come in one instant
        self.gpus = [_Gpu(self, i) for i in range(1 if folded else launch.gpus)]

    def push(self, when: int, key: int, gpu: _Gpu, what: tuple[int, int, Any, Way | None]) -> None:
        self.pushed += 1
        heapq.heappush(self.heap, (when, key, gpu.number, self.pushed, what))

    def there(self, here: _Gpu, distance: int) -> _Gpu:
        """The GPU at a distance; of a folded run, the one."""
        return self.gpus[0 if self.folded else (here.number + distance) % self.launch.gpus]

    def finish(self) -> Finished:
        for gpu in self.gpus:
            gpu.units.begin(self.launch.start(gpu.number))
        while self.heap:
            self.now, _, number, _, (stage, origin, what, way) = heapq.heappop(self.heap)
            self.events += 1
            self.gpus[number].handle(stage, origin, what, way)
        if waits := _waits(self.gpus):
            raise stalled(self.launch, waits, sum(gpu.units.undispatched() for gpu in self.gpus))
        return self._outcome()

    def _outcome(self) -> Finished:
        n, units = self.launch.gpus, [gpu.units for gpu in self.gpus]
        most = max(len(each.works) for each in units)

        def rows(values: list[Any]) -> Any:
            return np.array(values * n if self.folded else values, np.int64)

        def works(name: str) -> Any:
            return rows([[getattr(w, name) for w in each.works] + [-1] * (most - len(each.works)) for each in units])

        return Finished(rows([each.end for each in units]), works("start"), works("end"),
                        rows([each.requests for each in units]), rows([each.outstanding for each in units]),
                        rows([each.latency for each in units]), rows([gpu.chip.channel_requests for gpu in self.gpus]),
                        rows([gpu.chip.hbm_requests for gpu in self.gpus]),
                        rows([gpu.chip.port_packets for gpu in self.gpus]), self.events, len(self.gpus),
                        self._recorded() if self.record else None)

    def _recorded(self) -> Recorded:
        works = [gpu.units.works for gpu in self.gpus]
        return Recorded(self.record, [[w.over for w in each] for each in works],
                        [[w.unit.number for w in each] for each in works],
                        bins_of([gpu.chip.port_busy for gpu in self.gpus], len(self.launch.machine.port_router)))


def _key(stage: int, origin: int, wavefront: Wavefront, serial: int) -> int:
    """Stage, origin's distance, workgroup, wavefront, serial number: no two events of an instant on a GPU agree."""
    return stage << 60 | origin << 50 | wavefront.work.number << 36 | wavefront.index << 31 | serial


def _waits(gpus: list[_Gpu]) -> list[Wait]:
    """One wait per workgroup and operation: for the lowest line, else for a semaphore, else for room to issue."""
    n = gpus[0].run.launch.gpus
    readers: dict[Wavefront, tuple[int, int]] = {}          # (line, distance of its GPU)
    for gpu in gpus:
        for line, waiting in gpu.chip.readers.items():
            for origin, packet in waiting:
                f = packet.instruction.wavefront
                readers[f] = min(readers.get(f, (line, (n - origin) % n)), (line, (n - origin) % n))
    found: dict[tuple[int, int, int], Wait] = {}
    for gpu in gpus:
        for work in gpu.units.unfinished():
            for f in work.wavefronts:
                wait = _wait(gpu, f, readers)
                known = wait and found.setdefault((wait.gpu, wait.workgroup, wait.operation), wait)
                if wait and known and wait.line >= 0 and (known.line < 0 or wait.line < known.line):
                    found[wait.gpu, wait.workgroup, wait.operation] = wait
    return [found[key] for key in sorted(found)]


def _wait(gpu: _Gpu, f: Wavefront, readers: dict[Wavefront, tuple[int, int]]) -> Wait | None:
    """Why a wavefront waits; None where it has ended, or waits for others of its workgroup."""
    work = f.work
    if f.pc == len(work.operations) or (f.phase == "control" and (f.index or work.arrived < len(work.wavefronts))):
        return None
    if f.cursor == f.count and f.phase == "control":
        return Wait(gpu.number, work.number, f.pc, ON_SEMAPHORE, 0, gpu.chip.counts[f.operation.semaphore])
    if f.cursor == f.count and f.phase == "load" and f in readers:
        return Wait(gpu.number, work.number, f.pc, *readers[f], 0)
    return Wait(gpu.number, work.number, f.pc, ON_ROOM, 0, 0)
