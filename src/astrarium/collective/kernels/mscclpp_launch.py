"""A launch of an MSCCL++ plan, proved before it runs."""

from __future__ import annotations

from collections import Counter

import numpy as np

from astrarium.collective.kernels.device import Gpu
from astrarium.collective.kernels.exam import prove
from astrarium.collective.kernels.exam_values import Part, Promise, one
from astrarium.collective.kernels.mscclpp import DATA, SIGNALS, WAITS, PlanGpu, PlannedKernels, PlanStep, Spot
from astrarium.engine.gpu import Buffer, Launch, Operation, OpKind, Place, Workgroup
from astrarium.errors import InputError, UnsupportedError
from astrarium.units import Bytes
from astrarium.vocab import CommOp

__all__ = ["mscclpp_launch"]

MOST = 1 << 26
LANE = 16       # bytes of a thread's access: the executor moves int4


def mscclpp_launch(plan: PlannedKernels, payload: float, gpu: Gpu, *, unroll: int = 4) -> Launch:
    """The launch of a plan on `payload` bytes (as nccl-tests counts them), proved by the exam.

    With LL it is not proved that nobody overwrites what others may still read: flags order that line by line, which
    the exam's clocks do not see. Chunks are rounded up to whole requests; a thread block has threads x 16 B /
    `gpu.instruction` wavefronts. Raises InputError that names rank, thread block and operation for a plan that does not
    do what its collective promises.
    """
    builder = _Builder(plan, payload, gpu)
    grids = tuple(builder.grid(rank) for rank in range(len(plan.gpus)))
    wavefronts = max(1, round(plan.threads * LANE / float(Bytes.of(gpu.instruction))))
    launch = Launch(gpu.machine(), len(plan.gpus), grids, builder.buffers, tuple(builder.semaphores), wavefronts,
                    unroll)
    prove(launch, builder.promise(), path=plan.path)
    return launch


