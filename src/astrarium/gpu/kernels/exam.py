"""The exam of kernels: a proof, without times, that a launch does what its operation promises.

Operations run on symbols: each request of payload holds an element of the payload and who contributed to it, how often.
Each operation runs when what it waits for is there, in any order; the launch must come to its end with the right
contents. Vector clocks (Mattern 1989) over releases, acquires and barriers then show that it does so in *every* order:
who reads or overwrites a request must know of its last writer, who overwrites one also of its readers, and a GPU must
know of the writers of its output before it ends. A load of a line with a flag waits for the store of a packet, and so
needs no such order; but all packets of a launch have the same flag. Who stores a second one to a line must know that
the first one came and that all have read it, and who loads the line then must know that the second one came. Who
stores a packet where it loaded it from (`gstorepkt`) needs no order: a load gets the same from the one and the other.

A wavefront is a thread: requests of an operation are dealt to wavefronts as in the simulator, and wavefronts of a
workgroup know of each other at control operations. What a workgroup stored is told by a release that fences; what it
read, also by packets (`exam_flags`).
"""

from __future__ import annotations

from itertools import chain

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from astrarium.errors import InputError
from astrarium.gpu.engine import Launch, Operation, OpKind, Place
from astrarium.gpu.kernels.exam_flags import Doubt, Flags
from astrarium.gpu.kernels.exam_order import Order, Run
from astrarium.gpu.kernels.exam_values import Contents, Promise, Value, by_distance
from astrarium.vocab import CommOp

__all__ = ["examine_kernels", "prove"]



def examine_kernels(launch: Launch, op: CommOp, *, whole: bool = False, path: str = "kernels") -> None:
    """Prove a launch of `op`, whose first two buffers are input and output, with chunks by distance (`whole`: one
    chunk, the same elements in the same place on every GPU). InputError at `path` says what is wrong."""
    prove(launch, by_distance(launch, op, whole), path=path)


def prove(launch: Launch, promise: Promise, *, path: str = "kernels") -> None:
    """Prove a launch of any layout: see `examine_kernels`."""
    _Exam(launch, promise, path).run()


