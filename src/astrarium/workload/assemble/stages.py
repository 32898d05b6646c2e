"""Where the parts of the model are, and which template every unit of a stage has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

from astrarium.arrays import I32, Bool
from astrarium.workload.assemble.builder import Template
from astrarium.workload.assemble.recipe import Recipe
from astrarium.workload.assemble.units import StageChunk, Templates
from astrarium.workload.schedule import BACKWARD, WEIGHT, Units

__all__ = ["Places", "chosen", "final", "places"]

Chunk = tuple[int, int]      # stage, chunk


class Places(Struct, frozen=True, eq=False):
    """`part` [stages, chunks] of the model; `before` and `after` of a (stage, chunk) are those that it talks to."""

    part: I32
    before: Mapping[Chunk, Chunk]
    after: Mapping[Chunk, Chunk]


def places(recipe: Recipe) -> Places:
    """Where everything is. A part next to one on the same stage is not talked to."""
    table = recipe.schedule.place(recipe.stages, recipe.chunks)
    many = recipe.schedule.copies > 1
    at = {(int(table[s, c]), c if many else 0): (s, c) for s in range(table.shape[0]) for c in range(table.shape[1])}
    pairs = {here: (at.get((part - 1, copy)), at.get((part + 1, copy))) for (part, copy), here in at.items()}
    return Places(table, {here: other for here, (other, _) in pairs.items() if other and other[0] != here[0]},
                  {here: other for here, (_, other) in pairs.items() if other and other[0] != here[0]})


def parts_of(recipe: Recipe, where: Places, stage: int) -> tuple[StageChunk, ...]:
    """The parts of a stage, by chunk."""
    found = []
    for chunk, number in enumerate(where.part[stage].tolist()):
        here = (stage, chunk)
        received = round(recipe.kinds[recipe.parts[number - 1][-1]].output) if here in where.before else 0
        found.append(StageChunk(recipe.parts[number], chunk, here in where.before, here in where.after, received))
    return tuple(found)


def final(recipe: Recipe, units: Units) -> Bool:
    """[units] whether the gradients of the chunk's weights are complete after the unit."""
    kind = WEIGHT if recipe.schedule.split else BACKWARD
    found = np.zeros(len(units), np.bool_)
    for chunk in range(int(units.chunk.max()) + 1):
        mine = np.flatnonzero((units.kind == kind) & (units.chunk == chunk))
        found[mine[-1]] = True
    return found


def chosen(made: Templates, units: Units, parts: Sequence[StageChunk], complete: Bool) -> tuple[list[Template], I32]:
    """(templates, which of them each unit has); `complete`: what `final` says of the units."""
    code = (units.chunk * 3 + units.kind) * 2 + complete
    distinct, which = np.unique(code, return_inverse=True)
    templates = [made.of(parts[each // 6], each // 2 % 3, bool(each % 2)) for each in distinct.tolist()]
    return templates, which.reshape(-1).astype(np.int32)
