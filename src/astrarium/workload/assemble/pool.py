"""Every different node once. A program is then a list of row numbers, and a piece of a model a short one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from astrarium.arrays import I32
from astrarium.errors import InternalError
from astrarium.vocab import CommOp, Kernel, NodeKind
from astrarium.workload.mesh import Mesh
from astrarium.workload.pieces import Piece, Sketch, Step

__all__ = ["ENTRY", "SIZES", "Arguments", "Pool", "Strip", "strip_of", "whole_kernel"]


ENTRY = -9          # parent: what the piece waits for
COMM = (NodeKind.COMM_COLL, NodeKind.COMM_SEND, NodeKind.COMM_RECV)
Stream = Literal["", "weights", "gradients"]
SIZES = 7 - 1       # of a layer of experts the last number is no size: rows are even at 0
MESSAGES = (NodeKind.COMM_SEND, NodeKind.COMM_RECV)
MEMORY = (NodeKind.MEM_LOAD, NodeKind.MEM_STORE)


class Arguments(NamedTuple):
    """What a comm node is told per rank: nodes equal in all of it share a slot.

    Collectives: `axes` of the group, which `ends` or `mirror` in `among` narrows to those stages, and whose they are:
    collectives of one `stream` run in order, those of different streams have communicators (groups) of their own.
    Messages along an axis: `axes` and `shift`, with `flow` the displacement of the data and `turn` which of a piece's;
    between stages: `way` (0 activations, 1 gradients) and the `chunk` that sends or receives.
    """

    kind: NodeKind
    op: CommOp | None
    bytes: int
    priority: int
    axes: tuple[str, ...] = ()
    among: str = ""
    stream: Stream = ""
    shift: int = 0
    flow: int = 0
    turn: int = 0
    way: int = -1
    chunk: int = -1


class _Row(NamedTuple):
    name: str
    kind: NodeKind
    flops: float = float("nan")
    bytes: int = 0
    arguments: int = -1
    kernel: int = -1
    micros: int = 0
    tier: str = ""
    shared: int = -1        # CommOp of a memory node whose bytes several ranks share
    part: int = 0           # one rank's part of them


def whole_kernel(sketch: Sketch, flops: float, size: float) -> Kernel:
    """The kernel of a sketch: its numbers, FLOPs and bytes become whole."""
    shape = tuple([max(1, round(each)) for each in sketch.shape[:SIZES]])
    shape += tuple([round(each) for each in sketch.shape[SIZES:]])
    return Kernel(sketch.kind, sketch.precision, shape, sketch.work, float(round(flops)), round(size), sketch.launches,
                  sketch.held, sketch.op)


class Pool(Struct):
    """Rows and arguments so far, for all stages."""

    mesh: Mesh
    rows: dict[_Row, int] = field(default_factory=dict)
    kernels: dict[Kernel, int] = field(default_factory=dict)
    _collectives: dict[tuple[object, ...], int] = field(default_factory=dict)
    arguments: dict[Arguments, int] = field(default_factory=dict)

    def compute(self, name: str, flops: float, size: float, kernel: Sketch | None) -> int:
        """Row number of a compute node: FLOPs, bytes read and written, what runs it."""
        number = -1
        if kernel is not None:
            number = self.kernels.setdefault(whole_kernel(kernel, flops, size), len(self.kernels))
        return self._row(_Row(name, NodeKind.COMP, float(round(flops)), round(size), -1, number))

    def host(self, name: str, time: float) -> int:
        """Row number of a node of the host that takes `time` ns, in whole microseconds."""
        return self._row(_Row(name, NodeKind.COMP, micros=max(1, round(time / 1000))))

    def memory(self, name: str, kind: NodeKind, size: float, tier: str = "", sharers: int = 1) -> int:
        """Row number of an access to a tier of memory, or ("") to remote memory. `sharers` ranks load the same bytes,
        or store what is added to one tensor: a part of whole bytes for each, of which comm_type and comm_size tell."""
        if sharers == 1:
            return self._row(_Row(name, kind, bytes=round(size), tier=tier))
        part = max(1, round(size / sharers))
        op = CommOp.ALL_GATHER if kind == NodeKind.MEM_LOAD else CommOp.REDUCE_SCATTER
        return self._row(_Row(name, kind, bytes=part * sharers, tier=tier, shared=op, part=part))

    def beside(self, name: str, size: float, tier: str) -> int:
        """Row number of the work of a processor at a tier on `size` bytes of it."""
        return self._row(_Row(name, NodeKind.COMP, bytes=round(size), tier=tier))

    def comm(self, name: str, arguments: Arguments) -> int:
        """Row number of a comm node."""
        number = self.arguments.setdefault(arguments, len(self.arguments))
        return self._row(_Row(name, arguments.kind, bytes=arguments.bytes, arguments=number))

    def collective(self, name: str, op: CommOp, size: float, axes: Sequence[str], *, priority: int = 0,
                   among: str = "", stream: Stream = "") -> int:
        """Row number of a collective over the group of `axes`."""
        key = (name, op, size, axes, priority, among, stream)
        found = self._collectives.get(key)
        if found is None:
            found = self._collectives[key] = self.comm(name, Arguments(
                NodeKind.COMM_COLL, op, round(size), priority, self.mesh.real(axes), among, stream))
        return found

    def _row(self, row: _Row) -> int:
        return self.rows.setdefault(row, len(self.rows))

    def step(self, step: Step, turn: int = 0) -> int:
        """Row number of a step of a piece; messages of equal `turn` belong together."""
        if step.kind == NodeKind.COMP:
            return self.host(step.name, step.host) if step.host else self.compute(step.name, step.flops, step.bytes,
                                                                                  step.kernel)
        if step.kind in MEMORY:
            return self.memory(step.name, step.kind, step.bytes)
        if step.kind == NodeKind.COMM_COLL:
            if step.op is None:
                raise InternalError(f"step {step.name}: a collective without operation")
            return self.collective(step.name, step.op, step.bytes, step.axes, priority=2)
        if step.kind not in COMM or len(step.axes) != 1:
            raise InternalError(f"step {step.name}: {step.kind.name} over {step.axes}")
        ranks, flow = self.mesh.size(step.axes), self.flow(step)
        return self.comm(step.name, Arguments(step.kind, None, round(step.bytes), 2, step.axes,
                                              shift=step.shift % ranks, flow=flow, turn=turn))

    def flow(self, step: Step) -> int:
        """How far along its axis a message moves data."""
        return (step.shift if step.kind == NodeKind.COMM_SEND else -step.shift) % self.mesh.size(step.axes)

    def names(self) -> tuple[str, ...]:
        """Name by row number."""
        return tuple(row.name for row in self.rows)

    def tiers(self) -> tuple[str, ...]:
        """The tiers that rows name."""
        return tuple(dict.fromkeys(row.tier for row in self.rows if row.tier))

    def columns(self) -> dict[str, npt.NDArray[np.generic]]:
        """The columns of a TraceClass by row number, and `arguments` (-1: no comm node)."""
        rows, told = list(self.rows), list(self.arguments)
        of = [told[row.arguments] if row.arguments >= 0 else None for row in rows]
        comm = np.array([each is not None for each in of])
        size = np.array([row.bytes for row in rows], np.int64)
        part = np.array([row.part for row in rows], np.int64)
        tiers = {name: number for number, name in enumerate(self.tiers())}
        return {
            "type": np.array([row.kind for row in rows], np.uint8),
            "num_ops": np.array([row.flops for row in rows], np.float64),
            "tensor_size": np.where(comm, 0, size).astype(np.uint64),
            "comm_type": np.array([row.shared if each is None or each.op is None else each.op
                                   for row, each in zip(rows, of, strict=True)], np.int32),
            "comm_size": np.where(comm, size, part),
            "priority": np.array([0 if each is None else each.priority for each in of], np.int32),
            "kernel": np.array([row.kernel for row in rows], np.int32),
            "duration_us": np.array([row.micros for row in rows], np.uint64),
            "tier": np.array([tiers.get(row.tier, -1) for row in rows], np.int32),
            "arguments": np.array([row.arguments for row in rows], np.int32)}


class Strip(Struct, frozen=True, eq=False):
    """A piece as row numbers. Node i waits for `degree[i]` entries of `parent` (positions in the strip, or ENTRY, which
    is then the only one). `entry` says which parents are ENTRY, `first` which nodes have it.

    `exit` is a position, or -1: the strip's entry. `sinks` have no dependents in the strip; `weight` are those sinks of
    the steps that make gradients of weights.
    """

    rows: I32
    degree: I32
    parent: I32
    exit: int
    sinks: I32
    weight: I32
    entry: npt.NDArray[np.bool_]
    first: I32

    def __len__(self) -> int:
        return len(self.rows)


def _turns(pool: Pool, piece: Piece, kind: int) -> list[int]:
    """Per step: the k-th send and the k-th receive of a piece that move data as far along an axis share a number.

    Pieces for different kinds of units may run at once, and so have their own numbers.
    """
    counts: dict[tuple[object, ...], int] = {}
    found = []
    for step in piece.steps:
        key = (step.kind, step.axes, pool.flow(step)) if step.kind in MESSAGES else (step.kind,)
        counts[key] = counts.get(key, -1) + 1
        found.append(counts[key] * 3 + kind)
    return found


def _behind(parents: Sequence[Sequence[int]], waits: Sequence[int], goal: int) -> bool:
    """Whether what waits for `waits` waits for `goal` too; parents come before their children."""
    todo, seen = list(waits), set[int]()
    while todo:
        here = todo.pop()
        if here == goal:
            return True
        if here > goal and here not in seen:
            seen.add(here)
            todo += parents[here]
    return False


def strip_of(pool: Pool, piece: Piece, kind: int, chosen: Collection[int] | None = None) -> Strip:
    """The steps of a piece for a kind of unit (those in `chosen`, where given: what else they wait for is done).

    Collectives of one group run in order, as a communicator runs them.
    """
    kept = [number for number in range(len(piece.steps)) if chosen is None or number in chosen]
    place = {number: position for position, number in enumerate(kept)}
    last: dict[tuple[str, ...], int] = {}
    parents: list[list[int]] = []
    for position, number in enumerate(kept):
        step = piece.steps[number]
        waits = sorted({place[other] for other in step.after if other in place})
        if step.kind == NodeKind.COMM_COLL:
            group = pool.mesh.real(step.axes)
            if group in last and not _behind(parents, waits, last[group]):
                waits.append(last[group])
            last[group] = position
        parents.append(waits or [ENTRY])
    inner = {parent for waits in parents for parent in waits}
    sinks = [position for position in range(len(kept)) if position not in inner]
    weight = [position for position in sinks if piece.steps[kept[position]].weight]
    turns = _turns(pool, piece, kind)
    flat = np.array([parent for waits in parents for parent in waits], np.int32)
    first = [position for position, waits in enumerate(parents) if waits[0] == ENTRY]
    return Strip(np.array([pool.step(piece.steps[number], turns[number]) for number in kept], np.int32),
                 np.array([len(waits) for waits in parents], np.int32), flat, place.get(piece.exit, -1),
                 np.array(sinks, np.int32), np.array(weight, np.int32), flat == ENTRY, np.array(first, np.int32))