class _Builder:
    """Buffers: with `inplace` one for input and output; scratch is the last. Semaphores: one per channel of a GPU, then
    one per round of each barrier."""

    def __init__(self, plan: PlannedKernels, payload: float, gpu: Gpu):
        self.plan, self.n = plan, len(plan.gpus)
        most = {kind: max(each.chunks[kind] for each in plan.gpus) for kind in "ios"}
        whole = most["o"] if plan.op == CommOp.ALL_GATHER else most["i"]
        self._check_chunks()
        self.chunk = max(1, -(-int(payload) // int(whole * float(Bytes.of(gpu.request)))))
        first = (Buffer("data", max(most["i"], most["o"]) * self.chunk),) if plan.in_place else (
            Buffer("input", most["i"] * self.chunk), Buffer("output", most["o"] * self.chunk))
        scratch = (Buffer("scratch", most["s"] * self.chunk, flagged=plan.ll, lines=2 if plan.ll else 1),)
        self.buffers = first + (scratch if most["s"] else ())
        requests = self.n * sum(buffer.size for buffer in self.buffers)
        if requests > MOST:
            raise UnsupportedError(plan.path, f"{requests} requests in all buffers",
                                   expected=f"at most {MOST}, which the exam holds in memory")
        self.semaphores = [f"channel {i}" for i in range(max(len(each.channels) for each in plan.gpus))]
        self.rounds: dict[tuple[int, int], int] = {}
        self.names: list[list[list[str]]] = [[] for _ in plan.gpus]
        self._balance()

    def _check_chunks(self) -> None:
        """As many chunks on every rank, and of input and output what the collective says."""
        first = self.plan.gpus[0].chunks
        want = {CommOp.ALL_GATHER: (first["i"], first["i"] * self.n), CommOp.ALL_REDUCE: (first["i"], first["i"]),
                CommOp.REDUCE_SCATTER: (first["o"] * self.n, first["o"])}[self.plan.op]
        for rank, gpu in enumerate(self.plan.gpus):
            if (gpu.chunks["i"], gpu.chunks["o"]) != want or not min(want):
                raise InputError(self.plan.path, f"rank {rank}: {gpu.chunks['i']} input and {gpu.chunks['o']} output "
                                 "chunks", expected=f"{want[0]} and {want[1]}, above 0, for "
                                 f"{self.plan.op.name.lower()}")

    def _fail(self, rank: int, block: int, at: int, name: str, message: str) -> InputError:
        return InputError(self.plan.path, f"rank {rank}, threadblock {block}, operation {at} ({name}): {message}")

    def _other_end(self, rank: int, channel: int) -> tuple[int, int]:
        """(rank, channel) to which a signal on a channel goes: channels between two ranks are paired in order."""
        mine = self.plan.gpus[rank].channels
        peer = mine[channel]
        turn = mine[:channel].count(peer)
        back = [i for i, to in enumerate(self.plan.gpus[peer].channels) if to == rank]
        if turn >= len(back):
            raise InputError(self.plan.path, f"rank {rank}, channel {channel}: rank {peer} has no channel back",
                             expected="as many channels from either end")
        return peer, back[turn]

    def _balance(self) -> None:
        """As many signals as waits on every channel, and one thread block that waits."""
        signals: Counter[tuple[int, int]] = Counter()
        waits: dict[tuple[int, int], list[tuple[int, int, str]]] = {}
        for rank, gpu in enumerate(self.plan.gpus):
            for block, at, step in _steps(gpu):
                for channel in step.channels:
                    if step.name in SIGNALS:
                        signals[self._other_end(rank, channel)] += 1
                    else:
                        waits.setdefault((rank, channel), []).append((block, at, step.name))
        for (rank, channel), where in waits.items():
            block, at, name = where[min(signals[rank, channel], len(where) - 1)]
            if len(where) != signals[rank, channel]:
                raise self._fail(rank, block, at, name, f"channel {channel} gets {signals[rank, channel]} signals and "
                                 f"{len(where)} waits")
            if len({each[0] for each in where}) > 1:
                raise UnsupportedError(self.plan.path, f"rank {rank}, channel {channel}: thread blocks "
                                       f"{sorted({each[0] for each in where})} wait on it", expected="one of them")
        for rank, channel in signals.keys() - waits.keys():
            raise InputError(self.plan.path, f"rank {rank}, channel {channel}: gets {signals[rank, channel]} signals "
                             "and no wait")

    def grid(self, rank: int) -> tuple[Workgroup, ...]:
        """The workgroups of a rank."""
        groups = []
        for number, block in enumerate(self.plan.gpus[rank].blocks):
            operations: list[Operation] = []
            names: list[str] = []
            waited: Counter[int] = Counter()
            met: Counter[int] = Counter()
            for at, step in enumerate(block.steps):
                made = self._operations(rank, step, waited, met)
                operations += made
                names += [f"rank {rank}, threadblock {number}, operation {at} ({step.name})"] * len(made)
            groups.append(Workgroup(tuple(operations)))
            self.names[rank].append(names)
        return tuple(groups)

    def _operations(self, rank: int, step: PlanStep, waited: Counter[int], met: Counter[int]) -> list[Operation]:
        made: list[Operation] = []
        if step.name in DATA:
            made += self._data(rank, step)
        for i, channel in enumerate(step.channels):
            if step.name in SIGNALS:
                peer, there = self._other_end(rank, channel)
                made.append(Operation(OpKind.RELEASE, semaphore=there, peer=(peer - rank) % self.n,
                                      fence=i == 0 and step.name != "rlxsignal"))
            elif step.name in WAITS:
                waited[channel] += 1
                made.append(Operation(OpKind.ACQUIRE, semaphore=channel, value=waited[channel]))
        if step.name == "nop":
            made.append(Operation(OpKind.BARRIER))
        if step.name == "barrier":
            number, blocks = step.barrier
            semaphore = self._round(number, met[number])
            met[number] += 1
            made += [Operation(OpKind.RELEASE, semaphore=semaphore),
                     Operation(OpKind.ACQUIRE, semaphore=semaphore, value=max(1, blocks))]
        return made

    def _data(self, rank: int, step: PlanStep) -> list[Operation]:
        """The thread block's share of a data operation; none where there are fewer requests than blocks."""
        total, (part, of) = step.sources[0][3] * self.chunk, step.share
        first, end = total * part // of, total * (part + 1) // of
        sources, targets = (tuple(self._place(rank, spot, first) for spot in spots)
                            for spots in (step.sources, step.targets))
        kind = OpKind.REDUCE if len(sources) > 1 else OpKind.MEMCPY
        return [Operation(kind, end - first, sources, targets)] if end > first else []

    def _round(self, barrier: int, turn: int) -> int:
        if (barrier, turn) not in self.rounds:
            self.rounds[barrier, turn] = len(self.semaphores)
            self.semaphores.append(f"barrier {barrier}, round {turn}")
        return self.rounds[barrier, turn]

    def _place(self, rank: int, spot: Spot, skipped: int) -> Place:
        owner, kind, index, _ = spot
        buffer, first = self._at(owner, kind)
        return Place(buffer, (first + index) * self.chunk + skipped, (owner - rank) % self.n)

    def _at(self, rank: int, kind: str) -> tuple[int, int]:
        """(number of the buffer, chunk of it) where a rank's input, output or scratch begins."""
        if kind == "s":
            return len(self.buffers) - 1, 0
        if not self.plan.in_place:
            return "io".index(kind), 0
        part = {CommOp.ALL_GATHER: "i", CommOp.REDUCE_SCATTER: "o"}.get(self.plan.op)
        return 0, rank * self.plan.gpus[rank].chunks[kind] if kind == part else 0

    def promise(self) -> Promise:
        """What the collective promises, rank by rank."""
        ranks = range(self.n)
        return Promise(self.plan.op.name.lower(), [self._part(rank, "i") for rank in ranks],
                       [self._part(rank, "o") for rank in ranks], self.names, overwritten=not self.plan.ll)

    def _part(self, rank: int, kind: str) -> Part:
        buffer, first = self._at(rank, kind)
        size = self.plan.gpus[rank].chunks[kind] * self.chunk
        own = {CommOp.ALL_GATHER: "i", CommOp.REDUCE_SCATTER: "o"}.get(self.plan.op)
        elements = np.arange(size) + (rank * size if kind == own else 0)
        if kind == "i":
            counts = [one(self.n, rank)] * size
        elif self.plan.op == CommOp.ALL_GATHER:
            counts = [one(self.n, int(each)) for each in elements * self.n // max(1, size)]
        else:
            counts = [(1,) * self.n] * size
        return Part(buffer, first * self.chunk, elements, counts)


def _steps(gpu: PlanGpu) -> list[tuple[int, int, PlanStep]]:
    """(thread block, number, operation) of all."""
    return [(block, at, step) for block, each in enumerate(gpu.blocks) for at, step in enumerate(each.steps)]
