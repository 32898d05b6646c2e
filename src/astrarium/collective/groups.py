"""The shape of a group: which slices of which network dims its ranks make up.

NPU number = sum of coordinate * product of the inner dims' sizes. A group is regular when its list of NPUs, in group
order, is a product of lists of coordinates, one per dim: position = k0 + n0 * (k1 + n1 * (k2 …)), where each k alone
decides the coordinate in one dim. The coordinates of a list may be any, in any order. Any other group is flat: its
messages find their own dims.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from astrarium.errors import InputError

__all__ = ["FLAT", "SubDim", "group_shape", "world_shape"]

FLAT = -1


class SubDim(NamedTuple):
    """A group's part of one network dim: `n` coordinates; `stride` positions of the group have the same, then the next.

    `dim` FLAT (-1): an irregular group.
    """

    dim: int
    n: int
    stride: int


def world_shape(dims: Sequence[int]) -> tuple[SubDim, ...]:
    """The shape of the group of all NPUs in order; dims of one NPU are left out."""
    shape, stride = [], 1
    for dim, n in enumerate(dims):
        if n > 1:
            shape.append(SubDim(dim, n, stride))
        stride *= n
    return tuple(shape)


def group_shape(npus: npt.ArrayLike, dims: Sequence[int], *, path: str = "group") -> tuple[SubDim, ...]:
    """The parts of `dims` whose product `npus` (in group order) is, innermost first; a FLAT one when irregular.

    A dim comes at most once, in a group of one NPU none does. O(len(npus)) numpy work per dim. Raises InputError for an
    empty group, a repeated NPU or one outside the network.
    """
    members = np.asarray(npus, np.int64)
    total = int(np.prod(np.asarray(dims, np.int64)))
    if len(members) == 0:
        raise InputError(path, "a group without members", expected="at least one rank")
    outside = members[(members < 0) | (members >= total)]
    if len(outside):
        raise InputError(path, f"NPU {int(outside[0])} is not in the network", expected=f"0..{total - 1}")
    _refuse_repeats(members, path)
    shape, rest = [], members
    for dim, size in enumerate(dims):
        rest, places = np.divmod(rest, size)
        part = _part(dim, places)
        if part is None:
            return (SubDim(FLAT, len(members), 1),)
        shape += [part] if part.n > 1 else []
    return tuple(shape) if _nested(shape, len(members)) else (SubDim(FLAT, len(members), 1),)


def _refuse_repeats(members: npt.NDArray[np.int64], path: str) -> None:
    ordered = np.sort(members)
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    if len(twice):
        raise InputError(path, f"NPU {int(twice[0])} is in the group twice")


def _part(dim: int, places: npt.NDArray[np.int64]) -> SubDim | None:
    """The part of a dim, from the members' coordinates in it; None when these do not repeat in equal runs."""
    moved = np.flatnonzero(places != places[0])
    if not len(moved):
        return SubDim(dim, 1, 1)
    stride = int(moved[0])
    heads = places[::stride]
    back = np.flatnonzero(heads[1:] == heads[0])
    n = int(back[0]) + 1 if len(back) else len(heads)
    if len(places) % (n * stride) or (places.reshape(-1, n, stride) != heads[:n, None]).any():
        return None
    return SubDim(dim, n, stride)


def _nested(shape: Sequence[SubDim], members: int) -> bool:
    """Whether every combination of the parts is one position."""
    stride = 1
    for part in sorted(shape, key=lambda part: part.stride):
        if part.stride != stride:
            return False
        stride *= part.n
    return stride == members
