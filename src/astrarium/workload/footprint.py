"""Memory of a training step before any simulation: what each pipeline stage holds, and when most.

The units of a stage run in the order of its schedule, and so do the nodes of a unit; then this is exactly the peak of a
simulation. Overlap can move it: work of two units at once holds the working memory of both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.arrays import F64
from astrarium.vocab import Placed
from astrarium.workload.assemble.builder import Template
from astrarium.workload.assemble.holdings import Holdings, holdings
from astrarium.workload.assemble.memory import Some, frees, grown, held, saves, working
from astrarium.workload.assemble.pool import Pool
from astrarium.workload.assemble.recipe import Recipe
from astrarium.workload.assemble.stages import chosen, final, parts_of, places
from astrarium.workload.assemble.units import StageChunk, Templates
from astrarium.workload.graph import Forms
from astrarium.workload.schedule import BACKWARD, FORWARD, WEIGHT
from astrarium.workload.training import recipe_of
from astrarium.workload.transformer import Transformer

__all__ = ["KINDS", "Footprint", "footprints", "training_footprint"]


class Footprint(Struct, frozen=True):
    """Bytes of one rank of a pipeline stage at the moment when it holds most.

    `weights`, `gradients` and `states` (of the optimizer) include what is gathered or not yet sharded at that moment.
    `activations` are those of all micro-batches in flight, `working` what running blocks need besides, `messages` the
    buffers between stages, `overhead` what the workload says of it. `parameters` of this rank before ZeRO.
    """

    parameters: float
    weights: float
    gradients: float
    states: float
    activations: float
    working: float
    messages: float
    overhead: float = 0.0

    @property
    def total(self) -> float:
        """Bytes of all parts together."""
        held = self.weights + self.gradients + self.states + self.activations + self.working + self.messages
        return held + self.overhead


KINDS = ("weights", "gradients", "states", "activations", "working", "messages")


def training_footprint(workload: Transformer, forms: Forms | None = None, placed: Placed | None = None
              ) -> tuple[Footprint, ...]:
    """Every pipeline stage's local memory, with tensors `placed`. Raises InputError where a size of the model does not
    divide (`uneven: refuse`)."""
    return footprints(recipe_of(workload, forms, placed))


def footprints(recipe: Recipe) -> tuple[Footprint, ...]:
    """Every pipeline stage's local memory for a recipe."""
    made, where = Templates(recipe, Pool(recipe.mesh)), places(recipe)
    return tuple(_stage(recipe, made, parts_of(recipe, where, stage), stage) for stage in range(recipe.stages))


def _stage(recipe: Recipe, made: Templates, parts: Sequence[StageChunk], stage: int) -> Footprint:
    units = recipe.schedule.units(recipe.stages, stage, recipe.batches, recipe.chunks)
    templates, which = chosen(made, units, parts, final(recipe, units))
    peaks, left = [], []
    for number, template in enumerate(templates):
        first = int(np.argmax(which == number))
        most, after = _profile(recipe, parts[int(units.chunk[first])], int(units.kind[first]), template)
        peaks.append(most)
        left.append(after)
    step = np.array(left)[which]
    before = np.cumsum(step, axis=0) - step
    peak = np.array(peaks)[which]
    peak += before
    owned = holdings(recipe, parts)
    fresh = owned.gradients if recipe.fresh else 0.0
    fixed = {"weights": owned.weights, "gradients": owned.buckets + owned.gradients - fresh, "states": owned.states}
    step = _load(owned)
    step[:, KINDS.index("gradients")] += fresh
    return _with(owned, fixed, np.vstack([peak, step]), recipe.overhead)


def _load(owned: Holdings) -> F64:
    """The optimizer's step, with what comes from other memories for it."""
    row = np.zeros((1, len(KINDS)))
    for kind, size in owned.fetched.items():
        row[0, KINDS.index(kind)] = size
    return row


def _with(owned: Holdings, fixed: Mapping[str, float], peaks: F64, overhead: float) -> Footprint:
    most = peaks[int(peaks.sum(axis=1).argmax())]
    return Footprint(parameters=owned.elements, overhead=overhead, **{
        kind: float(value) + fixed.get(kind, 0.0) for kind, value in zip(KINDS, most.tolist(), strict=True)})


def _profile(recipe: Recipe, part: StageChunk, kind: int, template: Template) -> tuple[F64, F64]:
    """([kinds] what a unit adds when most is there, [kinds] what it leaves behind)."""
    change = np.zeros((len(KINDS), len(template) + 1))
    for what in KINDS:
        tensors = held(template.held, what)
        _add(change[KINDS.index(what)], tensors, _last(tensors.readers, tensors.reader))
    busy = working(recipe, part, kind, template.spans)
    _add(change[KINDS.index("working")], busy, _last(busy.readers, busy.reader))
    saved, away = change[KINDS.index("activations")], recipe.placed.activations is not None
    size = np.array([recipe.kinds[block].saved for block in part.blocks])
    if kind == FORWARD:
        np.add.at(saved, saves(recipe, part, template)[1], size)
    if kind == (FORWARD if away else WEIGHT if recipe.schedule.split else BACKWARD):
        np.add.at(saved, _last(*frees(part, template, away)), -size)
    left = np.zeros(len(KINDS))
    left[KINDS.index("activations")] = float(saved.sum()) if not away else 0.0
    if recipe.fresh and kind == BACKWARD:
        made, writer = grown(recipe, part, template)
        np.add.at(change[KINDS.index("gradients")], writer, made)
        left[KINDS.index("gradients")] = made.sum()
    level = np.cumsum(change, axis=1)
    return level[:, int(level.sum(axis=0).argmax())], left


def _last(count: npt.NDArray[np.int64], reader: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """After which node each is gone."""
    if not len(count):
        return count
    starts = np.cumsum(count) - count
    return np.maximum.reduceat(reader, starts) + 1


def _add(change: F64, tensors: Some, ends: npt.NDArray[np.int64]) -> None:
    np.add.at(change, tensors.writer, tensors.size)
    np.add.at(change, ends, -tensors.size)
