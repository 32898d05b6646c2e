"""How groups of ranks lie over the dims of a network, for ranks placed in order."""

from __future__ import annotations

from functools import lru_cache
from math import prod

import numpy as np
from msgspec import Struct

from astrarium.arrays import I64
from astrarium.collective.groups import SubDim, group_shape
from astrarium.lower.collectives import first_alike
from astrarium.workload.mesh import Mesh

__all__ = ["Spread", "spread_of"]


class Spread(Struct, frozen=True):
    """Per dim: in how many `places` of it members of a group are, the most of any; over how many `blocks` inside the
    dims before it, the least of any. `shapes` of the kinds of groups. `even`: larger meshes, which repeat this one,
    have no other kinds."""

    places: tuple[int, ...]
    blocks: tuple[int, ...]
    shapes: tuple[tuple[SubDim, ...], ...]
    even: bool


def spread_of(mesh: Mesh, group: tuple[str, ...], sizes: tuple[int, ...]) -> Spread:
    """How the groups over these axes of a mesh lie over dims of these sizes."""
    return _spread_of(mesh.axes, mesh.sizes, group, sizes)


@lru_cache(1 << 12)
def _spread_of(axes: tuple[str, ...], of_axes: tuple[int, ...], group: tuple[str, ...], sizes: tuple[int, ...]
               ) -> Spread:
    mesh = Mesh(axes, of_axes)      # a mesh of its own: one that is in use holds arrays of its ranks
    members = mesh.groups(group).astype(np.int64)
    places, blocks, inside = [], [], 1
    for size in sizes:
        places.append(int(_distinct(members // inside % size).max()))
        blocks.append(int(_distinct(members // inside).min()))
        inside *= size
    ends = [prod(sizes[:place + 1]) for place in range(len(sizes))]
    even = mesh.ranks >= inside or all(not end % mesh.ranks or not mesh.ranks % end for end in ends)
    kinds = np.unique(first_alike(members.astype(np.int32), sizes)).tolist()
    return Spread(tuple(places), tuple(blocks), tuple([group_shape(members[kind], sizes) for kind in kinds]), even)


def _distinct(rows: I64) -> I64:
    """How many different values each row has."""
    ordered = np.sort(rows, axis=1)
    found: I64 = 1 + (ordered[:, 1:] != ordered[:, :-1]).sum(axis=1)
    return found
