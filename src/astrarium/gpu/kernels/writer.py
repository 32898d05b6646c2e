"""Write a collective's kernel: what one GPU's workgroups do, with peers as distances.

Chunks are ordered by distance, too: position p of a buffer on GPU g holds what the algorithm has for GPU
(g + p) mod n. So all GPUs run one grid, and the simulator needs to run one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from msgspec import Struct

from astrarium.gpu.engine import Buffer, Operation, OpKind, Place, Workgroup
from astrarium.vocab import CommOp

__all__ = ["KernelAlgorithm", "Piece", "Shape", "Sync", "Writer"]


class Shape(Struct, frozen=True):
    """What a builder is asked for: `gpus`, the `chunk` of one GPU in requests, `workgroups` that share it, how many
    lines with flags a request takes (`flags`; 0: data carry no flags), whether data are written to peers (put) or read
    from them (`get`), whether a step of the loop copies from or to all peers `at_once`, and what a `step` of a ring
    costs in addition to loads and stores (ps)."""

    gpus: int
    chunk: int
    workgroups: int
    flags: int = 0
    get: bool = False
    at_once: bool = False
    step: int = 0


class Piece(Struct, frozen=True):
    """A workgroup's part of every chunk: `size` requests from `first` on."""

    first: int
    size: int


class Sync(Struct, frozen=True):
    """A semaphore that `count` releases raise."""

    number: int
    count: int


class Writer:
    """Buffers, semaphores and workgroups of one launch while they are being written."""

    def __init__(self, shape: Shape):
        self.shape = shape
        self.buffers: list[Buffer] = []
        self.semaphores: list[str] = []
        self.groups: list[Workgroup] = []
        self.operations: list[Operation] = []
        self.piece = Piece(0, shape.chunk)

    def buffer(self, name: str, chunks: int, *, flags: int = 0) -> int:
        """A buffer of so many chunks; with `flags` its lines carry flags, and a request of payload takes so many."""
        self.buffers.append(Buffer(name, chunks * self.shape.chunk, flagged=flags > 0, lines=flags or 1))
        return len(self.buffers) - 1

    def pieces(self) -> list[Piece]:
        """How workgroups share a chunk; none is empty."""
        chunk, count = self.shape.chunk, min(self.shape.workgroups, self.shape.chunk)
        cuts = [chunk * i // count for i in range(count + 1)]
        return [Piece(first, end - first) for first, end in pairwise(cuts)]

    def begin(self, piece: Piece) -> None:
        """The next workgroup, which has this part of every chunk."""
        self.piece, self.operations = piece, []

    def end(self) -> None:
        """The workgroup is complete."""
        self.groups.append(Workgroup(tuple(self.operations)))

    def at(self, buffer: int, position: int, peer: int = 0) -> Place:
        """The workgroup's piece of the chunk at a position (mod GPUs) of a buffer of the GPU at distance `peer`."""
        n = self.shape.gpus
        return Place(buffer, position % n * self.shape.chunk + self.piece.first, peer % n)

    def all(self, buffer: int) -> Place:
        """The workgroup's piece of this GPU's own chunk on every GPU."""
        return Place(buffer, self.piece.first, self.shape.gpus, self.shape.chunk)

    def copy(self, source: Place, *targets: Place) -> None:
        """Load a piece and store it."""
        self._data(OpKind.MEMCPY, (source,), targets)

    def copies(self, pairs: Sequence[tuple[Place, Place]]) -> None:
        """Copies (from, to), one after another, or all in each step of the loop (`at_once`)."""
        sources, targets = tuple(zip(*pairs, strict=True))
        if self.shape.at_once:
            self._data(OpKind.MEMCPY, sources if len(set(sources)) > 1 else sources[:1], targets)
        else:
            for source, target in pairs:
                self.copy(source, target)

    def reduce(self, sources: Sequence[Place], *targets: Place) -> None:
        """Load pieces, add them, store the sum."""
        self._data(OpKind.REDUCE if len(sources) > 1 else OpKind.MEMCPY, tuple(sources), targets)

    def _data(self, kind: OpKind, sources: tuple[Place, ...], targets: tuple[Place, ...]) -> None:
        self.operations.append(Operation(kind, size=self.piece.size, sources=sources, targets=targets))

    def semaphore(self, name: str, count: int) -> Sync:
        """A semaphore of this workgroup, on every GPU."""
        self.semaphores.append(f"{name}, workgroup {len(self.groups)}")
        return Sync(len(self.semaphores) - 1, count)

    def release(self, sync: Sync, peers: Sequence[int], *, fence: bool = True, each: bool = False) -> None:
        """Raise a semaphore of GPUs at some distances; one fence goes before all, or one before `each`."""
        for i, peer in enumerate(peers):
            self.operations.append(Operation(OpKind.RELEASE, semaphore=sync.number, peer=peer % self.shape.gpus,
                                             fence=fence and (each or i == 0)))

    def acquire(self, sync: Sync) -> None:
        """Wait for all releases of a semaphore."""
        self.operations.append(Operation(OpKind.ACQUIRE, semaphore=sync.number, value=sync.count))

    def pause(self) -> None:
        """The cost of a step in addition to loads and stores, if any."""
        if self.shape.step:
            self.operations.append(Operation(OpKind.NOP, time=self.shape.step))

    def meet(self, name: str, *, fence: bool = False, each: bool = False) -> None:
        """Wait for this workgroup on all other GPUs."""
        peers = range(1, self.shape.gpus)
        sync = self.semaphore(name, len(peers))
        self.release(sync, peers, fence=fence, each=each)
        self.acquire(sync)


class KernelAlgorithm(Struct, frozen=True):
    """What the registry has of a kernel: the builder of each operation, whether peers can be read (get) and written
    to (put), whether lines may carry flags, whether the payload is one chunk on every GPU (else one chunk per GPU), and
    whether its workgroups run on copy engines."""

    builders: Mapping[CommOp, Callable[[Writer], None]]
    get: bool = True
    put: bool = True
    flags: bool = True
    whole: bool = False
    engines: bool = False
