"""Collectives one after the other and nothing else: what tells how long each takes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from astrarium.trace.work import Generated
from astrarium.vocab import CommOp, NodeKind
from astrarium.workload import schedule
from astrarium.workload.assemble.builder import BEFORE, Builder
from astrarium.workload.assemble.pool import Pool, strip_of
from astrarium.workload.assemble.slots import groups_of
from astrarium.workload.assemble.tile import tile
from astrarium.workload.inference.join import PlacedProgram
from astrarium.workload.inference.program import class_of, places_of
from astrarium.workload.mesh import Mesh
from astrarium.workload.pieces import Piece, Step

__all__ = ["Exchange", "chain_of"]


class Exchange(Struct, frozen=True):
    """A collective over the groups of `axes`; `bytes` as Chakra counts them."""

    op: CommOp
    bytes: int
    axes: tuple[str, ...]


def chain_of(mesh: Mesh, exchanges: Sequence[Exchange], start: int) -> PlacedProgram:
    """The collectives in order, each after the one before, on the mesh's ranks from rank `start` on."""
    steps = [Step(str(number), NodeKind.COMM_COLL, (number - 1,) if number else (), bytes=each.bytes, op=each.op,
                  axes=each.axes) for number, each in enumerate(exchanges)]
    pool, where, build = Pool(mesh), places_of(1), Builder()
    build.strips(strip_of(pool, Piece(tuple(steps), len(steps) - 1), schedule.FORWARD), (BEFORE,), block=0)
    tiled = tile([build.template(len(steps) - 1)], np.zeros(1, np.int32), np.zeros(1, np.bool_))
    groups = groups_of(mesh, pool.arguments, where)
    made = Generated((class_of(pool, groups, where, 0, tiled),), groups.members,
                     tuple(str(number + 1) for number in range(len(groups.members))), (None,))
    return PlacedProgram(start, made, [tiled.offset], [tiled.exit], 0)
