"""The time that a design's training step takes at least, before it has nodes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from astrarium.bounds.costs import costs_of
from astrarium.bounds.pipeline import Pipeline, least_times, replicas_of, shape_of
from astrarium.bounds.timed import wires_of
from astrarium.design import Design
from astrarium.errors import InputError
from astrarium.lower.changes import changing
from astrarium.lower.kept import Kept
from astrarium.lower.placement import placed_of
from astrarium.lower.plugins import OWN, has_medium
from astrarium.network.needs import needs_dims
from astrarium.workload.assemble.recipe import LOCAL, Recipe
from astrarium.workload.training import recipe_of
from astrarium.workload.transformer import Transformer

__all__ = ["least_time"]


def least_time(design: Design, kept: Kept) -> float:
    """ns; 0 where no lower bound is known: see `_known`."""
    work = design.workload
    if not isinstance(work, Transformer) or not _known(design):
        return 0.0
    try:
        needs_dims(design.network, "a lower bound")
        recipe = recipe_of(work, kept.forms, placed_of(design, kept))
        return _least(design, recipe) if recipe.schedule.plain and _alone(recipe) else 0.0
    except InputError:      # the run says what is wrong, in its own words
        return 0.0


def _least(design: Design, recipe: Recipe) -> float:
    wires = wires_of(design.network, design.collective)
    costs = costs_of(recipe, design.compute, design.memory, wires)
    shape = shape_of(costs, _cuts(recipe.parts), recipe.stages)
    replicas = replicas_of(costs, recipe.mesh, recipe.zero, wires)
    pipeline = Pipeline(recipe.stages, recipe.batches, recipe.zero, recipe.schedule.split, recipe.flat.whole,
                        recipe.flat.ends, recipe.prefetch)
    return least_times(pipeline, costs, shape, replicas)[0]


def _cuts(parts: Sequence[Sequence[int]]) -> Sequence[int]:
    """Number of the block with which every part begins, and the number of blocks."""
    return [0, *np.cumsum([len(part) for part in parts]).tolist()]


def _known(design: Design) -> bool:
    """Whether the bound holds for a design: our rules, equal NPUs in order that compute one node at a time, and dims of
    a fixed speed on which collectives of ours send messages."""
    collective, system = design.collective, design.system
    return (design.compat == "none" and not design.npu_types and isinstance(system.placement, str)
            and system.compute_streams == 1 and not changing(design) and has_medium(design)
            and collective.kernels is None and collective.choice in OWN["choice"]
            and all(getattr(collective.custom, name) is None for name in collective.custom.__struct_fields__))


def _alone(recipe: Recipe) -> bool:
    """Whether weights and gradients are in local memories, so that what ranks exchange goes over the network."""
    return recipe.placed == LOCAL and not recipe.gathers
