"""A launch of an MSCCL++ plan, proved before it runs.

A port channel's proxy is a workgroup: it waits for the thread block's request, takes its latency, and does what it was
asked: copies, signals, says that it has flushed. Each thread block has one per port channel that it uses.
"""

from __future__ import annotations

from collections import Counter

from msgspec import Struct, field

from astrarium.errors import InputError, UnsupportedError
from astrarium.gpu.engine import Buffer, Launch, Operation, OpKind, Place, Stream, Workgroup
from astrarium.gpu.kernels.device import Gpu
from astrarium.gpu.kernels.exam import prove
from astrarium.gpu.kernels.exam_values import Promise
from astrarium.gpu.kernels.layout import Layout, check_room, fold
from astrarium.gpu.mscclpp.packets import has_packets
from astrarium.gpu.mscclpp.read import (
    DATA,
    FLUSHES,
    INSIDE,
    PAIRED,
    SIGNALS,
    WAITS,
    PlannedKernels,
    PlanStep,
    Spot,
)
from astrarium.gpu.mscclpp.sync import Semaphore, Signals, steps_of
from astrarium.gpu.mscclpp.threads import check_threads
from astrarium.units import Bytes
from astrarium.vocab import CommOp

__all__ = ["mscclpp_launch"]

LANE = 16       # bytes of a thread's access: the executor moves int4
_NAMES = {"barrier": "barrier {}, round {}", "wait": "wait of threadblock {}, operation {}", "channel": "channel {1}",
          "semaphore": "{} inside the GPU", "proxy": "proxy of threadblock {}, port channel {}",
          "flushed": "flush of threadblock {}, port channel {}"}
_CONTROL = frozenset({OpKind.ACQUIRE, OpKind.RELEASE, OpKind.BARRIER})


def mscclpp_launch(plan: PlannedKernels, payload: float, gpu: Gpu, *, unroll: int = 4, folded: bool = False) -> Launch:
    """The launch of a plan on `payload` bytes (as nccl-tests counts them), proved by the exam.

    One launch is proved, not that the next one leaves its packets alone until all are read: MSCCL++ sees to that where
    launches take two halves of scratch in turn (`use_double_scratch_buffer`).
    Chunks are rounded up to whole requests; a thread block has threads x 16 B /
    `gpu.instruction` wavefronts. `folded`: where all GPUs do alike, number chunks by their distance from each
    GPU, so that one GPU can be simulated for all. Raises InputError that names rank, thread block and operation for a
    plan that does not do what its collective promises, UnsupportedError for port channels on a `gpu` without
    `proxy_latency`.
    """
    builder = _Builder(plan, payload, gpu)
    grids = tuple(builder.grid(rank) for rank in range(len(plan.gpus)))
    wavefronts = max(1, round(plan.threads * LANE / float(Bytes.of(gpu.instruction))))
    launch = Launch(gpu.machine(len(plan.gpus)), len(plan.gpus), grids, builder.buffers,
                    tuple(_NAMES[what].format(*at) for what, *at in builder.semaphores), (Stream(wavefronts, unroll),))
    builder.check_proxies(gpu, wavefronts, grids)
    prove(launch, builder.promise(), path=plan.path)
    check_threads(plan)
    return fold(launch, builder.layout) if folded else launch


class _Group(Struct):
    """A workgroup while it is written: operations, and their names for errors."""

    operations: list[Operation] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    count: Counter[Semaphore] = field(default_factory=Counter)
    blind: list[int] = field(default_factory=list)      # operations that copy packets without waiting for them

    def add(self, name: str, *made: Operation) -> None:
        self.operations += made
        self.names += [name] * len(made)


