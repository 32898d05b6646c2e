"""The shape of a group: which regular slices of which network dims its ranks make up.

NPU number = sum of coordinate * product of the inner dims' sizes. A group is regular when its list of NPUs, in group
order, is a product of slices (start, step, count) of dims: position = k0 + n0 * (k1 + n1 * (k2 …)), where the k-th
factor alone moves one coordinate. Any other group is flat: its messages find their own dims.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from astrarium.errors import InputError

__all__ = ["FLAT", "SubDim", "group_shape", "world_shape"]

FLAT = -1


@dataclass(frozen=True)
class SubDim:
    """A group's slice of one network dim: `n` members whose positions in the group lie `stride` apart.

    `start` and `step` are the coordinates in the dim: start, start + step, … `dim` FLAT (-1): an irregular group.
    """

    dim: int
    n: int
    stride: int
    start: int = 0
    step: int = 1


def world_shape(dims: Sequence[int]) -> tuple[SubDim, ...]:
    """The shape of the group of all NPUs in order; dims of one NPU are left out."""
    shape, stride = [], 1
    for dim, n in enumerate(dims):
        if n > 1:
            shape.append(SubDim(dim, n, stride))
        stride *= n
    return tuple(shape)


def group_shape(npus: npt.ArrayLike, dims: Sequence[int], *, path: str = "group",
                several: bool = False) -> tuple[SubDim, ...]:
    """The slices of `dims` that `npus` (in group order) are made of, innermost dim first; one FLAT one when irregular.

    `several`: a dim may have several slices (0, 1, 4, 5 of 8: two neighbours, twice) that ascend; they follow each
    other. Else such a group is irregular. A group of one NPU has no slices. O(len(npus)) numpy work per factor, and a
    factor at least doubles what is explained. Raises InputError for an empty group, a repeated NPU or one outside the
    network.
    """
    members = np.asarray(npus, np.int64)
    total = int(np.prod(np.asarray(dims, np.int64)))
    if len(members) == 0:
        raise InputError(path, "a group without members", expected="at least one rank")
    outside = members[(members < 0) | (members >= total)]
    if len(outside):
        raise InputError(path, f"NPU {int(outside[0])} is not in the network", expected=f"0..{total - 1}")
    _refuse_repeats(members, path)
    factors = _factors(members)
    shape = _to_dims(factors, int(members[0]), dims, several) if factors is not None else None
    if shape is None:
        return (SubDim(FLAT, len(members), 1),)
    return tuple(sorted(shape, key=lambda part: (part.dim, part.stride)))


def _refuse_repeats(members: npt.NDArray[np.int64], path: str) -> None:
    ordered = np.sort(members)
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    if len(twice):
        raise InputError(path, f"NPU {int(twice[0])} is in the group twice")


def _factors(members: npt.NDArray[np.int64]) -> list[tuple[int, int, int]] | None:
    """(step in NPU numbers, count, stride in the group) of nested equal steps; None when the list is not regular."""
    size, stride = len(members), 1
    factors = []
    while stride < size:
        heads = members[::stride]
        step = int(heads[1] - heads[0])
        breaks = np.flatnonzero(np.diff(heads) != step)
        count = int(breaks[0]) + 1 if len(breaks) else len(heads)
        if len(heads) % count:
            return None
        runs = heads.reshape(-1, count)
        if (runs != runs[:, :1] + np.arange(count) * step).any():
            return None
        factors.append((step, count, stride))
        stride *= count
    return factors


def _to_dims(factors: list[tuple[int, int, int]], first: int, dims: Sequence[int],
             several: bool) -> list[SubDim] | None:
    """Lay each factor into the dims; it may run through several whole ones (0, 1, … 31 is 4 x 8). None: two in one,
    unless `several` may be, and stay inside together."""
    inner = np.concatenate([[1], np.cumprod(np.asarray(dims, np.int64))]).tolist()
    shape: list[SubDim] = []
    for step, count, stride in factors:
        parts = _one_factor(step, count, stride, first, dims, inner)
        if parts is None:
            return None
        shape += parts
    if len({part.dim for part in shape}) == len(shape):
        return shape
    return shape if several and all(_inside(shape, dim, size) for dim, size in enumerate(dims)) else None


def _inside(shape: Sequence[SubDim], dim: int, size: int) -> bool:
    """Whether the slices of a dim ascend, and together stay in it."""
    parts = [part for part in shape if part.dim == dim]
    last = sum((part.n - 1) * part.step for part in parts) + (parts[0].start if parts else 0)
    return last < size and all(part.step > 0 for part in parts)


def _one_factor(step: int, count: int, stride: int, first: int, dims: Sequence[int],
                inner: list[int]) -> list[SubDim] | None:
    """Slices that the numbers first, first + step, … (count of them) make, innermost first."""
    parts: list[SubDim] = []
    while count > 1:
        dim = next((d for d in range(len(dims)) if step % inner[d] == 0 and abs(step) < inner[d + 1]), None)
        if dim is None:
            return None
        pace, start = step // inner[dim], first // inner[dim] % dims[dim]
        last = start + (count - 1) * pace
        if 0 <= last < dims[dim]:
            return [*parts, SubDim(dim, count, stride, start, pace)]
        here = dims[dim] // abs(pace)  # the factor leaves the dim: it must cover it evenly and go on in the next one
        wraps = start + (here - 1) * pace
        if dims[dim] % abs(pace) or count % here or not 0 <= wraps < dims[dim]:
            return None
        if here > 1:
            parts.append(SubDim(dim, here, stride, start, pace))
        count, stride, step = count // here, stride * here, step * here
    return parts
