"""The time that no simulation of a training step can fall below.

A stage runs its units one after the other: the first node of a unit waits for the exit of the unit before. So with W =
the sum over its units of the longest chain of each (or, where that is longer, of all its compute), stage s ends no
earlier than H + W, where H is the forward pass of the first micro-batch through the parts in front of it. (Under ZeRO 3
W counts what units wait for weights; what the first one waits goes off H, as all stages gather from the start of the
step.) The gradient of its last unit still goes back through the parts in front (T), while its own gradients are reduced
(R, from the start of that unit). A schedule that leaves gradients of weights for later fills T with them: T is 0 then.
Then every stage steps its optimizer, behind the norm of all gradients, and gathers weights (O):

    lower bound = max over s of (H + W + max(T, R - last unit)) + max over s of O

Where clocks follow from what ranks run, units take the time at the highest clock that their stage can have (`clocks`).
All that collectives of a step need of a port is another lower bound (`Wires.ports`); so is, of gradients and weights
under ZeRO 2 and 3, what one group has to send and collect (`Wires.streams`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.arrays import F64
from astrarium.bounds.costs import Costs
from astrarium.bounds.sums import by_stage, of_blocks, steps, sums
from astrarium.bounds.wires import Wires
from astrarium.vocab import CommOp
from astrarium.workload.mesh import Mesh

__all__ = ["Pipeline", "Replicas", "Shape", "least_times", "replicas_of", "shape_of"]

SAFE = 1 - 1e-6     # lower bounds are floats, nodes are whole picoseconds


class Shape(Struct, frozen=True, eq=False):
    """What layouts share whose blocks and parts are equal. `at`: block at which every part begins; `forward`,
    `backward`: ns of a unit of every part; `before`: until its first unit starts, where all wait for their weights from
    the start of the step, less what that one waits; `behind`: of backward units of the parts in front of it; `work`,
    `busy`, `sent`, `wired` [rows, stages]: ns of every stage and micro-batch; `saved`: bytes of a micro-batch [stages,
    chunks]; `highest`: see `Clocks`; `waits`: ns for which a forward and a backward unit waits for weights, [2, parts].
    """

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
    highest: tuple[F64, F64] | None
    waits: F64


def shape_of(costs: Costs, at: Sequence[int], stages: int) -> Shape:
    """The shape of parts that begin at these blocks (and the number of blocks), on `stages` stages in turn."""
    places = np.asarray(at)
    forward, backward, busy, sent, wired, saved = (steps(each[..., places]) for each in (
        costs.forward, costs.backward, costs.busy, costs.sent, costs.wired, costs.saved))
    return _shape(places, forward, backward, by_stage(busy, stages), by_stage(sent, stages),
                  by_stage(wired, stages), saved.reshape(-1, stages).T,
                  None if costs.clocks is None else costs.clocks.highest(places, stages))


def _shape(at: npt.NDArray[np.int64], forward: F64, backward: F64, busy: F64, sent: F64, wired: F64,
           saved: F64, highest: tuple[F64, F64] | None, waits: F64 | None = None) -> Shape:
    waits = np.zeros((2, len(forward))) if waits is None else waits
    work = np.maximum(by_stage(forward + backward + waits.sum(axis=0), len(busy)), busy)
    ahead = np.cumsum(forward) - forward
    before = ahead + np.maximum.accumulate(waits[0] - ahead) - waits[0]
    return Shape(at, forward, backward, before, np.cumsum(backward) - backward, work, busy, sent, wired, saved, highest,
                 waits)


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
                  shape.wired, shape.saved, shape.highest, shape.waits * parts)


def _gathering(shape: Shape, costs: Costs, gather: F64, prefetch: int) -> Shape:
    """The shape under ZeRO 3, whose units wait for their weights. The first gathers of a unit begin when the unit
    before ends, even where its input comes later. `gather`: see Replicas."""
    at = shape.at
    again = steps(of_blocks(gather, costs.first, costs.blocks)).max(axis=0)     # an embedding's are not needed
    forward, waits = _parts(steps(costs.forward), steps(gather).max(axis=0), at, prefetch)
    backward, back = _parts(steps(costs.backward)[::-1], again[::-1], costs.blocks - at[::-1], prefetch)
    return _shape(at, forward, backward[::-1], shape.busy, shape.sent, shape.wired, shape.saved, shape.highest,
                  np.stack([waits, back[::-1]]))


class Pipeline(Struct, frozen=True):
    """What a step runs: `batches` micro-batches over `stages`, under a ZeRO stage. `split`: whether the schedule leaves
    gradients of weights for later. `whole`: ZeRO 2 and 3 reduce gradients once, not for every micro-batch; `together`:
    ZeRO 3 gathers the weights of embedding and head once; `prefetch`: so many blocks ahead."""

    stages: int
    batches: int
    zero: int = 0
    split: bool = False
    whole: bool = False
    together: bool = False
    prefetch: int = 1


def least_times(pipeline: Pipeline, costs: Costs, shape: Shape, replicas: Replicas) -> tuple[float, float]:
    """(ns of a step at least, ns for which NPUs compute at least, in the mean), from the costs of its blocks, the shape
    of its parts, and what replicas hold and reduce."""
    stages, batches = pipeline.stages, pipeline.batches
    gather = replicas.gather
    if pipeline.zero == 3:
        gather = of_blocks(gather, costs.first, costs.blocks - costs.last) if pipeline.together else gather
        shape = _gathering(shape, costs, gather, pipeline.prefetch)
    shape = _clocked(shape, costs, replicas, batches)
    at = shape.at
    reduce = steps(replicas.reduce[:, at])
    gathered, again = np.zeros((2, *reduce.shape))
    if pipeline.zero == 3:
        gathered, again = steps(gather[:, at]), steps(of_blocks(gather, costs.first, costs.blocks)[:, at])
    late = (reduce + again).max(axis=0) - shape.backward - shape.waits[1]
    behind = np.zeros(len(at) - 1) if pipeline.split else shape.behind
    ends = shape.before[:stages] + shape.work * batches + np.maximum(behind, late)[:stages]
    time, moved = float(ends.max()), float(shape.sent.max()) * batches
    moved = max(moved, _ports(pipeline, costs, shape, replicas))
    if pipeline.zero in (1, 2):
        time += float(by_stage(steps(gather[:, at]), stages).max())
    if pipeline.zero > 1:
        reduced = reduce * (1 if pipeline.whole else batches)
        moved = max(moved, float(by_stage(reduced + (gathered + again) * batches, stages).max()))
    return max(time, moved) * SAFE, float(shape.busy.mean()) * batches * SAFE


def _ports(pipeline: Pipeline, costs: Costs, shape: Shape, replicas: Replicas) -> float:
    """ns for which the collectives of some stage need a port."""
    batches, zero = pipeline.batches, pipeline.zero
    reduced = steps(replicas.reduce_port[:, shape.at]) * (batches if zero > 1 and not pipeline.whole else 1)
    gather, gathered = replicas.gather_port, steps(replicas.gather_port[:, shape.at])
    if zero == 3:
        again = of_blocks(gather, costs.first, costs.blocks)
        first = of_blocks(gather, costs.first, costs.blocks - costs.last) if pipeline.together else gather
        gathered = steps((first + again)[:, shape.at]) * batches
    return float((by_stage(reduced + gathered, pipeline.stages) + shape.wired * batches).max())


def _parts(chain: F64, gather: F64, at: npt.NDArray[np.int64], prefetch: int) -> tuple[F64, F64]:
    """ns of a unit of every part under ZeRO 3 once its input is there, and what it takes longer from the end of the
    unit before: the chains of its blocks. The weights of its first block are gathered when the unit before ends, and
    those of every other one while the block before it runs, or earlier (`prefetch` blocks)."""
    if prefetch > 1:
        alone = steps(sums(chain)[at])
        return alone, np.maximum(0.0, steps(sums(gather)[at]) - alone)
    ends = at[1:] - 1
    both = np.maximum(chain, np.append(gather[1:], 0.0))
    both[ends] = chain[ends]
    return steps(sums(both)[at]), gather[at[:-1]]


def _shards(axes: Sequence[str], mesh: Mesh, zero_axes: Sequence[str]) -> tuple[tuple[str, ...], int]:
    meant = mesh.real(zero_axes)
    real = tuple(axis for axis in mesh.real(axes) if axis in meant)
    return real, mesh.size(real) if real else 1


class Replicas(Struct, frozen=True, eq=False):
    """Sums over the blocks in front of each, [rows, blocks + 1] and [blocks + 1]: ns to reduce their gradients, ns to
    gather their weights under ZeRO (rows: `Wires.streams` of each group, then ports where collectives share them), ns
    that both need of ports, bytes of their weights, gradients and optimizer states, elements that the optimizer
    steps."""

    reduce: F64
    gather: F64
    reduce_port: F64
    gather_port: F64
    held: F64
    own: F64


def replicas_of(costs: Costs, mesh: Mesh, zero: int, wires: Wires) -> Replicas:
    """Replicas of ranks on a mesh, under a ZeRO stage (Rajbhandari et al., arXiv 1910.02054)."""
    rows, (held, own) = wires.stream_rows, np.zeros((2, costs.blocks))
    reduce, gather = np.zeros((2, len(costs.elements), rows, costs.blocks))
    reduce_port, gather_port = np.zeros((2, wires.port_rows, costs.blocks))
    sizes = costs.sizes
    for number, (axes, count) in enumerate(costs.elements.items()):
        shard, ranks = _shards(axes, mesh, costs.zero_axes)
        real = mesh.real(axes)
        own += count / (ranks if zero >= 1 else 1)
        held += count * ((sizes.shards / ranks if zero >= 3 else sizes.weights)
                         + sizes.gradients / (ranks if zero >= 2 else 1) + sizes.states / (ranks if zero >= 1 else 1))
        if not real:
            continue
        op, over = (CommOp.REDUCE_SCATTER, shard) if zero and shard else (CommOp.ALL_REDUCE, real)
        reduce[number] = np.outer(wires.streams(op, over, mesh), sizes.sent * count)
        reduce_port += np.outer(wires.ports(op, over, mesh), sizes.sent * count)
        if zero and shard:
            gather[number] = np.outer(wires.streams(CommOp.ALL_GATHER, shard, mesh), sizes.weights * count / ranks)
            gather_port += np.outer(wires.ports(CommOp.ALL_GATHER, shard, mesh), sizes.weights * count / ranks)
    shared = (reduce_port, gather_port) if wires.shared else (reduce_port[:0], gather_port[:0])
    reduce, gather = (np.concatenate([each.reshape(-1, costs.blocks), ports])
                      for each, ports in zip((reduce, gather), shared, strict=True))
    return Replicas(*(sums(each) for each in (reduce, gather, reduce_port, gather_port, held, own)))
