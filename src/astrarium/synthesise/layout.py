"""Who talks to whom, by role: groups along axes of a layout of ranks, and neighbours in a pipeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

from astrarium.arrays import I32
from astrarium.errors import InputError

__all__ = ["ROLES", "SHARED", "Layout", "layout_of"]


ROLES = ("dp", "tp", "ends", "pp", "stage", "tp_pp", "dp_pp", "all")
"""Groups: replicas, tensor-parallel ranks, first and last stage, a pipeline, one stage, and the rest. Where a layout
makes two of them equal, the first one names both."""

SHARED = ("ends", "pp", "tp_pp", "dp_pp", "all")
"""Roles whose groups have ranks of several stages."""

AXES = {"dp": (1,), "tp": (2,), "pp": (0,), "ends": (0,), "stage": (1, 2), "tp_pp": (0, 2), "dp_pp": (0, 1),
        "all": (0, 1, 2)}


class Layout(Struct, frozen=True):
    """tp innermost, then dp, then pp: rank = tp coordinate + tp * (dp coordinate + dp * stage)."""

    tp: int
    dp: int
    pp: int

    @property
    def ranks(self) -> int:
        """All of them."""
        return self.tp * self.dp * self.pp

    def groups(self, role: str) -> I32:
        """[groups, members] of a role."""
        grid = np.arange(self.ranks, dtype=np.int32).reshape(self.pp, self.dp, self.tp)
        grid = grid[[0, self.pp - 1]] if role == "ends" and self.pp > 1 else grid
        axes = AXES[role]
        rest = [axis for axis in range(3) if axis not in axes]
        size = int(np.prod([grid.shape[axis] for axis in axes]))
        return np.ascontiguousarray(grid.transpose([*rest, *axes]).reshape(-1, size))

    def role(self, members: Sequence[int] | None, rank: int) -> str:
        """The role of a group of `rank` (None: all ranks). InputError for one along no axes."""
        wanted = list(range(self.ranks)) if members is None else sorted(members)
        for role in ROLES:
            table = self.groups(role)
            row = np.flatnonzero((table == rank).any(axis=1))
            if table.shape[1] == len(wanted) and row.size and table[row[0]].tolist() == wanted:
                return role
        raise InputError("synthesise", f"a group of {len(wanted)} ranks that is no axis of tp {self.tp}, dp {self.dp} "
                         f"and pp {self.pp}", expected="ranks in the order tp, dp, pp, and groups along those axes")

    def peer(self, other: int, rank: int) -> str:
        """`next` or `prev`: the stage that a message goes to or comes from. InputError for another."""
        step = self.tp * self.dp
        if other - rank in (step, -step):
            return "next" if other > rank else "prev"
        raise InputError("synthesise", f"a message between ranks {rank} and {other}",
                         expected="messages between neighbouring stages")


def layout_of(conditions: Mapping[str, float]) -> Layout:
    """The layout that conditions name (tp, dp, pp; 1 where they do not)."""
    found = {}
    for axis in ("tp", "dp", "pp"):
        value = conditions.get(axis, 1)
        if value != int(value) or not 1 <= value < 2**24:
            raise InputError(f"synthesise: {axis}", f"{value:g}", expected="a whole number from 1")
        found[axis] = int(value)
    return Layout(**found)
