"""Arguments of comm nodes per rank: groups, peers, tags. A stage's ranks differ in nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from msgspec import Struct

from astrarium.arrays import I32
from astrarium.vocab import NodeKind
from astrarium.workload.assemble.pool import Arguments
from astrarium.workload.assemble.stages import Places
from astrarium.workload.mesh import INNER, Mesh

__all__ = ["Groups", "groups_of", "slots_of"]

Key = tuple[tuple[str, ...], str, str]
TAGGED = ("tp", "cp", "sp", "ep", "idp", "odp", "pp", "edp", "dp")
TURNS = 1 << 15             # tags of messages along an axis: axis, turn, displacement; those between stages are small


class Groups(Struct, frozen=True, eq=False):
    """All groups that are named: `members[g]`; `of[key]` [ranks] the group of each rank, -1: all ranks, -2: none."""

    members: tuple[I32, ...]
    of: Mapping[Key, I32]


def _order(key: Key) -> tuple[str, str, tuple[int, ...]]:
    return key[2], key[1], tuple(INNER.index(axis) for axis in key[0])


def groups_of(mesh: Mesh, arguments: Iterable[Arguments], where: Places) -> Groups:
    """Numbered by stream and axes (sets of axes in the order of mesh.INNER), then by the first rank."""
    collectives = [each for each in arguments if each.kind == NodeKind.COMM_COLL]
    keys = sorted({(each.axes, each.among, each.stream) for each in collectives}, key=_order)
    members: list[I32] = []
    found: dict[Key, I32] = {}
    for axes, among, stream in keys:
        table = _narrowed(mesh, axes, among, where) if among else mesh.groups(axes)
        if table.shape == (1, mesh.ranks) and not stream:
            found[axes, among, stream] = np.full(mesh.ranks, -1, np.int32)
            continue
        of = np.full(mesh.ranks, -2, np.int32)
        of[table] = np.arange(len(members), len(members) + len(table), dtype=np.int32)[:, None]
        found[axes, among, stream] = of
        table.flags.writeable = False
        members += list(table)
    return Groups(tuple(members), found)


def _narrowed(mesh: Mesh, axes: Sequence[str], among: str, where: Places) -> I32:
    """Groups over `axes` and two stages: the first and the last (`ends`), or those with the same parts (`mirror`)."""
    stages = where.part.shape[0]
    pairs = [(0, stages - 1)] if among == "ends" else [(s, stages - 1 - s) for s in range(stages // 2)]
    table = np.concatenate([np.stack([mesh.moved("pp", stage)[mesh.on("pp", pair[0])] for stage in pair], axis=1)
                            for pair in pairs])
    if not axes:
        return np.sort(table, axis=1)
    rows = mesh.group_of(axes)[table[:, 0]]
    order = np.argsort(rows, kind="stable")
    return np.sort(table[order].reshape(len(np.unique(rows)), -1), axis=1)


def slots_of(mesh: Mesh, groups: Groups, where: Places, stage: int, ranks: I32,
             arguments: Sequence[Arguments]) -> tuple[I32, I32]:
    """`slot_a` and `slot_b` [ranks, slots] of a stage."""
    peer = np.full((len(ranks), len(arguments)), -1, np.int32)
    second = np.empty_like(peer)
    for slot, each in enumerate(arguments):
        if each.kind == NodeKind.COMM_COLL:
            second[:, slot] = groups.of[each.axes, each.among, each.stream][ranks]
        elif each.way >= 0:
            other, tag = _between(where, stage, each)
            peer[:, slot] = mesh.moved("pp", other)[ranks]
            second[:, slot] = tag
        else:
            axis = each.axes[0]
            peer[:, slot] = mesh.shifted(axis, each.shift)[ranks]
            second[:, slot] = (1 + TAGGED.index(axis)) << 27 | (each.turn % TURNS) << 12 | each.flow % 4096
    return peer, second


def _between(where: Places, stage: int, each: Arguments) -> tuple[int, int]:
    """(stage that a message goes to or comes from, tag: the receiving chunk and the direction)."""
    here, sends = (stage, each.chunk), each.kind == NodeKind.COMM_SEND
    forward = each.way == 0
    other = (where.after if sends == forward else where.before)[here]
    receiver = other[1] if sends else each.chunk
    return other[0], receiver * 2 + each.way
