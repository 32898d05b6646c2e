"""The least memory of a training step: bytes that a rank holds at some moment of every run, whatever overlaps.

The first node of a block waits for the block before it, and the first node of a unit for the unit before it. So when a
block begins, these tensors are there in every run: what the rank owns, what forward units before have saved and no
backward unit has used yet, and the block's working memory. The largest such sum over blocks and units is a lower bound
of the peak. Weights that ZeRO gathers, messages and fresh gradients are left out, because their nodes may run early or
late; the `footprint` has them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from astrarium.arrays import F64
from astrarium.workload.assemble.holdings import holdings
from astrarium.workload.assemble.recipe import Recipe
from astrarium.workload.assemble.stages import parts_of, places
from astrarium.workload.assemble.units import StageChunk
from astrarium.workload.pieces import BlockPieces
from astrarium.workload.schedule import BACKWARD, FORWARD, WEIGHT

__all__ = ["least_memory"]

ROUNDED = 0.5       # bytes by which a tensor may be smaller than its size here


def least_memory(recipe: Recipe) -> float:
    """Local memory, in bytes, that the fullest rank of a recipe needs at least."""
    where = places(recipe)
    return max(_stage(recipe, parts_of(recipe, where, stage), stage) for stage in range(recipe.stages))


def _stage(recipe: Recipe, parts: Sequence[StageChunk], stage: int) -> float:
    owned = holdings(recipe, parts)
    fixed = owned.weights + owned.buckets + (0.0 if recipe.fresh else owned.gradients) + owned.states + recipe.overhead
    if not all(_in_turn(recipe, part) for part in parts):
        return fixed - ROUNDED * len(parts)
    units = recipe.schedule.units(recipe.stages, stage, recipe.batches, recipe.chunks)
    last = WEIGHT if recipe.schedule.split else BACKWARD
    saved = [_saved(recipe, part) for part in parts]
    added = np.array([each.sum() for each in saved])[units.chunk]
    step = np.where(units.kind == FORWARD, added, np.where(units.kind == last, -added, 0.0))
    inside = np.array([[_inside(recipe, part, own, kind) for kind in (FORWARD, BACKWARD, WEIGHT)]
                       for part, own in zip(parts, saved)])
    most = np.cumsum(step) - step + inside[units.chunk, units.kind]
    tensors = recipe.batches * sum(len(part.blocks) for part in parts)
    return fixed + float(most.max()) - ROUNDED * (tensors + len(parts))


def _in_turn(recipe: Recipe, part: StageChunk) -> bool:
    """Whether the blocks of a part run one after the other, and its units, too."""
    blocks = [recipe.kinds[block] for block in part.blocks]
    return recipe.schedule.copies == 1 and all(block.forward.exit >= 0 for block in blocks[:-1]) and all(
        block.backward.exit >= 0 for block in blocks[1:])


def _saved(recipe: Recipe, part: StageChunk) -> F64:
    """[blocks] bytes that each block of a part saves in the local memory for a micro-batch's backward."""
    if recipe.placed.activations is not None:
        return np.zeros(len(part.blocks))
    return np.array([recipe.kinds[block].saved for block in part.blocks], np.float64)


def _inside(recipe: Recipe, part: StageChunk, saved: F64, kind: int) -> float:
    """The most that a unit adds to what was there before it, when one of its blocks begins."""
    blocks = [recipe.kinds[block] for block in part.blocks]
    if kind == FORWARD:
        return float((np.cumsum(saved) + [each.working if each.forward.steps else 0.0 for each in blocks]).max())
    if kind == WEIGHT:
        return 0.0
    used = np.zeros(len(saved)) if recipe.schedule.split else saved.sum() - np.cumsum(saved)
    return float((np.array([_working_back(each) for each in blocks]) - used).max())


def _working_back(block: BlockPieces) -> float:
    if not block.backward.steps:
        return 0.0
    return block.working if block.working_back is None else block.working_back
