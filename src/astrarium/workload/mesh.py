"""Who is where: rank <-> coordinates on the axes of a parallelisation, and the groups that sets of axes make."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from msgspec import Struct

from astrarium.arrays import I32
from astrarium.errors import InputError, InternalError

__all__ = ["AXES", "ORDERS", "Mesh", "mesh_of", "parse_order", "spreads"]


AXES = ("tp", "cp", "sp", "ep", "dp", "pp")
"""The axes that a design names."""

INNER = ("tp", "itp", "etp", "cp", "sp", "ep", "mdp", "idp", "odp", "pp")
"""The axes that ranks have coordinates on. dp is ep * edp: experts are divided over `ep`, replicated over `edp`. edp is
idp * odp: hybrid sharding divides weights over `idp` (and ep), and replicates them over `odp`.

Where inference spreads experts over the ranks of tp as well, a mesh has itp * etp in the place of tp: `etp` ranks have
different experts, `itp` ranks parts of the same ones. `mdp` ranks of dp have parts of the same experts."""

PARTS = {"tp": ("itp", "etp"), "edp": ("idp", "odp"), "dp": ("ep", "mdp", "idp", "odp")}

ORDERS = {"megatron": "tp-cp-sp-ep-dp-pp", "stage": "dp-tp-sp-cp-ep-pp"}
"""Rank orders by name, innermost first. `stage`: data parallel ranks are neighbours, as in STAGE's traces."""


def parse_order(text: str) -> tuple[str, ...]:
    """`tp-cp-sp-ep-dp-pp`, or a name in ORDERS, as axes, innermost first. Raises InputError for no permutation."""
    parts = tuple(ORDERS.get(text, text).split("-"))
    if sorted(parts) != sorted(AXES):
        raise InputError("order", f"{text[:60]!r} is not an order of the axes",
                         expected=f"{', '.join(ORDERS)}, or all of {', '.join(AXES)}, innermost first, joined by -")
    return parts


