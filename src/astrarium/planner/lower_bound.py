"""What no simulation of a layout can fall below: its time, and its memory.

A stage runs its units one after the other: the first node of a unit waits for the exit of the unit before. So with W =
the sum over its units of the longest chain of each (or, where that is longer, of all its compute), stage s ends no
earlier than H + W, where H is the forward pass of the first micro-batch through the parts in front of it. The gradient
of its last unit still goes back through the parts in front (T), while its own gradients are reduced (R, from the start
of that unit). A schedule that leaves gradients of weights for later fills T with them: T is 0 then. Then every stage
steps its optimizer, behind the norm of all gradients, and gathers weights (O):

    lower bound = max over s of (H + W + max(T, R - last unit)) + max over s of O

Where clocks follow from what ranks run, units take the time at the highest clock that their stage can have (`clocks`).
Under ZeRO 2 and 3, which communicate for every unit, all bytes over the ports are another lower bound. Memory: what a
stage owns, plus what its micro-batches in flight have saved when it has run ahead as far as its schedule goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.arrays import F64
from astrarium.planner.costs import Costs
from astrarium.planner.job import Job
from astrarium.planner.layout import Layout
from astrarium.planner.wires import Wires
from astrarium.vocab import CommOp
from astrarium.workload.mesh import Mesh, mesh_of
from astrarium.workload.schedule import load_schedule
from astrarium.workload.training import even_parts

__all__ = ["LowerBound", "Replicas", "Shape", "lower_bound_of", "mesh_of_layout", "replicas_of", "shape_of"]

SAFE = 1 - 1e-6     # lower bounds are floats, nodes are whole picoseconds
ZERO_AXES = frozenset({"ep", "idp", "odp", "cp"})


class LowerBound(Struct, frozen=True):
    """ns of a step at least, bytes of the fullest rank at least, ns for which NPUs compute at least, in the mean."""

    time: float
    memory: float
    busy: float = 0.0


@lru_cache(4096)
def mesh_of_layout(tp: int, cp: int, ep: int, dp: int, pp: int) -> Mesh:
    """The mesh of a layout in Megatron's order."""
    return mesh_of("megatron", tp=tp, cp=cp, ep=ep, dp=dp, pp=pp)


