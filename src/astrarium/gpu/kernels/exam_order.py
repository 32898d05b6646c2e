"""What the threads of a launch know of each other, in the exam of kernels: vector clocks over wavefronts."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from astrarium.arrays import I64
from astrarium.errors import InputError
from astrarium.gpu.engine import Launch, Place

__all__ = ["Order"]

Who = tuple[int, int]           # GPU, workgroup
Released = tuple[Who, int, I64]     # by whom, its how manieth release of the semaphore, what it knew
Run = tuple[int, int, int]      # operation of the log that came before, unordered; first request and end


class Order:
    """Clocks of workgroups. Entry w of a clock: how many fences of workgroup w are known, and so what it did before.
    Between two control operations, wavefronts of one workgroup are unordered among themselves."""

    def __init__(self, launch: Launch):
        self.launch = launch
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
        # Of each request its last writer (-1: none), as `stamp` says; and who read.
        self.writes = [[np.full((6, size), -1, np.int64) for size in sizes] for _ in range(launch.gpus)]
        self.again = [[np.zeros(size if each.flagged else 0, np.bool_) for size, each in zip(sizes, launch.buffers)]
                      for _ in range(launch.gpus)]      # lines with flags that were stored more than once
        self.reads: list[list[list[tuple[int, I64]]]] = [[[] for _ in sizes] for _ in range(launch.gpus)]
        self.released: dict[tuple[int, int], list[Released]] = {}
        self.acquired: list[tuple[Who, int, tuple[int, int], int, list[Released]]] = []

    def stamp(self, who: Who, size: int, number: int, *, packets: bool) -> I64:
        """[6, size]: workgroup, epoch, turn, thread, number in the log and position of each request of an operation.
        Threads deal packets in other portions than lines without flags."""
        me = self.number[who]
        wavefronts = self.launch.streams[self.launch.grid(who[0])[who[1]].stream].wavefronts
        thread = np.arange(size) // self.launch.machine.instruction % wavefronts + wavefronts * packets
        return np.stack((np.full(size, me), np.full(size, self.epoch[me]), np.full(size, self.turn[me]), thread,
                         np.full(size, number), np.arange(size)))

    def _unordered(self, who: Who, before: I64, mine: I64, offset: int) -> list[Run]:
        """Accesses of `before` [6, size] that are not known to precede `mine`, in a buffer from `offset` on."""
        me = self.number[who]
        known = np.append(self.known[who], 0)
        same = (before[3] == mine[3]) & ((before[4] < mine[4]) | (before[5] == mine[5]))    # thread, one by one
        own = (before[0] == me) & ((before[2] < mine[2]) | same)
        other = (before[0] != me) & (known[before[0]] >= before[1])
        number = np.where((before[0] >= 0) & ~own & ~other, before[4], -1)
        if (number < 0).all():
            return []
        ends = [0, *(np.flatnonzero(np.diff(number)) + 1).tolist(), len(number)]
        return [(int(number[first]), offset + first, offset + end) for first, end in pairwise(ends)
                if number[first] >= 0]

    def read(self, who: Who, gpu: int, place: Place, mine: I64, *, waits: bool) -> list[Run]:
        """A workgroup reads: what it reads that was written unordered. `waits`: for a packet, if a line has had no more
        than one."""
        part = slice(place.offset, place.offset + mine.shape[1])
        self.reads[gpu][place.buffer].append((place.offset, mine))
        table = self.writes[gpu][place.buffer][:, part]
        if waits:
            table = np.where(self.again[gpu][place.buffer][part], table, -1)
        return self._unordered(who, table, mine, place.offset)

    def write(self, who: Who, gpu: int, place: Place, mine: I64) -> tuple[list[Run], list[tuple[Run, int]]]:
        """A workgroup writes: who wrote there unordered, and who read, with the begin of what that one read."""
        begin, size = place.offset, mine.shape[1]
        table = self.writes[gpu][place.buffer][:, begin:begin + size]
        written, read = self._unordered(who, table, mine, begin), list[tuple[Run, int]]()
        flagged = self.launch.buffers[place.buffer].flagged
        once = flagged and (table[0] < 0).all()         # nobody can have read yet
        if flagged:
            self.again[gpu][place.buffer][begin:begin + size] |= table[0] >= 0
        for offset, stamp in () if once else self.reads[gpu][place.buffer]:
            first, end = max(offset, begin), min(offset + stamp.shape[1], begin + size)
            if first < end:
                read += [(run, offset) for run in self._unordered(who, stamp[:, first - offset:end - offset],
                                                                  mine[:, first - begin:end - begin], first)]
        table[:] = mine
        return written, read

    def repeat(self, gpu: int, place: Place, mine: I64) -> None:
        """A workgroup stores packets where it loaded them from: only a workgroup that stores others there can see
        it."""
        self.writes[gpu][place.buffer][:, place.offset:place.offset + mine.shape[1]] = mine

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
        seen = self.released.get(semaphore, [])[:value]
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
            for other, *_ in self.released.get(semaphore, []):
                totals[other] = totals.get(other, 0) + 1
            for other, count, _ in seen:
                if sum(totals.values()) - totals[other] + count - 1 >= value:
                    name = self.launch.semaphores[semaphore[1]]
                    raise fail(who, at, f"may see {value} releases of semaphore {name!r} before that of workgroup "
                               f"{other[1]} of GPU {other[0]}: {sum(totals.values())} are made")