class Mesh(Struct, frozen=True, dict=True):
    """`axes` with their `sizes`, innermost first (rank = sum of coordinate * product of the sizes further in)."""

    axes: tuple[str, ...]
    sizes: tuple[int, ...]

    @cached_property
    def _known(self) -> dict[tuple[str, ...], tuple[str, ...]]:
        return {}

    @cached_property
    def _ranks(self) -> dict[tuple[str, ...], int]:
        return {}

    @cached_property
    def _coordinates(self) -> dict[str, I32]:
        return {}

    @property
    def ranks(self) -> int:
        """All of them."""
        total = 1
        for size in self.sizes:
            total *= size
        return total

    def size(self, axes: Sequence[str]) -> int:
        """Ranks of a group over `axes`."""
        key = tuple(axes)
        found = self._ranks.get(key)
        if found is None:
            found = self._ranks[key] = math.prod([self.sizes[self.axes.index(axis)] for axis in self.real(key)])
        return found

    def real(self, axes: Sequence[str]) -> tuple[str, ...]:
        """The axes of more than one rank that `axes` mean (`dp`: ep, mdp, idp and odp), each once, in the mesh's order.

        The same group has the same answer, whatever it was called. Raises InternalError for an unknown axis.
        """
        key = tuple(axes)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._real(key)
        return found

    def _real(self, axes: tuple[str, ...]) -> tuple[str, ...]:
        meant = {inner for axis in axes for inner in self._parts(axis)}
        return tuple(a for a, size in zip(self.axes, self.sizes, strict=True) if a in meant and size > 1)

    def _parts(self, axis: str) -> tuple[str, ...]:
        """The mesh's axes that an axis means, the innermost first; none for one that this mesh does without."""
        if axis not in INNER and axis not in PARTS:
            raise InternalError(f"there is no mesh axis {axis!r}")
        named = (axis,) if axis in self.axes else PARTS.get(axis, ())
        return tuple(each for each in named if each in self.axes)

    def _grid(self) -> I32:
        """Rank numbers, outermost axis first."""
        return np.arange(self.ranks, dtype=np.int32).reshape(self.sizes[::-1])

    def _place(self, axis: str) -> int:
        """Which dimension of the grid an axis is."""
        return len(self.axes) - 1 - self.axes.index(axis)

    def coordinate(self, axis: str) -> I32:
        """[ranks] coordinate on one axis (`dp`, `edp`: of all their parts)."""
        found = self._coordinates.get(axis)
        if found is None:
            found = self._coordinates[axis] = self._coordinate(axis)
        return found

    def _coordinate(self, axis: str) -> I32:
        total = np.zeros(self.ranks, np.int32)
        scale, ranks = 1, np.arange(self.ranks, dtype=np.int64)
        for inner in self._parts(axis):
            place = self.axes.index(inner)
            stride = int(np.prod(self.sizes[:place], dtype=np.int64))
            total += ((ranks // stride) % self.sizes[place] * scale).astype(np.int32)
            scale *= self.sizes[place]
        return total

    def groups(self, axes: Sequence[str]) -> I32:
        """[groups, members] ranks that differ only on `axes`: members ascending, groups by their first member."""
        chosen = sorted(self._place(axis) for axis in self.real(axes))
        rest = [dim for dim in range(len(self.axes)) if dim not in chosen]
        return np.ascontiguousarray(self._grid().transpose(rest + chosen).reshape(-1, self.size(axes)))

    def group_of(self, axes: Sequence[str]) -> I32:
        """[ranks] index into `groups(axes)` of the group that a rank is in."""
        rows = self.groups(axes)
        found = np.empty(self.ranks, np.int32)
        found[rows] = np.arange(len(rows), dtype=np.int32)[:, None]
        return found

    def shifted(self, axis: str, shift: int) -> I32:
        """[ranks] the rank `shift` further along one axis (`dp`, `edp`: along all parts, as one ring), cyclic."""
        rows = self.groups((axis,))
        found = np.empty(self.ranks, np.int32)
        found[rows] = np.roll(rows, -shift, axis=1)
        return found

    def on(self, axis: str, coordinate: int) -> I32:
        """Ranks with this coordinate on one axis, ascending."""
        return np.flatnonzero(self.coordinate(axis) == coordinate).astype(np.int32)

    def moved(self, axis: str, coordinate: int) -> I32:
        """[ranks] the rank with the same other coordinates and this one on `axis`."""
        place = self.axes.index(axis)
        stride = int(np.prod(self.sizes[:place], dtype=np.int64))
        step = (coordinate - self.coordinate(axis)).astype(np.int64) * stride
        return (np.arange(self.ranks, dtype=np.int64) + step).astype(np.int32)


def mesh_of(order: str, *, tp: int = 1, cp: int = 1, sp: int = 1, ep: int = 1, dp: int = 1, pp: int = 1,
            shards: int | None = None, moe_tp: int | None = None) -> Mesh:
    """The mesh of a parallelisation; `ep` is a part of `dp`, and so are the `shards` ranks that hybrid sharding divides
    over (left out: all of dp). With `moe_tp`, experts are spread over tp * dp: `ep` ranks have different ones, of which
    `moe_tp` ranks have each a part. Raises InputError where one does not divide the other.
    """
    inside, spread = 1, 1
    if moe_tp is not None:
        if not spreads(tp, dp, ep, moe_tp):
            raise InputError("moe_tp", f"{moe_tp} x ep ({ep}) do not spread over tp x dp = {tp} x {dp}")
        inside = tp // math.gcd(tp, moe_tp)
        spread, ep = moe_tp * inside // tp, ep // inside
    if ep < 1 or dp % ep:
        raise InputError("ep", f"{ep} does not divide dp ({dp})")
    inner = dp if shards is None else shards
    if inner < 1 or inner % (ep * spread) or dp % inner:
        raise InputError("zero_ranks", f"{inner} is not a multiple of ep ({ep}) that divides dp ({dp})")
    sizes = {"tp": tp, "itp": tp // inside, "etp": inside, "cp": cp, "sp": sp, "ep": ep, "mdp": spread,
             "idp": inner // ep // spread, "odp": dp // inner, "pp": pp}
    parts = {"tp": ("tp",) if inside == 1 else ("itp", "etp"), "dp": (*(("mdp",) if spread > 1 else ()), "idp", "odp")}
    axes = tuple(part for axis in parse_order(order) for part in parts.get(axis, (axis,)))
    return Mesh(axes, tuple(sizes[axis] for axis in axes))


def spreads(tp: int, dp: int, ep: int, moe_tp: int) -> bool:
    """Whether experts can lie on tp x dp ranks: each copy of them, on moe_tp x ep ranks, has whole replicas of dp."""
    return tp * dp % (moe_tp * ep) == 0 and ep % (tp // math.gcd(tp, moe_tp)) == 0
