"""All stages: templates along the schedule, the end of the iteration, arguments per rank, tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.errors import InputError
from astrarium.trace.work import Generated, Tensors, TraceClass
from astrarium.vocab import Kernel, NodeKind
from astrarium.workload.assemble.memory import tensors_of
from astrarium.workload.assemble.names import namer
from astrarium.workload.assemble.pool import Pool
from astrarium.workload.assemble.recipe import Recipe
from astrarium.workload.assemble.slots import Groups, groups_of, slots_of
from astrarium.workload.assemble.stages import Places, chosen, final, parts_of, places
from astrarium.workload.assemble.tail import tail
from astrarium.workload.assemble.tile import Tiled, joined_to, tile
from astrarium.workload.assemble.units import Templates

__all__ = ["assemble"]

MOST_NODES = 2**26      # of one rank; about 5 GB of columns


class _OnDemand(Sequence[Tensors]):
    """The tensors of every stage, each made when somebody asks: a run that keeps no node times never does."""

    def __init__(self, made: Sequence[Callable[[], Tensors]]) -> None:
        self._made = tuple(functools.cache(each) for each in made)

    def __len__(self) -> int:
        return len(self._made)

    @overload
    def __getitem__(self, index: int) -> Tensors: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Tensors, ...]: ...
    def __getitem__(self, index: int | slice) -> Tensors | tuple[Tensors, ...]:
        return self._made[index]() if isinstance(index, int) else tuple(each() for each in self._made[index])


class _Stage(Struct, frozen=True, eq=False):
    tiled: Tiled
    tensors: Callable[[], Tensors]
    name: Callable[[tuple[str, ...]], Callable[[int], str]]


def assemble(recipe: Recipe) -> Generated:
    """What every rank runs in one iteration: a class per pipeline stage, in order of the stages.

    Raises InputError for more nodes than memory would hold, InternalError for pieces that break their contract.
    """
    pool = Pool(recipe.mesh)
    made, where = Templates(recipe, pool), places(recipe)
    stages = [_stage(recipe, pool, made, where, stage) for stage in range(recipe.stages)]
    columns, names, tiers = pool.columns(), pool.names(), pool.tiers()
    groups = groups_of(recipe.mesh, pool.arguments, where)
    kernels = tuple(pool.kernels)
    classes = tuple(_class(recipe, pool, columns, kernels, groups, where, number, stage.tiled, stage.name(names), tiers)
                    for number, stage in enumerate(stages))
    return Generated(classes, groups.members, tuple(map(str, range(1, len(groups.members) + 1))),
                     _OnDemand([stage.tensors for stage in stages]))


def _stage(recipe: Recipe, pool: Pool, made: Templates, where: Places, stage: int) -> _Stage:
    parts = parts_of(recipe, where, stage)
    units = recipe.schedule.units(recipe.stages, stage, recipe.batches, recipe.chunks)
    complete = final(recipe, units)
    templates, which = chosen(made, units, parts, complete)
    nodes = int(np.array([len(each) for each in templates], np.int64)[which].sum())
    if nodes > MOST_NODES:
        raise InputError("workload", f"{nodes:,} nodes on one rank", expected=f"at most {MOST_NODES:,}")
    tiled = tile(templates, which, units.joined)
    ready = [int(tiled.offset[unit]) + node for unit in np.flatnonzero(complete).tolist()
             for node in templates[int(which[unit])].grads]
    end = tail(recipe, pool, where, stage, parts, len(tiled.rows), [*ready, int(tiled.exit[-1])])
    whole = joined_to(tiled, end)
    first = [sum(len(part) for part in recipe.parts[:number]) for number in where.part[stage].tolist()]
    return _Stage(whole, lambda: tensors_of(recipe, parts, units, templates, which, tiled, end),
                  lambda steps: namer(whole, templates, which, units, steps, first))


def _class(recipe: Recipe, pool: Pool, columns: Mapping[str, npt.NDArray[Any]], kernels: tuple[Kernel, ...],
           groups: Groups, where: Places, stage: int, tiled: Tiled, name: Callable[[int], str],
           tiers: tuple[str, ...]) -> TraceClass:
    """The columns of a stage; comm nodes of equal arguments share a slot."""
    ranks, rows = recipe.mesh.on("pp", stage), tiled.rows
    told = columns["arguments"][rows]
    told = told[told >= 0]
    used = np.flatnonzero(np.bincount(told, minlength=len(pool.arguments)))
    slot_of = np.zeros(len(pool.arguments), np.int32)
    slot_of[used] = np.arange(len(used), dtype=np.int32)
    every = list(pool.arguments)
    slot_a, slot_b = slots_of(recipe.mesh, groups, where, stage, ranks, [every[number] for number in used.tolist()])
    size, micros, tier = len(rows), columns["duration_us"][rows], columns["tier"][rows]
    beside = (tier >= 0) & (columns["type"][rows] == NodeKind.COMP)
    return TraceClass(
        ranks=ranks, node_id=np.arange(1, size + 1, dtype=np.uint64), type=columns["type"][rows],
        is_cpu=(micros > 0) | beside, duration_us=micros, num_ops=columns["num_ops"][rows],
        tensor_size=columns["tensor_size"][rows], comm_type=columns["comm_type"][rows],
        comm_size=columns["comm_size"][rows], involved=np.full(size, -1, np.int32), priority=columns["priority"][rows],
        parent_ptr=tiled.parent_ptr, parent=tiled.parent, slot_a=slot_a, slot_b=slot_b, names=name, slot=slot_of[told],
        kernel=columns["kernel"][rows], kernels=kernels, tier=tier if tiers else None, tiers=tiers)