@lru_cache(4096)
def cuts(layers: int, with_ends: bool, parts: int, first: int, last: int) -> tuple[int, ...]:
    """Block number at which every part begins, and the number of blocks."""
    counts = [(layers + 2) // parts] * parts if with_ends else list(even_parts(layers, parts))
    if with_ends:
        counts[0] -= 1
        counts[-1] -= 1
    counts[0] += first
    counts[-1] += last
    return tuple(np.concatenate([[0], np.cumsum(counts)]).tolist())


@lru_cache(4096)
def _in_flight(schedule: str, pp: int, batches: int, virtual: int) -> F64:
    return load_schedule(schedule).in_flight(pp, batches, virtual)


class Shape(Struct, frozen=True, eq=False):
    """What layouts share whose blocks and parts are equal. `at`: block at which every part begins; `forward`,
    `backward`: ns of a unit of every part, `before` and `behind`: of the parts in front of it; `work`, `busy`, `sent`:
    ns of every stage and micro-batch; `saved`: bytes of a micro-batch [stages, chunks]; `highest`: see `Clocks`."""

    at: npt.NDArray[np.int64]
    forward: F64
    backward: F64
    before: F64
    behind: F64
    work: F64
    busy: F64
    sent: F64
    saved: F64
    highest: tuple[F64, F64] | None = None


def shape_of(job: Job, costs: Costs, pp: int, virtual: int) -> Shape:
    """The shape of `pp` stages of `virtual` parts each."""
    parts = pp * virtual
    at = np.array(cuts(job.layers, job.with_ends(parts), parts, costs.first, costs.last))
    forward, backward, busy, sent, saved = (_steps(each[at]) for each in (
        costs.forward, costs.backward, costs.busy, costs.sent, costs.saved))
    return _shape(at, forward, backward, _by_stage(busy, pp), _by_stage(sent, pp), saved.reshape(virtual, pp).T,
                  None if costs.clocks is None else costs.clocks.highest(at, pp))


def _shape(at: npt.NDArray[np.int64], forward: F64, backward: F64, busy: F64, sent: F64, saved: F64,
           highest: tuple[F64, F64] | None) -> Shape:
    return Shape(at, forward, backward, np.cumsum(forward) - forward, np.cumsum(backward) - backward,
                 np.maximum(_by_stage(forward + backward, len(busy)), busy), busy, sent, saved, highest)


def _clocked(shape: Shape, costs: Costs, replicas: Replicas, batches: int) -> Shape:
    """The shape at the highest clocks at which its stages can run. Those of several may have the weights that the first
    and the last block share twice."""
    if costs.clocks is None or shape.highest is None:
        return shape
    stages = len(shape.busy)
    own = _by_stage(_steps(replicas.own[shape.at]), stages) + (replicas.own[1] if stages > 1 else 0.0)
    scale = costs.clocks.scale(*shape.highest, own, batches)
    parts = np.tile(scale, len(shape.forward) // stages)
    return _shape(shape.at, shape.forward * parts, shape.backward * parts, shape.busy * scale, shape.sent, shape.saved,
                  shape.highest)


def _gathering(shape: Shape, costs: Costs, gather: F64) -> Shape:
    """The shape under ZeRO 3, whose units wait for their weights."""
    at = shape.at
    forward = _parts(_steps(costs.forward), gather, at)
    ahead_of = np.where(np.arange(costs.blocks) < costs.first, 0.0, gather)     # an embedding's is not needed
    backward = _parts(_steps(costs.backward)[::-1], ahead_of[::-1], costs.blocks - at[::-1])[::-1]
    return _shape(at, forward, backward, shape.busy, shape.sent, shape.saved, shape.highest)


def lower_bound_of(job: Job, layout: Layout, costs: Costs, shape: Shape, replicas: Replicas,
                   wires: Wires) -> LowerBound:
    """The lower bounds of a layout, from the costs of its blocks, the shape of its parts, and what replicas hold and
    reduce."""
    pp, batches = layout.pp, job.global_batch // layout.dp // layout.micro_batch
    if layout.zero == 3:
        shape = _gathering(shape, costs, _steps(replicas.gather))
    shape = _clocked(shape, costs, replicas, batches)
    at = shape.at
    reduce, gather = _steps(replicas.reduce[at]), _steps(replicas.gather[at])
    gathered = gather if layout.zero == 3 else np.zeros(layout.parts)
    late = _both(wires, reduce, gathered) - shape.backward
    schedule = layout.plain["schedule"]
    behind = np.zeros(layout.parts) if load_schedule(schedule).split else shape.behind
    ends = shape.before[:pp] + shape.work * batches + np.maximum(behind, late)[:pp]
    time, moved = float(ends.max()), float(shape.sent.max())
    if layout.zero in (1, 2):
        time += float(_by_stage(gather, pp).max())
    if layout.zero > 1:
        moved = max(moved, float(_by_stage(_both(wires, reduce, 2 * gathered), pp).max()))
    flight = (_in_flight(schedule, pp, batches, layout.virtual_stages) * shape.saved).sum(axis=1)
    held = _by_stage(_steps(replicas.held[at]), pp)
    return LowerBound(max(time, moved * batches) * SAFE, float((held + flight).max()),
                 float(shape.busy.mean()) * batches * SAFE)


def _both(wires: Wires, reduce: F64, gather: F64) -> F64:
    """ns of two streams of collectives: one after the other where they share ports, else at once."""
    found: F64 = reduce + gather if wires.shared else np.maximum(reduce, gather)
    return found


def _sums(values: F64) -> F64:
    found = np.zeros(len(values) + 1)
    np.cumsum(values, out=found[1:])
    return found


def _steps(values: F64) -> F64:
    """`np.diff` of a row, in a fifth of the time."""
    return values[1:] - values[:-1]


def _parts(chain: F64, gather: F64, at: npt.NDArray[np.int64]) -> F64:
    """ns of a unit of every part under ZeRO 3: the chains of its blocks. The weights of its first block are gathered
    when it starts, and those of every other one while the block before it runs."""
    ends = at[1:] - 1
    both = np.maximum(chain, np.append(gather[1:], 0.0))
    both[ends] = chain[ends]
    return _steps(_sums(both)[at]) + gather[at[:-1]]


def _by_stage(of_parts: F64, stages: int) -> F64:
    """[stages] sums over the parts of each: part k * stages + i is on stage i."""
    found: F64 = of_parts.reshape(-1, stages).sum(axis=0)
    return found


def _shards(axes: Sequence[str], mesh: Mesh) -> tuple[tuple[str, ...], int]:
    real = tuple(axis for axis in mesh.real(axes) if axis in ZERO_AXES)
    return real, mesh.size(real) if real else 1


class Replicas(Struct, frozen=True, eq=False):
    """Sums over the blocks in front of each, [blocks + 1]: ns to reduce their gradients, ns to gather their weights
    under ZeRO, bytes of their weights, gradients and optimizer states, elements that the optimizer steps."""

    reduce: F64
    gather: F64
    held: F64
    own: F64


def replicas_of(costs: Costs, mesh: Mesh, zero: int, wires: Wires) -> Replicas:
    """Replicas of ranks on a mesh, under a ZeRO stage (Rajbhandari et al., arXiv 1910.02054)."""
    reduce, gather, held, own = np.zeros((4, costs.blocks))
    sizes = costs.sizes
    for axes, count in costs.elements.items():
        shard, ranks = _shards(axes, mesh)
        real = mesh.real(axes)
        own += count / (ranks if zero >= 1 else 1)
        held += count * ((sizes.shards / ranks if zero >= 3 else sizes.weights)
                         + sizes.gradients / (ranks if zero >= 2 else 1) + sizes.states / (ranks if zero >= 1 else 1))
        if real and zero and shard:
            reduce += wires.rate(CommOp.REDUCE_SCATTER, shard, mesh) * sizes.sent * count
            gather += wires.rate(CommOp.ALL_GATHER, shard, mesh) * sizes.weights * count / ranks
        elif real:
            reduce += wires.rate(CommOp.ALL_REDUCE, real, mesh) * sizes.sent * count
    return Replicas(_sums(reduce), _sums(gather), _sums(held), _sums(own))
