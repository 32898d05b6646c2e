"""What no simulation of a layout can fall below: its time (`bounds.pipeline`), and its memory.

A block's nodes depend on tp, cp, ep, the micro-batch, recomputation and sequence parallelism, not on the pipeline, nor
on how many replicas there are: a few hundred sets of blocks serve tens of thousands of layouts. Memory: what a stage
owns, plus what its micro-batches in flight have saved when it has run ahead as far as its schedule goes.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from msgspec import Struct

from astrarium.arrays import F64
from astrarium.bounds.costs import Costs
from astrarium.bounds.pipeline import Pipeline, Replicas, Shape, least_times, shape_of
from astrarium.bounds.sums import by_stage, steps
from astrarium.planner.job import Job
from astrarium.planner.layout import Layout
from astrarium.workload.assemble.recipe import Recipe
from astrarium.workload.graph import Forms
from astrarium.workload.mesh import Mesh, mesh_of
from astrarium.workload.schedule import load_schedule
from astrarium.workload.training import even_parts, recipe_of

__all__ = ["LowerBound", "canonical", "lower_bound_of", "mesh_of_layout", "recipe_of_layout", "shape_of_layout"]


class LowerBound(Struct, frozen=True):
    """ns of a step at least, bytes of the fullest rank at least, ns for which NPUs compute at least, in the mean."""

    time: float
    memory: float
    busy: float = 0.0


@lru_cache(4096)
def mesh_of_layout(tp: int, cp: int, ep: int, dp: int, pp: int) -> Mesh:
    """The mesh of a layout in Megatron's order."""
    return mesh_of("megatron", tp=tp, cp=cp, ep=ep, dp=dp, pp=pp)


def canonical(layout: Layout) -> Layout:
    """The smallest layout with the same blocks."""
    dp = layout.ep * (2 if layout.dp > layout.ep else 1)
    return Layout(tp=layout.tp, cp=layout.cp, dp=dp, ep=layout.ep, micro_batch=layout.micro_batch,
                  recompute=layout.recompute, tp_sequence=layout.tp_sequence)


def recipe_of_layout(job: Job, layout: Layout, forms: Forms) -> Recipe:
    """The recipe of a `canonical` layout. Raises InputError where a size does not divide."""
    return recipe_of(job.workload(**layout.plain, global_batch=layout.dp * layout.micro_batch), forms)


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


def shape_of_layout(job: Job, costs: Costs, pp: int, virtual: int) -> Shape:
    """The shape of `pp` stages of `virtual` parts each."""
    parts = pp * virtual
    return shape_of(costs, cuts(job.layers, job.with_ends(parts), parts, costs.first, costs.last), pp)


def lower_bound_of(job: Job, layout: Layout, costs: Costs, shape: Shape, replicas: Replicas) -> LowerBound:
    """The lower bounds of a layout, from the costs of its blocks, the shape of its parts, and what replicas hold and
    reduce."""
    batches, schedule = job.global_batch // layout.dp // layout.micro_batch, layout.plain["schedule"]
    buffers, ahead = job.base.buffers, job.base.prefetch
    pipeline = Pipeline(layout.pp, batches, layout.zero, load_schedule(schedule).split, buffers.between == "whole",
                        buffers.ends == "together", 1 if ahead is None else ahead)
    time, busy = least_times(pipeline, costs, shape, replicas)
    flight = (_in_flight(schedule, layout.pp, batches, layout.virtual_stages) * shape.saved).sum(axis=1)
    held = by_stage(steps(replicas.held[shape.at]), layout.pp)
    return LowerBound(time, float((held + flight).max()), busy)
