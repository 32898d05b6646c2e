"""What no simulation of a layout can fall below: its time, and its memory.

A stage runs its units one after the other: the first node of a unit waits for the exit of the unit before. So with W =
the sum over its units of the longest chain of each (or, where that is longer, of all its compute), stage s ends no
earlier than H + W, where H is the forward pass of the first micro-batch through the parts in front of it. The gradient
of its last unit still goes back through the parts in front (T), while its own gradients are reduced (R, from the start
of that unit). Then every stage steps its optimizer, behind the norm of all gradients, and gathers weights (O):

    floor = max over s of (H + W + max(T, R - last unit)) + max over s of O

Under ZeRO 2 and 3, which communicate for every unit, all bytes over the ports are another floor. Memory: what a stage
owns, plus what its micro-batches in flight have saved when it has run ahead as far as its schedule goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.planner.costs import Costs
from astrarium.planner.job import Job
from astrarium.planner.layout import Layout
from astrarium.planner.wires import Wires
from astrarium.vocab import CommOp
from astrarium.workload.mesh import Mesh, mesh_of
from astrarium.workload.training import even_parts

__all__ = ["Floor", "floor_of", "mesh_of_layout"]

F64 = npt.NDArray[np.float64]
SAFE = 1 - 1e-6     # floors are floats, nodes are whole picoseconds
ZERO_AXES = frozenset({"ep", "idp", "odp", "cp"})


class Floor(Struct, frozen=True):
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
def ahead(pp: int, virtual: int, batches: int) -> npt.NDArray[np.float64]:
    """[stages, chunks] micro-batches in flight of every chunk when a stage has run ahead as far as it goes."""
    found = np.zeros((pp, virtual))
    for stage in range(pp):
        most = pp - 1 - stage if virtual == 1 else 2 * (pp - 1 - stage) + (virtual - 1) * pp
        number = np.arange(min(most + 1, batches * virtual))
        np.add.at(found[stage], number % (pp * virtual) // pp if virtual > 1 else np.zeros_like(number), 1)
    return found


def floor_of(job: Job, layout: Layout, costs: Costs, wires: Wires) -> Floor:
    """The floors of a layout, from the costs of its blocks."""
    mesh = mesh_of_layout(layout.tp, layout.cp, layout.ep, layout.dp, layout.pp)
    pp, virtual, parts = layout.pp, layout.virtual_stages, layout.parts
    at = np.array(cuts(job.layers, job.with_ends(parts), parts, costs.first, costs.last))
    batches = job.global_batch // layout.dp // layout.micro_batch
    gradients = _gradients(layout, costs, wires, mesh)
    forward = _parts(_steps(costs.forward), gradients.gather, at, layout.zero)
    ahead_of = np.where(np.arange(costs.blocks) < costs.first, 0.0, gradients.gather)     # an embedding's is not needed
    last = costs.blocks - at[::-1]
    backward = _parts(_steps(costs.backward)[::-1], ahead_of[::-1], last, layout.zero)[::-1]
    reduce, gather, step = (_steps(_sums(each)[at]) for each in (gradients.reduce, gradients.gather, gradients.step))
    busy, sent, saved = (_steps(each[at]) for each in (costs.busy, costs.sent, costs.saved))
    before, behind = np.cumsum(forward) - forward, np.cumsum(backward) - backward
    work = np.maximum(_by_stage(forward + backward, pp), _by_stage(busy, pp)) * batches
    gathered = gather if layout.zero == 3 else np.zeros(parts)
    first, late = slice(0, pp), _both(wires, reduce, gathered) - backward
    time = (before[first] + work + np.maximum(behind, late)[first]).max() + _by_stage(step, pp).max()
    ports = [sent] if layout.zero < 2 else [sent, _both(wires, reduce, 2 * gathered)]
    moved = max(_by_stage(each, pp).max() for each in ports) * batches
    flight = (ahead(pp, virtual, batches) * saved.reshape(virtual, pp).T).sum(axis=1)
    held = _steps(_sums(_held(layout, costs, mesh))[at])
    return Floor(max(float(time), float(moved)) * SAFE, float((_by_stage(held, pp) + flight).max()),
                 float(_by_stage(busy, pp).mean()) * batches * SAFE)


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


def _parts(chain: F64, gather: F64, at: npt.NDArray[np.int64], zero: int) -> F64:
    """ns of a unit of every part: the chains of its blocks. Under ZeRO 3 the weights of its first block are gathered
    when it starts, and those of every other one while the block before it runs."""
    if zero < 3:
        return _steps(_sums(chain)[at])
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


class _Gradients(Struct, frozen=True):
    """Per block: ns to reduce its gradients, to gather its weights, and of gathering weights behind the step."""

    reduce: F64
    gather: F64
    step: F64


def _gradients(layout: Layout, costs: Costs, wires: Wires, mesh: Mesh) -> _Gradients:
    reduce, gather = np.zeros(costs.blocks), np.zeros(costs.blocks)
    for axes, count in costs.elements.items():
        shard, ranks = _shards(axes, mesh)
        real = mesh.real(axes)
        if not real:
            continue
        if layout.zero and shard:
            reduce += wires.rate(CommOp.REDUCE_SCATTER, shard, mesh) * costs.sizes.sent * count
            gather += wires.rate(CommOp.ALL_GATHER, shard, mesh) * costs.sizes.weights * count / ranks
        else:
            reduce += wires.rate(CommOp.ALL_REDUCE, real, mesh) * costs.sizes.sent * count
    return _Gradients(reduce, gather, gather if layout.zero in (1, 2) else np.zeros(costs.blocks))


def _held(layout: Layout, costs: Costs, mesh: Mesh) -> F64:
    """Bytes of weights, gradients and optimizer states of every block (Rajbhandari et al., arXiv 1910.02054)."""
    sizes, zero = costs.sizes, layout.zero
    found = np.zeros(costs.blocks)
    for axes, count in costs.elements.items():
        shards = _shards(axes, mesh)[1]
        found += count * (sizes.weights / (shards if zero >= 3 else 1) + sizes.gradients / (shards if zero >= 2 else 1)
                          + sizes.states / (shards if zero >= 1 else 1))
    return found