class _Builder:
    """Buffers: with `inplace` one for input and output; scratch is the last. Semaphores: one per operation that waits,
    one per round of each barrier, two per proxy; numbered as they are met."""

    def __init__(self, plan: PlannedKernels, payload: float, gpu: Gpu):
        self.plan, self.n = plan, len(plan.gpus)
        self.latency = None if gpu.proxy_latency is None else max(1, round(gpu.proxy_latency * 1000))
        most = {kind: max(each.chunks[kind] for each in plan.gpus) for kind in "ios"}
        whole = most["o"] if plan.op == CommOp.ALL_GATHER else most["i"]
        self._check_chunks()
        self.chunk = max(1, -(-int(payload) // int(whole * float(Bytes.of(gpu.request)))))
        self.layout = Layout(plan.op, self.n, plan.in_place, most["i"] * self.chunk, most["o"] * self.chunk)
        packets = has_packets(plan)
        scratch = (Buffer("scratch", most["s"] * self.chunk, flagged=packets, lines=2 if packets else 1),)
        self.buffers = self.layout.buffers() + (scratch if most["s"] else ())
        check_room(plan.path, self.n, self.buffers)
        self._check_inside()
        self.signals = Signals(plan)
        self.semaphores: dict[Semaphore, int] = {}
        self.names: list[list[list[str]]] = [[] for _ in plan.gpus]
        self.blind: set[tuple[int, int, int]] = set()

    def _check_chunks(self) -> None:
        """Check that all ranks have equally many chunks, with inputs and outputs as the collective needs."""
        first = self.plan.gpus[0].chunks
        alike = first["i"], first["i"]
        want = {CommOp.ALL_GATHER: (first["i"], first["i"] * self.n), CommOp.ALL_REDUCE: alike,
                CommOp.ALL_TO_ALL: alike, CommOp.REDUCE_SCATTER: (first["o"] * self.n, first["o"])}[self.plan.op]
        for rank, gpu in enumerate(self.plan.gpus):
            if (gpu.chunks["i"], gpu.chunks["o"]) != want or not min(want):
                raise InputError(self.plan.path, f"rank {rank}: {gpu.chunks['i']} input and {gpu.chunks['o']} output "
                                 "chunks", expected=f"{want[0]} and {want[1]}, above 0, for "
                                 f"{self.plan.op.name.lower()}")
        if self.plan.op == CommOp.ALL_TO_ALL and first["i"] % self.n:
            raise InputError(self.plan.path, f"{first['i']} chunks for {self.n} ranks", expected="as many for each")

    def _check_inside(self) -> None:
        """One thread block acquires a semaphore inside a GPU: of several, it is open which one comes first."""
        for rank, gpu in enumerate(self.plan.gpus):
            takes: dict[int, int] = {}
            for block, at, step in steps_of(gpu):
                for each in step.semaphores if step.name == "sem_acquire" else ():
                    if takes.setdefault(each, block) != block:
                        raise UnsupportedError(self.plan.path, f"rank {rank}, threadblock {block}, operation {at} "
                                               f"({step.name}): semaphore {each}, as in threadblock {takes[each]}",
                                               expected="one of them")

    def check_proxies(self, gpu: Gpu, wavefronts: int, grids: tuple[tuple[Workgroup, ...], ...]) -> None:
        """Proxies have to run at the same time as the thread blocks that wait for them."""
        room = gpu.units * min(gpu.workgroups_per_unit, gpu.wavefronts_per_unit // wavefronts)
        for rank, grid in enumerate(grids):
            blocks = len(self.plan.gpus[rank].blocks)
            if blocks < len(grid) > room:
                raise UnsupportedError(self.plan.path, f"rank {rank}: {blocks} thread blocks and {len(grid) - blocks} "
                                       "proxies of port channels", expected=f"at most {room}, which run at once")

    def grid(self, rank: int) -> tuple[Workgroup, ...]:
        """The workgroups of a rank: thread blocks, then proxies."""
        blocks: list[_Group] = []
        proxies: dict[tuple[int, int], _Group] = {}
        for number, block in enumerate(self.plan.gpus[rank].blocks):
            group, met = _Group(), Counter[Semaphore]()
            for at, step in enumerate(block.steps):
                name = f"rank {rank}, threadblock {number}, operation {at} ({step.name})"
                if step.port and step.name not in WAITS:
                    self._ask((rank, number, at), step, name, group, proxies)
                else:
                    group.add(name, *self._operations((rank, number, at), step, met))
            blocks.append(_without_idle_barriers(group))
        groups = [*blocks, *proxies.values()]
        self.names[rank] = [group.names for group in groups]
        self.blind |= {(rank, number, at) for number, group in enumerate(groups) for at in group.blind}
        return tuple(Workgroup(tuple(group.operations)) for group in groups)

    def _number(self, key: Semaphore) -> int:
        return self.semaphores.setdefault(key, len(self.semaphores))

    def _operations(self, where: tuple[int, int, int], step: PlanStep, met: Counter[Semaphore]) -> list[Operation]:
        made = self._data(where[0], step) if step.name in DATA else []
        if step.name in SIGNALS:
            made += [self._signal(where, place, fence=place == 0 and step.name != "rlxsignal")
                     for place in range(len(step.channels))]
        elif step.name in WAITS:
            made += [Operation(OpKind.ACQUIRE, semaphore=self._number(key), value=value, fence=step.name != "rlxwait")
                     for key, value in self.signals.awaited(where, step)]
        elif step.name in INSIDE:
            made += self._inside(where[0], step, met)
        elif step.name == "nop":
            made.append(Operation(OpKind.BARRIER))
        elif step.name == "barrier":
            number, blocks = step.barrier
            semaphore = self._number(("barrier", number, met["barrier", number, 0]))
            met["barrier", number, 0] += 1
            made += [Operation(OpKind.RELEASE, semaphore=semaphore),
                     Operation(OpKind.ACQUIRE, semaphore=semaphore, value=max(1, blocks))]
        return made

    def _inside(self, rank: int, step: PlanStep, met: Counter[Semaphore]) -> list[Operation]:
        """Semaphores inside a GPU: an acquire takes one of the initial value and the releases."""
        made = []
        for at, each in enumerate(step.semaphores):
            key = ("semaphore", each, 0)
            number = self._number(key)
            if step.name == "sem_release":
                made.append(Operation(OpKind.RELEASE, semaphore=number, fence=at == 0))
                continue
            met[key] += 1
            value = met[key] - self.plan.gpus[rank].semaphores[each]
            made += [Operation(OpKind.ACQUIRE, semaphore=number, value=value)] if value > 0 else []
        return made

    def _signal(self, where: tuple[int, int, int], place: int, *, fence: bool) -> Operation:
        peer, key = self.signals.raised(where, place)
        return Operation(OpKind.RELEASE, semaphore=self._number(key), peer=(peer - where[0]) % self.n, fence=fence)

    def _ask(self, where: tuple[int, int, int], step: PlanStep, name: str, group: _Group,
             proxies: dict[tuple[int, int], _Group]) -> None:
        """An operation on port channels: requests to the proxies, and what they do then."""
        if self.latency is None:
            raise UnsupportedError(self.plan.path, f"{name} on a port channel",
                                   expected="a GPU with proxy_latency, which says how long its proxy takes")
        rank, block, _ = where
        if step.name == "rppkt":
            group.add(name, *(Operation(OpKind.LOAD, each.size, each.sources) for each in self._data(rank, step)))
        copies = self._data(rank, step) if step.name in DATA else []
        if len(copies) == 1 < len(step.channels):       # one source to several peers
            copies = [Operation(OpKind.MEMCPY, copies[0].size, copies[0].sources, (to,)) for to in copies[0].targets]
        for place, channel in enumerate(step.channels):
            proxy, asked = proxies.setdefault((block, channel), _Group()), ("proxy", block, channel)
            group.count[asked] += 1
            group.add(name, Operation(OpKind.RELEASE, semaphore=self._number(asked), fence=place == 0))
            proxy.blind.append(len(proxy.operations) + 2)
            made = [Operation(OpKind.ACQUIRE, semaphore=self._number(asked), value=group.count[asked]),
                    Operation(OpKind.NOP, time=self.latency), *copies[place:place + 1]]
            if step.name in SIGNALS:
                made.append(self._signal(where, place, fence=True))
            if step.name in FLUSHES:
                flushed = ("flushed", block, channel)
                group.count[flushed] += 1
                made.append(Operation(OpKind.RELEASE, semaphore=self._number(flushed)))
            proxy.add(f"{name}, at its proxy,", *made)
        if step.name in FLUSHES:
            for channel in step.channels:
                flushed = ("flushed", block, channel)
                group.add(name, Operation(OpKind.ACQUIRE, semaphore=self._number(flushed), value=group.count[flushed]))

    def _data(self, rank: int, step: PlanStep) -> list[Operation]:
        """The thread block's share of a data operation; none where there are fewer requests than blocks."""
        total, (part, of) = step.sources[0][3] * self.chunk, step.share
        first, end = total * part // of, total * (part + 1) // of
        sources, targets = (tuple(self._place(rank, spot, first) for spot in spots)
                            for spots in (step.sources, step.targets))
        if end <= first:
            return []
        if step.name in PAIRED:
            return [Operation(OpKind.MEMCPY, end - first, (source,), (target,))
                    for source, target in zip(sources, targets, strict=True)]
        kind = OpKind.REDUCE if len(sources) > 1 else OpKind.MEMCPY
        return [Operation(kind, end - first, sources, targets)]

    def _place(self, rank: int, spot: Spot, skipped: int) -> Place:
        owner, kind, index, _ = spot
        everyone, owner = owner == self.n > 1, rank if owner == self.n else owner
        buffer, first = (len(self.buffers) - 1, 0) if kind == "s" else self.layout.at(owner, kind)
        turn = 0 if kind == "s" else first - self.layout.at((owner + 1) % self.n, kind)[1]
        size = self.buffers[buffer].size
        return Place(buffer, first + index * self.chunk + skipped, self.n if everyone else (owner - rank) % self.n,
                     turn % size if everyone else 0)

    def promise(self) -> Promise:
        """What the collective promises, rank by rank."""
        return Promise(self.plan.op.name.lower(), self.layout.starts(), self.layout.ends(), self.names,
                       self.blind)


def _without_idle_barriers(group: _Group) -> _Group:
    """Without barriers next to a release, an acquire or a barrier: these bring the wavefronts together anyway."""
    found = _Group()
    following: list[OpKind | None] = [*(op.kind for op in group.operations[1:]), None]
    for op, name, after in zip(group.operations, group.names, following):
        before = found.operations[-1].kind if found.operations else None
        if op.kind != OpKind.BARRIER or not _CONTROL & {before, after}:
            found.add(name, op)
    return found
