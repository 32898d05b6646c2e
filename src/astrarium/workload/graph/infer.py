"""From how a tensor was left to how it is used: the collectives in between.

The rules are those of partitioned tensors (GSPMD, arXiv 2105.04663, section 3): per mesh axis a tensor is replicated,
sharded on a dim, or a partial sum.
"""

from __future__ import annotations

from dataclasses import dataclass

from astrarium.errors import InternalError
from astrarium.vocab import CommOp
from astrarium.workload.graph.ir import base
from astrarium.workload.graph.layout import Layout

__all__ = ["Change", "Placed", "changes"]


@dataclass(frozen=True)
class Placed:
    """A tensor as it lies: dims by position, and the axes over which it is a partial sum."""

    dims: tuple[str, ...]
    partial: tuple[str, ...] = ()


@dataclass(frozen=True)
class Change:
    """One collective over the group of `axes`; `elements` as Chakra counts (all_gather: of the shard, else local)."""

    op: CommOp
    axes: tuple[str, ...]
    elements: float


def changes(have: Placed, want: tuple[str, ...], layout: Layout) -> tuple[Change, ...]:
    """The collectives, in order, that bring `have` to dims `want` with nothing partial.

    What only needs a slice costs nothing and goes first; then sums, then exchanges, then gathers, so that every step
    moves as little as it can. Axes that need the same collective on the same dim share one.
    """
    if have.dims == want and not have.partial:
        return ()
    if [base(dim) for dim in have.dims] != [base(dim) for dim in want]:
        raise InternalError(f"dims {have.dims} are used as {want}")
    before = [layout.axes_of(dim) for dim in have.dims]
    after = [layout.axes_of(dim) for dim in want]
    left = {axis: place for place, axes in enumerate(before) for axis in axes}
    aims = {axis: place for place, axes in enumerate(after) for axis in axes}
    elements = layout.elements(have.dims)
    sliced = [axis for axis in aims if axis not in left and axis not in have.partial]
    elements /= layout.degree(sliced)
    found: list[Change] = []
    summed = [axis for axis in have.partial if axis not in aims]
    for axes in _by_place([axis for axis in have.partial if axis in aims], aims):
        found.append(Change(CommOp.REDUCE_SCATTER, axes, elements))
        elements /= layout.degree(axes)
    if summed:
        found.append(Change(CommOp.ALL_REDUCE, tuple(summed), elements))
    moved = [axis for axis in left if axis in aims and aims[axis] != left[axis]]
    found += [Change(CommOp.ALL_TO_ALL, axes, elements) for axes in _by_place(moved, left)]
    for axes in _by_place([axis for axis in left if axis not in aims], left):
        found.append(Change(CommOp.ALL_GATHER, axes, elements))
        elements *= layout.degree(axes)
    return tuple(found)


def _by_place(axes: list[str], place: dict[str, int]) -> list[tuple[str, ...]]:
    """Axes that act on the same dim together, in order of first mention."""
    groups: dict[int, list[str]] = {}
    for axis in axes:
        groups.setdefault(place[axis], []).append(axis)
    return [tuple(group) for group in groups.values()]
