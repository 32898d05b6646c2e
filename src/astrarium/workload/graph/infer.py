"""From how a tensor was left to how it is used: the collectives in between.

The rules are those of partitioned tensors (GSPMD, arXiv 2105.04663, section 3): per mesh axis a tensor is replicated,
sharded on a dim, or a partial sum.
"""

from __future__ import annotations

from msgspec import Struct

from astrarium.errors import InternalError
from astrarium.vocab import CommOp
from astrarium.workload.graph.ir import Measures, base

__all__ = ["Change", "Placed", "changes"]


class Placed(Struct, frozen=True):
    """A tensor as it lies: dims by position, and the axes over which it is a partial sum."""

    dims: tuple[str, ...]
    partial: tuple[str, ...] = ()


class Change(Struct, frozen=True):
    """One collective over the group of `axes`; `elements` as Chakra counts (all_gather: of the shard, else local).

    `op` None: every rank keeps its slice, which costs nothing.
    """

    op: CommOp | None
    axes: tuple[str, ...]
    elements: float


class _Move(Struct, frozen=True):
    """One axis-wise difference; `source` and `target` are the places (dims) that it leaves and enters, or None."""

    op: CommOp | None
    axes: tuple[str, ...]
    source: int | None
    target: int | None


def changes(have: Placed, want: tuple[str, ...], layout: Measures) -> tuple[Change, ...]:
    """The collectives, in order, that bring `have` to dims `want` with nothing partial.

    Slices go first, then sums, then exchanges, then gathers, so that every step moves as little as it can; but nothing
    enters a dim that another axis has still to leave, for then the shards would not be contiguous. Axes that need the
    same collective on the same dim share one.
    """
    if not have.partial and (have.dims == want or _alike(have.dims, want, layout)):
        return ()
    if [base(dim) for dim in have.dims] != [base(dim) for dim in want]:
        raise InternalError(f"dims {have.dims} are used as {want}")
    elements, moves, found = layout.elements(have.dims), _moves(have, want, layout), list[Change]()
    while moves:
        leaving = {move.source for move in moves}
        free = [move for move in moves if move.target is None or move.target not in leaving - {None}]
        if not free:      # two axes change places: one of them takes the long way
            first = moves.pop(0)
            moves += [_Move(CommOp.ALL_GATHER, first.axes, first.source, None),
                      _Move(None, first.axes, None, first.target)]
            continue
        move = free[0]
        moves.remove(move)
        found.append(Change(move.op, move.axes, elements))
        if move.op in (None, CommOp.REDUCE_SCATTER):
            elements /= layout.degree(move.axes)
        elif move.op == CommOp.ALL_GATHER:
            elements *= layout.degree(move.axes)
    return tuple(found)


def _alike(dims: tuple[str, ...], want: tuple[str, ...], layout: Measures) -> bool:
    """Whether two ways to write the same dims lie alike."""
    return all(base(a) == base(b) and layout.axes_of(a) == layout.axes_of(b) for a, b in zip(dims, want, strict=True))


def _moves(have: Placed, want: tuple[str, ...], layout: Measures) -> list[_Move]:
    """All differences, in the order in which they cost least."""
    left = {axis: place for place, dim in enumerate(have.dims) for axis in layout.axes_of(dim)}
    aims = {axis: place for place, dim in enumerate(want) for axis in layout.axes_of(dim)}
    moves = [_Move(None, (axis,), None, aims[axis]) for axis in aims if axis not in left and axis not in have.partial]
    moves += [_Move(CommOp.REDUCE_SCATTER, axes, None, aims[axes[0]])
              for axes in _by_place([axis for axis in have.partial if axis in aims], aims)]
    summed = tuple(axis for axis in have.partial if axis not in aims)
    moves += [_Move(CommOp.ALL_REDUCE, summed, None, None)] if summed else []
    moves += [_Move(CommOp.ALL_TO_ALL, (axis,), left[axis], aims[axis])
              for axis in left if axis in aims and aims[axis] != left[axis]]
    moves += [_Move(CommOp.ALL_GATHER, axes, left[axes[0]], None)
              for axes in _by_place([axis for axis in left if axis not in aims], left)]
    return moves


def _by_place(axes: list[str], place: dict[str, int]) -> list[tuple[str, ...]]:
    """Axes that act on the same dim together, in order of first mention."""
    groups: dict[int, list[str]] = {}
    for axis in axes:
        groups.setdefault(place[axis], []).append(axis)
    return [tuple(group) for group in groups.values()]
