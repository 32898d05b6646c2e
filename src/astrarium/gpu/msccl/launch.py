"""A launch of an MSCCL program (XML), proved before it runs.

A thread block is a workgroup. Each connection (sender, receiver, channel) has a buffer at the receiver with a place for
each message: a send stores there, a receive loads from there. Simple: the sender fences and raises the connection's
semaphore, for which the receiver waits. LL: the buffer's lines carry flags. Steps of a thread block end one after the
other; a step that others depend on raises its thread block's semaphore. Sums (re) into one place in a row are one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import accumulate

from msgspec import Struct, field
from msgspec.structs import replace

from astrarium.errors import UnsupportedError
from astrarium.gpu.engine import Buffer, Launch, Operation, OpKind, Place, Stream, Workgroup
from astrarium.gpu.kernels.device import Gpu
from astrarium.gpu.kernels.exam import prove
from astrarium.gpu.kernels.exam_values import Promise
from astrarium.gpu.kernels.layout import Layout, check_room, fold
from astrarium.gpu.msccl.exam import check_ranges, examine_msccl
from astrarium.gpu.msccl.xml import RECEIVES, SENDS, Algo, Block, Step, msccl_op
from astrarium.units import Bytes
from astrarium.vocab import CommOp

__all__ = ["msccl_launch"]

MOST_OPERANDS = 16      # of a fused sum, without its target
MOST_STEPS = 20_000     # what the exam of steps orders in reasonable time
Connection = tuple[int, int]        # distance of the sender from the receiver, channel


def msccl_launch(algo: Algo, payload: float, gpu: Gpu, *, wavefronts: int = 8, unroll: int = 4, folded: bool = False,
                 path: str = "msccl") -> Launch:
    """The launch of a program on `payload` bytes (as nccl-tests counts them), proved twice: its steps on chunks
    (`examine_msccl`), and the launch.

    A connection holds all its messages: that a sender waits for room is not modelled. Chunks are rounded up to whole
    requests. `folded`: where all GPUs do alike, number chunks by their distance from each GPU, so that one GPU can be
    simulated for all. Raises InputError that names GPU, thread block and step, UnsupportedError for what is beyond
    this model.
    """
    if algo.protocol not in ("Simple", "LL"):
        raise UnsupportedError(path, f"proto={algo.protocol[:40]!r}", expected="Simple or LL")
    steps = sum(len(block.steps) for each in algo.gpus for block in each.blocks)
    if steps > MOST_STEPS:
        raise UnsupportedError(path, f"{steps} steps", expected=f"at most {MOST_STEPS}, which the exam orders")
    check_ranges(algo, path=path)
    examine_msccl(algo, path=path)
    builder = _Builder(algo, payload, gpu, path)
    grids = tuple(builder.grid(rank) for rank in range(len(algo.gpus)))
    gpus = len(algo.gpus)
    launch = Launch(gpu.machine(gpus), gpus, grids, builder.buffers, tuple(builder.semaphores),
                    (Stream(wavefronts, unroll),))
    prove(launch, builder.promise(), path=path)
    return fold(launch, builder.layout) if folded else launch


class _Group(Struct):
    """A workgroup while it is written."""

    operations: list[Operation] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    def add(self, name: str, op: Operation) -> None:
        """One more operation; data after data wait for all wavefronts, as steps do."""
        if self.operations and _moves(op) and _moves(self.operations[-1]):
            self.operations.append(Operation(OpKind.BARRIER))
            self.names.append(name)
        self.operations.append(op)
        self.names.append(name)


def _moves(op: Operation) -> bool:
    return op.kind in (OpKind.MEMCPY, OpKind.REDUCE)


class _Builder:
    """Buffers: data, scratch, then one per connection. Semaphores are numbered as they are met."""

    def __init__(self, algo: Algo, payload: float, gpu: Gpu, path: str):
        self.algo, self.n, self.path, self.ll = algo, len(algo.gpus), path, algo.protocol == "LL"
        op, request = msccl_op(algo, path=path), float(Bytes.of(gpu.request))
        self.chunk = max(1, -(-int(payload) // int(algo.chunks * request)))
        whole, share = algo.chunks * self.chunk, algo.chunks // self.n * self.chunk
        self.layout = Layout(op, self.n, algo.inplace, share if op == CommOp.ALL_GATHER else whole,
                             share if op == CommOp.REDUCE_SCATTER else whole)
        self.places: dict[tuple[int, int, int], int] = {}       # (GPU, thread block, receiving step) -> its first chunk
        self.targets: dict[tuple[int, int, int], int] = {}      # the same of a sending step, at its receiver
        self.connections = self._connections()
        scratch = max(each.chunks["s"] for each in algo.gpus) * self.chunk
        first = self.layout.buffers() + ((Buffer("scratch", scratch),) if scratch else ())
        self.number = {key: len(first) + i for i, key in enumerate(self.connections)}
        self.buffers = first + tuple(
            Buffer(f"messages from distance {way}, channel {channel}", chunks * self.chunk, flagged=self.ll,
                   lines=2 if self.ll else 1) for (way, channel), chunks in self.connections.items())
        check_room(path, self.n, self.buffers)
        self.awaited = {(gpu.id, *step.depends) for gpu in algo.gpus for block in gpu.blocks for step in block.steps
                        if step.depends is not None}
        self.semaphores: dict[str, int] = {}
        self.names: list[list[list[str]]] = []

    def _connections(self) -> dict[Connection, int]:
        """Chunks of each connection, of the GPU with most; records the place of each message."""
        size: dict[Connection, int] = defaultdict(int)
        for gpu in self.algo.gpus:
            for block in gpu.blocks:
                for kinds, peer, places in ((SENDS, block.send, self.targets), (RECEIVES, block.recv, self.places)):
                    users = [(at, step) for at, step in enumerate(block.steps) if step.type in kinds]
                    ends = [0, *accumulate(step.count for _, step in users)]
                    for (at, _), first in zip(users, ends):
                        places[gpu.id, block.id, at] = first
                    if users and kinds is RECEIVES:
                        key = (peer - gpu.id) % self.n, block.channel
                        size[key] = max(size[key], ends[-1])
        return dict(sorted(size.items()))

    def grid(self, rank: int) -> tuple[Workgroup, ...]:
        """The workgroups of a GPU."""
        groups = []
        for block in self.algo.gpus[rank].blocks:
            group, count = _Group(), Counter[str]()
            for at, step in enumerate(block.steps):
                name = f"rank {rank}, threadblock {block.id}, step {at} ({step.type})"
                if self._continues(rank, block, at, group):
                    last = group.operations[-1]
                    more = (*last.sources, self._place(rank, step.source))
                    group.operations[-1] = replace(last, sources=more)
                    for op in self._told(rank, block, at, fence=True):
                        group.add(name, op)
                    continue
                for op in self._operations(rank, block, at, step, count):
                    group.add(name, op)
            groups.append(group)
        self.names.append([group.names for group in groups])
        return tuple(Workgroup(tuple(group.operations)) for group in groups)

    def _continues(self, rank: int, block: Block, at: int, group: _Group) -> bool:
        """Whether a step adds one more operand to the sum of the step before: MSCCL does up to 16 in one go."""
        step, before = block.steps[at], block.steps[at - 1] if at else None
        return (before is not None and step.type == before.type == "re" and step.depends is None
                and (rank, block.id, at - 1) not in self.awaited and step.count == before.count
                and step.target == before.target and step.source[0] == before.source[0]
                and len(group.operations[-1].sources) <= MOST_OPERANDS)

    def _told(self, rank: int, block: Block, at: int, *, fence: bool) -> list[Operation]:
        """The release for the steps that wait for this one, if any do."""
        if (rank, block.id, at) not in self.awaited:
            return []
        return [Operation(OpKind.RELEASE, semaphore=self._semaphore(f"steps of threadblock {block.id}"), fence=fence)]

    def _semaphore(self, name: str) -> int:
        return self.semaphores.setdefault(name, len(self.semaphores))

    def _operations(self, rank: int, block: Block, at: int, step: Step, count: Counter[str]) -> list[Operation]:
        """Wait for what the step needs, move its chunks, tell who waits for it."""
        made = []
        if step.depends is not None:
            other, upto = step.depends
            value = sum((rank, other, each) in self.awaited for each in range(upto + 1))
            made.append(Operation(OpKind.ACQUIRE, semaphore=self._semaphore(f"steps of threadblock {other}"),
                                  value=value))
        if step.type in RECEIVES and not self.ll:
            came = f"messages from distance {(block.recv - rank) % self.n}, channel {block.channel}"
            count[came] += 1
            made.append(Operation(OpKind.ACQUIRE, semaphore=self._semaphore(came), value=count[came]))
        made += self._data(rank, block, at, step)
        fence = True
        if step.type in SENDS and not self.ll:
            to = f"messages from distance {(rank - block.send) % self.n}, channel {block.channel}"
            made.append(Operation(OpKind.RELEASE, semaphore=self._semaphore(to), peer=(block.send - rank) % self.n))
            fence = False
        return made + self._told(rank, block, at, fence=fence)

    def _data(self, rank: int, block: Block, at: int, step: Step) -> list[Operation]:
        """What a step loads, adds and stores. A step that both stores and sends does so at once."""
        kind, sources, targets = step.type, [], []
        if kind == "nop" or not step.count:
            return []
        if kind in RECEIVES:
            sources.append(Place(self.number[(block.recv - rank) % self.n, block.channel],
                                 self.places[rank, block.id, at] * self.chunk))
        if kind in ("s", "cpy", "re", "rrc", "rrs", "rrcs"):
            sources.append(self._place(rank, step.source))
        if kind == "re":
            sources.append(self._place(rank, step.target))
        if kind in ("r", "rrc", "rcs", "rrcs", "cpy", "re"):
            targets.append(self._place(rank, step.target))
        if kind in SENDS:
            way = (block.send - rank) % self.n
            targets.append(Place(self.number[(rank - block.send) % self.n, block.channel],
                                 self.targets[rank, block.id, at] * self.chunk, way))
        return [Operation(OpKind.REDUCE if len(sources) > 1 else OpKind.MEMCPY, step.count * self.chunk, tuple(sources),
                          tuple(targets))]

    def _place(self, rank: int, spot: tuple[str, int]) -> Place:
        kind, index = spot
        buffer, first = (len(self.layout.buffers()), 0) if kind == "s" else self.layout.at(rank, kind)
        return Place(buffer, first + index * self.chunk)

    def promise(self) -> Promise:
        """What the collective promises, rank by rank."""
        return Promise(self.layout.op.name.lower(), self.layout.starts(), self.layout.ends(), self.names)
