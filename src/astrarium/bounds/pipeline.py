"""The time that no simulation of a training step can fall below.

A stage runs its units one after the other: the first node of a unit waits for the exit of the unit before. So with W =
the sum over its units of the longest chain of each (or, where that is longer, of all its compute), stage s ends no
earlier than H + W, where H is the forward pass of the first micro-batch through the parts in front of it. The gradient
of its last unit still goes back through the parts in front (T), while its own gradients are reduced (R, from the start
of that unit). A schedule that leaves gradients of weights for later fills T with them: T is 0 then. Then every stage
steps its optimizer, behind the norm of all gradients, and gathers weights (O):

    lower bound = max over s of (H + W + max(T, R - last unit)) + max over s of O

Where clocks follow from what ranks run, units take the time at the highest clock that their stage can have (`clocks`).
Under ZeRO 2 and 3, which communicate for every unit, all bytes over the ports are another lower bound; so is, wherever
collectives have a given time and do not meet in a run, all that they need of a port (`Wires.port`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.arrays import F64
from astrarium.bounds.costs import Costs
from astrarium.bounds.wires import Wires
from astrarium.vocab import CommOp
from astrarium.workload.mesh import Mesh

__all__ = ["Pipeline", "Replicas", "Shape", "by_stage", "least_times", "replicas_of", "shape_of", "steps"]

SAFE = 1 - 1e-6     # lower bounds are floats, nodes are whole picoseconds


class Shape(Struct, frozen=True, eq=False):
    """What layouts share whose blocks and parts are equal. `at`: block at which every part begins; `forward`,
    `backward`: ns of a unit of every part, `before` and `behind`: of the parts in front of it; `work`, `busy`, `sent`,
    `wired`: ns of every stage and micro-batch; `saved`: bytes of a micro-batch [stages, chunks]; `highest`: see
    `Clocks`."""

    at: npt.NDArray[np.int64]
    forward: F64
    backward: F64
    before: F64
    behind: F64
    work: F64
    busy: F64
    sent: F64
    wired: F64
    saved: F64
    highest: tuple[F64, F64] | None = None


def shape_of(costs: Costs, at: Sequence[int], stages: int) -> Shape:
    """The shape of parts that begin at these blocks (and the number of blocks), on `stages` stages in turn."""
    places = np.asarray(at)
    forward, backward, busy, sent, wired, saved = (steps(each[places]) for each in (
        costs.forward, costs.backward, costs.busy, costs.sent, costs.wired, costs.saved))
    return _shape(places, forward, backward, by_stage(busy, stages), by_stage(sent, stages),
                  by_stage(wired, stages), saved.reshape(-1, stages).T,
                  None if costs.clocks is None else costs.clocks.highest(places, stages))


def _shape(at: npt.NDArray[np.int64], forward: F64, backward: F64, busy: F64, sent: F64, wired: F64,
           saved: F64, highest: tuple[F64, F64] | None) -> Shape:
    return Shape(at, forward, backward, np.cumsum(forward) - forward, np.cumsum(backward) - backward,
                 np.maximum(by_stage(forward + backward, len(busy)), busy), busy, sent, wired, saved, highest)


def _clocked(shape: Shape, costs: Costs, replicas: Replicas, batches: int) -> Shape:
    """The shape at the highest clocks at which its stages can run. Those of several may have the weights that the first
    and the last block share twice."""
    if costs.clocks is None or shape.highest is None:
        return shape
    stages = len(shape.busy)
    own = by_stage(steps(replicas.own[shape.at]), stages) + (replicas.own[1] if stages > 1 else 0.0)
    scale = costs.clocks.scale(*shape.highest, own, batches)
    parts = np.tile(scale, len(shape.forward) // stages)
    return _shape(shape.at, shape.forward * parts, shape.backward * parts, shape.busy * scale, shape.sent,
                  shape.wired, shape.saved, shape.highest)


def _gathering(shape: Shape, costs: Costs, gather: F64) -> Shape:
    """The shape under ZeRO 3, whose units wait for their weights. `gather`: see Replicas."""
    at, again = shape.at, steps(_of_blocks(gather, costs.first, costs.blocks))     # an embedding's are not needed
    forward = _parts(steps(costs.forward), steps(gather), at)
    backward = _parts(steps(costs.backward)[::-1], again[::-1], costs.blocks - at[::-1])[::-1]
    return _shape(at, forward, backward, shape.busy, shape.sent, shape.wired, shape.saved, shape.highest)


class Pipeline(Struct, frozen=True):
    """What a step runs: `batches` micro-batches over `stages`, under a ZeRO stage. `split`: whether the schedule leaves
    gradients of weights for later. `whole`: ZeRO 2 and 3 reduce gradients once, not for every micro-batch; `together`:
    ZeRO 3 gathers the weights of embedding and head once."""

    stages: int
    batches: int
    zero: int = 0
    split: bool = False
    whole: bool = False
    together: bool = False


def least_times(pipeline: Pipeline, costs: Costs, shape: Shape, replicas: Replicas, wires: Wires
                ) -> tuple[float, float]:
    """(ns of a step at least, ns for which NPUs compute at least, in the mean), from the costs of its blocks, the shape
    of its parts, and what replicas hold and reduce."""
    stages, batches = pipeline.stages, pipeline.batches
    gather = replicas.gather
    if pipeline.zero == 3:
        gather = _of_blocks(gather, costs.first, costs.blocks - costs.last) if pipeline.together else gather
        shape = _gathering(shape, costs, gather)
    shape = _clocked(shape, costs, replicas, batches)
    at = shape.at
    reduce, gathered, again = steps(replicas.reduce[at]), *np.zeros((2, len(at) - 1))
    if pipeline.zero == 3:
        gathered, again = steps(gather[at]), steps(_of_blocks(gather, costs.first, costs.blocks)[at])
    late = _both(wires, reduce, again) - shape.backward
    behind = np.zeros(len(reduce)) if pipeline.split else shape.behind
    ends = shape.before[:stages] + shape.work * batches + np.maximum(behind, late)[:stages]
    time, moved = float(ends.max()), float(shape.sent.max()) * batches
    moved = max(moved, _ports(pipeline, costs, shape, replicas))
    if pipeline.zero in (1, 2):
        time += float(by_stage(steps(gather[at]), stages).max())
    if pipeline.zero > 1:
        reduced = reduce * (1 if pipeline.whole else batches)
        moved = max(moved, float(by_stage(_both(wires, reduced, (gathered + again) * batches), stages).max()))
    return max(time, moved) * SAFE, float(shape.busy.mean()) * batches * SAFE


def _ports(pipeline: Pipeline, costs: Costs, shape: Shape, replicas: Replicas) -> float:
    """ns for which the collectives of given time of some stage need a port."""
    batches, zero = pipeline.batches, pipeline.zero
    reduced = steps(replicas.reduce_port[shape.at]) * (batches if zero > 1 and not pipeline.whole else 1)
    gather, gathered = replicas.gather_port, steps(replicas.gather_port[shape.at])
    if zero == 3:
        again = _of_blocks(gather, costs.first, costs.blocks)
        first = _of_blocks(gather, costs.first, costs.blocks - costs.last) if pipeline.together else gather
        gathered = steps((first + again)[shape.at]) * batches
    return float((by_stage(reduced + gathered, pipeline.stages) + shape.wired * batches).max())


def _both(wires: Wires, reduce: F64, gather: F64) -> F64:
    """ns of two streams of collectives: one after the other where they share ports, else at once."""
    found: F64 = reduce + gather if wires.shared else np.maximum(reduce, gather)
    return found


def _sums(values: F64) -> F64:
    found = np.zeros(len(values) + 1)
    np.cumsum(values, out=found[1:])
    return found


def steps(values: F64) -> F64:
    """`np.diff` of a row, in a fifth of the time."""
    return values[1:] - values[:-1]


def _of_blocks(sums: F64, first: int, end: int) -> F64:
    """Sums over the blocks in front of each, of those from `first` to `end` alone."""
    found: F64 = np.clip(sums, sums[first], sums[end]) - sums[first]
    return found


def _parts(chain: F64, gather: F64, at: npt.NDArray[np.int64]) -> F64:
    """ns of a unit of every part under ZeRO 3: the chains of its blocks. The weights of its first block are gathered
    when it starts, and those of every other one while the block before it runs."""
    ends = at[1:] - 1
    both = np.maximum(chain, np.append(gather[1:], 0.0))
    both[ends] = chain[ends]
    return steps(_sums(both)[at]) + gather[at[:-1]]


def by_stage(of_parts: F64, stages: int) -> F64:
    """[stages] sums over the parts of each: part k * stages + i is on stage i."""
    found: F64 = of_parts.reshape(-1, stages).sum(axis=0)
    return found


def _shards(axes: Sequence[str], mesh: Mesh, zero_axes: Sequence[str]) -> tuple[tuple[str, ...], int]:
    meant = mesh.real(zero_axes)
    real = tuple(axis for axis in mesh.real(axes) if axis in meant)
    return real, mesh.size(real) if real else 1


class Replicas(Struct, frozen=True, eq=False):
    """Sums over the blocks in front of each, [blocks + 1]: ns to reduce their gradients, ns to gather their weights
    under ZeRO, what both need of a port, bytes of their weights, gradients and optimizer states, elements that the
    optimizer steps."""

    reduce: F64
    gather: F64
    reduce_port: F64
    gather_port: F64
    held: F64
    own: F64


def replicas_of(costs: Costs, mesh: Mesh, zero: int, wires: Wires) -> Replicas:
    """Replicas of ranks on a mesh, under a ZeRO stage (Rajbhandari et al., arXiv 1910.02054)."""
    reduce, gather, reduce_port, gather_port, held, own = np.zeros((6, costs.blocks))
    sizes = costs.sizes
    for axes, count in costs.elements.items():
        shard, ranks = _shards(axes, mesh, costs.zero_axes)
        real = mesh.real(axes)
        own += count / (ranks if zero >= 1 else 1)
        held += count * ((sizes.shards / ranks if zero >= 3 else sizes.weights)
                         + sizes.gradients / (ranks if zero >= 2 else 1) + sizes.states / (ranks if zero >= 1 else 1))
        if real and zero and shard:
            reduce += wires.rate(CommOp.REDUCE_SCATTER, shard, mesh) * sizes.sent * count
            reduce_port += wires.port_rate(CommOp.REDUCE_SCATTER, shard, mesh) * sizes.sent * count
            gather_port += wires.port_rate(CommOp.ALL_GATHER, shard, mesh) * sizes.weights * count / ranks
            gather += wires.rate(CommOp.ALL_GATHER, shard, mesh) * sizes.weights * count / ranks
        elif real:
            reduce += wires.rate(CommOp.ALL_REDUCE, real, mesh) * sizes.sent * count
            reduce_port += wires.port_rate(CommOp.ALL_REDUCE, real, mesh) * sizes.sent * count
    return Replicas(*(_sums(each) for each in (reduce, gather, reduce_port, gather_port, held, own)))
