"""What the threads of a launch know of each other, in the exam of kernels: vector clocks over wavefronts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from astrarium.engine.gpu import Launch, Place
from astrarium.errors import InputError

__all__ = ["Order"]

I64 = npt.NDArray[np.int64]
Who = tuple[int, int]           # GPU, workgroup
Released = tuple[Who, int, I64]     # by whom, its how manieth release of the semaphore, what it knew


class Order:
    """Clocks of workgroups. Entry w of a clock: how many fences of workgroup w are known, and so what it did before.
    Between two control operations, wavefronts of one workgroup are unordered among themselves."""

    def __init__(self, launch: Launch, *, overwritten: bool = True):
        self.launch, self.overwritten = launch, overwritten
        self.number: dict[Who, int] = {}
        for gpu in range(launch.gpus):
            for group in range(len(launch.grid(gpu))):
                self.number[gpu, group] = len(self.number)
        self.names = list(self.number)
        count = len(self.number)
        self.known = {who: np.zeros(count, np.int64) for who in self.number}
        self.fenced = {who: np.zeros(count, np.int64) for who in self.number}     # what was known at the last fence
        self.epoch, self.turn = np.ones(count, np.int64), np.zeros(count, np.int64)     # fences; control operations
        sizes = [buffer.size for buffer in launch.buffers]
        # Of each request: its last writer's workgroup (-1: none), epoch, turn and wavefront; the same of who read it.
        self.writes = [[np.full((4, size), -1, np.int64) for size in sizes] for _ in range(launch.gpus)]
        self.reads: list[list[list[tuple[int, I64]]]] = [[[] for _ in sizes] for _ in range(launch.gpus)]
        self.released: dict[tuple[int, int], list[Released]] = {}
        self.acquired: list[tuple[Who, int, tuple[int, int], int, list[Released]]] = []

    def _stamp(self, who: Who, size: int) -> I64:
        """[4, size]: workgroup, epoch, turn and wavefront of each request of an operation."""
        me = self.number[who]
        wavefront = np.arange(size) // self.launch.machine.instruction % self.launch.wavefronts
        rows = (np.full(size, me), np.full(size, self.epoch[me]), np.full(size, self.turn[me]), wavefront)
        return np.stack(rows)

    def _unordered(self, who: Who, before: I64, mine: I64) -> Who | None:
        """Somebody whose access `before` [4, size] is not known to precede `mine`."""
        me = self.number[who]
        known = np.append(self.known[who], 0)
        own = (before[0] == me) & ((before[2] < mine[2]) | (before[3] == mine[3]))
        other = (before[0] != me) & (known[before[0]] >= before[1])
        wrong = np.flatnonzero((before[0] >= 0) & ~own & ~other)
        return self.names[int(before[0, wrong[0]])] if wrong.size else None

    def read(self, who: Who, gpu: int, place: Place, size: int) -> Who | None:
        """A workgroup reads: who wrote there unordered, if anybody did."""
        mine, part = self._stamp(who, size), slice(place.offset, place.offset + size)
        if self.overwritten:
            self.reads[gpu][place.buffer].append((place.offset, mine))
        return self._unordered(who, self.writes[gpu][place.buffer][:, part], mine)

    def write(self, who: Who, gpu: int, place: Place, size: int) -> Who | None:
        """A workgroup writes: who wrote or read there unordered, if anybody did."""
        mine, part = self._stamp(who, size), slice(place.offset, place.offset + size)
        table = self.writes[gpu][place.buffer]
        found = self._unordered(who, table[:, part], mine)
        for offset, stamp in self.reads[gpu][place.buffer]:
            first, end = max(offset, place.offset), min(offset + stamp.shape[1], place.offset + size)
            if found is None and first < end:
                found = self._unordered(who, stamp[:, first - offset:end - offset],
                                        mine[:, first - place.offset:end - place.offset])
        table[:, part] = mine
        return found

    def meet(self, who: Who) -> None:
        """All wavefronts of a workgroup come together."""
        self.turn[self.number[who]] += 1

    def release(self, who: Who, semaphore: tuple[int, int], *, fence: bool) -> None:
        """A workgroup raises a semaphore (GPU, number), and tells what it knew at its last fence."""
        self.meet(who)
        me = self.number[who]
        if fence:
            self.known[who][me] = self.epoch[me]
            self.fenced[who] = self.known[who].copy()
            self.epoch[me] += 1
        all_of = self.released.setdefault(semaphore, [])
        all_of.append((who, sum(1 for other, *_ in all_of if other == who) + 1, self.fenced[who]))

    def acquire(self, who: Who, semaphore: tuple[int, int], value: int, at: int, *, fence: bool) -> None:
        """A workgroup has seen `value` on a semaphore: with a fence it knows what the first releases told."""
        self.meet(who)
        seen = self.released[semaphore][:value]
        for _, _, known in seen if fence else ():
            np.maximum(self.known[who], known, out=self.known[who])
        self.acquired.append((who, at, semaphore, value, seen))

    def unknown(self, gpu: int, buffer: int) -> tuple[int, Who] | None:
        """The first request of a buffer of whose writer no workgroup of its GPU knows, and that writer."""
        mine = [who for who in self.number if who[0] == gpu]
        known = np.append(np.max([self.known[who] for who in mine], axis=0), 0)
        writer, epoch, *_ = self.writes[gpu][buffer]
        own = np.isin(writer, [self.number[who] for who in mine])
        wrong = np.flatnonzero((writer >= 0) & ~own & (known[writer] < epoch))
        return (int(wrong[0]), self.names[int(writer[wrong[0]])]) if wrong.size else None

    def check_acquires(self, fail: Callable[[Who, int, str], InputError]) -> None:
        """The releases that an acquire saw must be the ones that it sees in any order."""
        for who, at, semaphore, value, seen in self.acquired:
            totals: dict[Who, int] = {}
            for other, *_ in self.released[semaphore]:
                totals[other] = totals.get(other, 0) + 1
            for other, count, _ in seen:
                if sum(totals.values()) - totals[other] + count - 1 >= value:
                    name = self.launch.semaphores[semaphore[1]]
                    raise fail(who, at, f"may see {value} releases of semaphore {name!r} before that of workgroup "
                               f"{other[1]} of GPU {other[0]}: {sum(totals.values())} are made")