class _Exam:
    def __init__(self, launch: Launch, promise: Promise, path: str):
        self.launch, self.promise, self.path = launch, promise, path
        self.contents = Contents(launch, promise.starts)
        self.order, self.flags = Order(launch), Flags(launch, path)
        self.at = {(g, w): 0 for g in range(launch.gpus) for w in range(len(launch.grid(g)))}
        self.raised: dict[tuple[int, int], list[tuple[int, int]]] = {}     # (GPU, semaphore) -> who released, in order

    def run(self) -> None:
        """Run all; what is read or overwritten too early comes first, as all else may follow from it."""
        try:
            self._run()
        except InputError:
            self._check_doubts()
            raise
        self._check_doubts()
        self._check_end()

    def _run(self) -> None:
        """Go round the workgroups until none can go on."""
        moved = True
        while moved:
            moved = False
            for who in self.at:
                while (op := self._operation(who)) is not None and self._ready(who, op):
                    self._execute(who, op)
                    self.at[who] += 1
                    moved = True
        for who in self.at:
            if (op := self._operation(who)) is not None:
                raise self._fail(who, f"waits for ever{self._what(who, op)}")
        self.order.check_acquires(self._fail_at)

    def _operation(self, who: tuple[int, int]) -> Operation | None:
        operations = self.launch.grid(who[0])[who[1]].operations
        return operations[self.at[who]] if self.at[who] < len(operations) else None

    def _ready(self, who: tuple[int, int], op: Operation) -> bool:
        if op.kind == OpKind.ACQUIRE:
            return len(self.raised.get((who[0], op.semaphore), [])) >= op.value
        return self._blind(who) or all(self._held(who, op, place).all() for place in op.sources
                                       if self._flagged(place))

    def _blind(self, who: tuple[int, int]) -> bool:
        return (*who, self.at[who]) in self.promise.blind

    def _what(self, who: tuple[int, int], op: Operation) -> str:
        if op.kind == OpKind.ACQUIRE:
            there = len(self.raised.get((who[0], op.semaphore), []))
            return f" for semaphore {self.launch.semaphores[op.semaphore]!r} to be {op.value}; it ends at {there}"
        return " for lines with flags that nobody stores"

    def _flagged(self, place: Place) -> bool:
        return self.launch.buffers[place.buffer].flagged

    def _where(self, who: tuple[int, int], place: Place) -> list[tuple[int, Place]]:
        """(GPU, place on it): one, or all."""
        n, size = self.launch.gpus, self.launch.buffers[place.buffer].size
        if place.peer < n:
            return [((who[0] + place.peer) % n, place)]
        return [((who[0] + d) % n, replace(place, offset=(place.offset - d * place.turn) % size)) for d in range(n)]

    def _held(self, who: tuple[int, int], op: Operation, place: Place) -> npt.NDArray[np.bool_]:
        return np.concatenate([self.contents.elements(gpu, each, op.size) >= 0
                               for gpu, each in self._where(who, place)])

    def _execute(self, who: tuple[int, int], op: Operation) -> None:
        if op.kind == OpKind.RELEASE:
            key = (who[0] + op.peer) % self.launch.gpus, op.semaphore
            self.raised.setdefault(key, []).append(who)
            self.order.release(who, key, fence=op.fence)
            self.flags.met(who, key, fence=op.fence)
        elif op.kind == OpKind.ACQUIRE:
            self.order.acquire(who, (who[0], op.semaphore), op.value, self.at[who], fence=op.fence)
            self.flags.met(who, (who[0], op.semaphore), value=op.value, fence=op.fence)
        elif op.kind == OpKind.BARRIER:
            self.order.meet(who)
            self.flags.met(who)
        elif op.kind != OpKind.NOP:
            self._move(who, op)

    def _move(self, who: tuple[int, int], op: Operation) -> None:
        sides = [[each for place in places for each in self._where(who, place)] for places in (op.sources, op.targets)]
        number = self.flags.moved(who, self.at[who], op.size, *sides)
        packets = any(self._flagged(place) for place in (*op.sources, *op.targets))
        stamp = self.order.stamp(who, op.size, number, packets=packets)
        for place in op.sources:
            if not self._held(who, op, place).all():
                raise self._fail(who, f"reads buffer {self.launch.buffers[place.buffer].name!r}, where nothing is yet")
        for gpu, place in sides[0]:
            waits = self._flagged(place) and not self._blind(who)
            self._written(number, gpu, place, self.order.read(who, gpu, place, stamp, waits=waits), "reads")
        loaded = {(gpu, each.buffer, each.offset) for gpu, each in sides[0]}
        for place, value in zip(op.targets, self._values(who, op), strict=False):
            for gpu, each in self._where(who, place):
                same = (gpu, each.buffer, each.offset) in loaded and self.contents.holds(gpu, each, value)
                if same and self._flagged(place):
                    self.flags.repeated((gpu, each.buffer), each.offset, op.size)
                    self.order.repeat(gpu, each, stamp)
                    continue
                written, read = self.order.write(who, gpu, each, stamp)
                self._written(number, gpu, each, written, "overwrites")
                for (earlier, first, end), start in read:
                    self.flags.doubt(Doubt(earlier, number, (gpu, each.buffer), first, end, (start, each.offset),
                                           writes=True, landed=False))
                self.contents.store(gpu, each, value)

    def _written(self, number: int, gpu: int, place: Place, runs: list[Run], word: str) -> None:
        """Somebody touches what was written, unordered by clocks: of a packet its reader can tell that it came."""
        for earlier, first, end in runs:
            doubt = Doubt(earlier, number, (gpu, place.buffer), first, end, (0, place.offset),
                          writes=word == "overwrites", landed=True)
            if not self._flagged(place):
                raise self._early(doubt)
            self.flags.doubt(doubt)

    def _check_doubts(self) -> None:
        doubt = self.flags.open()
        if doubt is not None:
            raise self._early(doubt)

    def _early(self, doubt: Doubt) -> InputError:
        """Who reads or overwrites too early, and what."""
        gpu, buffer = doubt.room
        what = f"buffer {self.launch.buffers[buffer].name!r} of GPU {gpu}, unordered with"
        other = self._name(*self.flags.where(doubt.earlier))
        word, before = "overwrites" if doubt.writes else "reads", "writes" if doubt.landed else "reads"
        text = f"{word} {what} {other}, which {before} it"
        if self.launch.buffers[buffer].flagged:
            word, before = "stores" if doubt.writes else "reads", "stores others" if doubt.writes else "stores them"
            before = f"{before} there" if doubt.landed else "may not have read those that stand there"
            text = f"{word} packets in {what} {other}, which {before}"
        return self._fail_at(*self.flags.where(doubt.later), text)

    def _values(self, who: tuple[int, int], op: Operation) -> list[Value]:
        """What each target gets: the sum of all sources, or of a copy of several sources each its own."""
        held = [self._where(who, place) for place in op.sources]
        paired = op.kind == OpKind.MEMCPY and len(held) > 1
        loads = [self.contents.load(part, op.size) for part in (held if paired else [[*chain.from_iterable(held)]])]
        if any(value is None for value in loads):
            raise self._fail(who, "adds different elements of the payload")
        values = [value for value in loads if value is not None]
        return values if paired else values * len(op.targets)

    def _fail(self, who: tuple[int, int], message: str) -> InputError:
        return self._fail_at(who, self.at[who], message)

    def _fail_at(self, who: tuple[int, int], at: int, message: str) -> InputError:
        return InputError(self.path, f"{self._name(who, at)} {message}")

    def _name(self, who: tuple[int, int], at: int) -> str:
        """An operation, in words."""
        if self.promise.names is not None:
            return self.promise.names[who[0]][who[1]][at]
        kind = self.launch.grid(who[0])[who[1]].operations[at].kind.name.lower()
        return f"GPU {who[0]}, workgroup {who[1]}, operation {at} ({kind})"

    def _check_end(self) -> None:
        for gpu, part in enumerate(self.promise.ends):
            wrong = self.contents.differs(gpu, part)
            if wrong is not None:
                raise InputError(self.path, f"{self.promise.what}: request {wrong[0]} of the output of GPU {gpu} ends "
                                 f"with {wrong[1]}")
            late = self.order.unknown(gpu, part.buffer)
            if late is not None:
                raise InputError(self.path, f"GPU {gpu} may end before workgroup {late[1][1]} of GPU {late[1][0]} has "
                                 f"stored request {late[0]} of its output: nothing tells it{self._relaxed(late[1])}")

    def _relaxed(self, who: tuple[int, int]) -> str:
        """What to add where a workgroup signals without a fence."""
        relaxed = any(op.kind == OpKind.RELEASE and not op.fence for op in self.launch.grid(who[0])[who[1]].operations)
        return ", as a signal without a fence says nothing of what was stored before" if relaxed else ""
