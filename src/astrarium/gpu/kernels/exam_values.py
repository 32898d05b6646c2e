"""What requests hold in the exam of kernels: an element of the payload, and how often each GPU contributed to it."""

from __future__ import annotations

from collections.abc import Sequence, Set

import numpy as np
from msgspec import Struct

from astrarium.arrays import I64
from astrarium.gpu.engine import Launch, Place
from astrarium.vocab import CommOp

__all__ = ["Contents", "Promise", "Region", "Value", "by_distance", "one"]

Value = tuple[I64, I64]         # elements, -1: nothing; numbers of sets of contributors
OUTPUT = 1


class Region(Struct, frozen=True, eq=False):
    """What a part of a buffer holds, from request `offset` on: `elements` of the payload (-1: nothing), and how often
    each GPU contributes to them, `counts`."""

    buffer: int
    offset: int
    elements: I64
    counts: Sequence[tuple[int, ...]]


class Promise(Struct, frozen=True):
    """What each GPU holds before a collective, and what after it; `names` of operations [GPU][workgroup][operation],
    for errors. `blind`: operations (GPU, workgroup, number) that copy lines with flags without waiting for these."""

    what: str
    starts: Sequence[Region]
    ends: Sequence[Region]
    names: Sequence[Sequence[Sequence[str]]] | None = None
    blind: Set[tuple[int, int, int]] = frozenset()


class Contents:
    """All buffers of all GPUs; sets of contributors are numbered, so that contents are arrays of integers."""

    def __init__(self, launch: Launch, starts: Sequence[Region]):
        self.sets: dict[tuple[int, ...], int] = {}
        self.counts: list[tuple[int, ...]] = []
        self.held = [[(np.full(b.size, -1, np.int64), np.zeros(b.size, np.int64)) for b in launch.buffers]
                     for _ in range(launch.gpus)]
        for gpu, part in enumerate(starts):
            self.store(gpu, Place(part.buffer, part.offset), (part.elements, self._numbers(part.counts)))

    def _numbers(self, counts: Sequence[tuple[int, ...]]) -> I64:
        return np.array([self._number(each) for each in counts], np.int64)

    def _number(self, counts: tuple[int, ...]) -> int:
        if counts not in self.sets:
            self.sets[counts] = len(self.counts)
            self.counts.append(counts)
        return self.sets[counts]

    def elements(self, gpu: int, place: Place, size: int) -> I64:
        """Elements in `size` requests of a place of `gpu`."""
        return self.held[gpu][place.buffer][0][place.offset:place.offset + size]

    def load(self, places: Sequence[tuple[int, Place]], size: int) -> Value | None:
        """The sum of what several places hold; None where their elements differ."""
        total: Value | None = None
        for gpu, place in places:
            part = slice(place.offset, place.offset + size)
            element, held = (column[part] for column in self.held[gpu][place.buffer])
            if total is None:
                total = element.copy(), held.copy()
            elif (total[0] != element).any():
                return None
            else:
                total = element, self._sum(total[1], held)
        return total if total is not None else (np.full(size, -1, np.int64), np.zeros(size, np.int64))

    def _sum(self, left: I64, right: I64) -> I64:
        pairs, where = np.unique(np.stack([left, right]), axis=1, return_inverse=True)
        sums = [self._number(tuple(a + b for a, b in zip(self.counts[i], self.counts[j], strict=True)))
                for i, j in pairs.T]
        return np.array(sums, np.int64)[where.reshape(-1)]

    def holds(self, gpu: int, place: Place, value: Value) -> bool:
        """Whether a place holds `value`."""
        part = slice(place.offset, place.offset + len(value[0]))
        element, counts = (column[part] for column in self.held[gpu][place.buffer])
        return bool(((element >= 0) & (element == value[0]) & (counts == value[1])).all())

    def store(self, gpu: int, place: Place, value: Value) -> None:
        """Put a value to a place."""
        for column, new in zip(self.held[gpu][place.buffer], value, strict=True):
            column[place.offset:place.offset + len(new)] = new

    def differs(self, gpu: int, part: Region) -> tuple[int, str] | None:
        """(first request of a part of a buffer of `gpu` that does not hold what it should, what it holds); None."""
        where = slice(part.offset, part.offset + len(part.elements))
        element, counts = (column[where] for column in self.held[gpu][part.buffer])
        wrong = np.flatnonzero((element != part.elements) | ((element >= 0) & (counts != self._numbers(part.counts))))
        if not wrong.size:
            return None
        first = int(wrong[0])
        if element[first] < 0:
            return part.offset + first, "nothing"
        held = f"element {element[first]} and contributions {self.counts[counts[first]]} of the GPUs"
        return part.offset + first, held


def one(n: int, contributor: int) -> tuple[int, ...]:
    """Counts where one GPU contributes once."""
    return tuple(int(i == contributor) for i in range(n))


def _chunk(launch: Launch, op: CommOp) -> int:
    """Requests of one chunk, from the buffer that has one."""
    size = launch.buffers[0 if op == CommOp.ALL_GATHER else OUTPUT].size
    return size // launch.gpus if op in (CommOp.ALL_REDUCE, CommOp.ALL_TO_ALL) else size


def by_distance(launch: Launch, op: CommOp, whole: bool) -> Promise:
    """What `op` promises of buffers 0 (input) and 1 (output), with chunks by distance (see `writer`), or `whole`."""
    gpus = range(launch.gpus)
    return Promise(op.name.lower(), [_start(launch, op, whole, gpu) for gpu in gpus],
                   [_end(launch, op, whole, gpu) for gpu in gpus])


def _start(launch: Launch, op: CommOp, whole: bool, gpu: int) -> Region:
    n, size = launch.gpus, launch.buffers[0].size
    mine = [one(n, gpu)] * size
    if whole:
        return Region(0, 0, np.arange(size), mine)
    chunk = _chunk(launch, op)
    if op == CommOp.ALL_GATHER:
        return Region(0, 0, gpu * chunk + np.arange(chunk), mine)
    there = (gpu + np.repeat(np.arange(n), chunk)) % n
    if op == CommOp.ALL_TO_ALL:
        there = there * n + gpu
    return Region(0, 0, there * chunk + np.tile(np.arange(chunk), n), mine)


def _end(launch: Launch, op: CommOp, whole: bool, gpu: int) -> Region:
    n, size = launch.gpus, launch.buffers[OUTPUT].size
    everyone = (1,) * n
    if whole:
        return Region(OUTPUT, 0, np.arange(size), [everyone] * size)
    chunk = _chunk(launch, op)
    if op == CommOp.REDUCE_SCATTER:
        return Region(OUTPUT, 0, gpu * chunk + np.arange(chunk), [everyone] * size)
    there = (gpu + np.repeat(np.arange(n), chunk)) % n
    base = gpu * n + there if op == CommOp.ALL_TO_ALL else there
    who = [everyone if op == CommOp.ALL_REDUCE else one(n, int(each)) for each in there]
    return Region(OUTPUT, 0, base * chunk + np.tile(np.arange(chunk), n), who)
