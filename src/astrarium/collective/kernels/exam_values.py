"""What requests hold in the exam of kernels: an element of the payload, and how often each GPU contributed to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from astrarium.engine.gpu import Launch, Place
from astrarium.vocab import CommOp

__all__ = ["OUTPUT", "Contents", "expected"]

I64 = npt.NDArray[np.int64]
Value = tuple[I64, I64]         # elements, -1: nothing; numbers of sets of contributors
OUTPUT = 1


class Contents:
    """All buffers of all GPUs; sets of contributors are numbered, so that contents are arrays of integers."""

    def __init__(self, launch: Launch, op: CommOp, whole: bool):
        self.n = launch.gpus
        self.sets: dict[tuple[int, ...], int] = {}
        self.counts: list[tuple[int, ...]] = []
        self.held = [[(np.full(b.size, -1, np.int64), np.zeros(b.size, np.int64)) for b in launch.buffers]
                     for _ in range(self.n)]
        for gpu in range(self.n):
            element, contributors = _start(launch, op, whole, gpu)
            self.held[gpu][0][0][:] = element
            self.held[gpu][0][1][:] = [self._number(_one(self.n, c)) for c in contributors]

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

    def store(self, gpu: int, place: Place, value: Value) -> None:
        """Put a value to a place."""
        for column, new in zip(self.held[gpu][place.buffer], value, strict=True):
            column[place.offset:place.offset + len(new)] = new

    def differs(self, gpu: int, element: I64, contributors: Sequence[tuple[int, ...]]) -> int | None:
        """The first request of the output of `gpu` that does not hold what it should; None: all do."""
        want = np.array([self._number(each) for each in contributors])
        held = self.held[gpu][OUTPUT]
        wrong = np.flatnonzero((held[0] != element) | (held[1] != want))
        return int(wrong[0]) if wrong.size else None

    def said(self, gpu: int, request: int) -> str:
        """What a request of the output holds, in words."""
        element, held = (int(column[request]) for column in self.held[gpu][OUTPUT])
        if element < 0:
            return "nothing"
        return f"element {element} and contributions {self.counts[held]} of the GPUs"


def _one(n: int, contributor: int) -> tuple[int, ...]:
    return tuple(int(i == contributor) for i in range(n))


def _chunk(launch: Launch, op: CommOp) -> int:
    """Requests of one chunk, from the buffer that has one."""
    size = launch.buffers[0 if op == CommOp.ALL_GATHER else OUTPUT].size
    return size // launch.gpus if op in (CommOp.ALL_REDUCE, CommOp.ALL_TO_ALL) else size


def _start(launch: Launch, op: CommOp, whole: bool, gpu: int) -> tuple[I64, list[int]]:
    """(elements, contributors) of a GPU's input."""
    n, size = launch.gpus, launch.buffers[0].size
    if whole:
        return np.arange(size), [gpu] * size
    chunk = _chunk(launch, op)
    if op == CommOp.ALL_GATHER:
        return gpu * chunk + np.arange(chunk), [gpu] * chunk
    position = np.repeat(np.arange(n), chunk)
    there = (gpu + position) % n
    if op == CommOp.ALL_TO_ALL:
        there = there * n + gpu
    return there * chunk + np.tile(np.arange(chunk), n), [gpu] * size


def expected(launch: Launch, op: CommOp, whole: bool) -> Iterator[tuple[int, tuple[I64, list[tuple[int, ...]]]]]:
    """Per GPU: (elements, how often each GPU contributes) of its output."""
    n, size = launch.gpus, launch.buffers[OUTPUT].size
    everyone, chunk = (1,) * n, size if whole else _chunk(launch, op)
    position = np.repeat(np.arange(n), chunk)
    for gpu in range(n):
        there = (gpu + position) % n
        if whole:
            yield gpu, (np.arange(size), [everyone] * size)
        elif op == CommOp.REDUCE_SCATTER:
            yield gpu, (gpu * chunk + np.arange(chunk), [everyone] * size)
        else:
            base = gpu * n + there if op == CommOp.ALL_TO_ALL else there
            who = [everyone if op == CommOp.ALL_REDUCE else _one(n, int(each)) for each in there]
            yield gpu, (base * chunk + np.tile(np.arange(chunk), n), who)
