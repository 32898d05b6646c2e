"""Tori and meshes: XPUs in a grid, each linked to its neighbours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Annotated, Any, ClassVar

from astrarium.config import Knob, Problem
from astrarium.engine.plan import Dim, Shape
from astrarium.fabric.config import Fabric
from astrarium.fabric.of_dims import document_of_dims
from astrarium.fabric.schema import Document

__all__ = ["Mesh", "Torus"]

MOST = 1 << 24


def _fits(grid: _Grid) -> Iterable[Problem]:
    if not grid.sides or prod(grid.sides) > MOST:
        yield Problem("sides", f"hold {prod(grid.sides) if grid.sides else 0:,} XPUs", f"1 to {MOST:,} XPUs")


class _Grid(Fabric, frozen=True, kw_only=True):
    """XPUs in a grid. Links: `dim0`, `dim1`, ... by direction. They have no numbers of their own."""

    rules: ClassVar[tuple[Callable[[Any], Iterable[Problem]], ...]] = (_fits,)
    shape: ClassVar[Shape]
    sides: Annotated[Sequence[int], Knob("XPUs in each direction, innermost first.", ge=1)]

    def document(self) -> Document:
        """The infrastructure."""
        return document_of_dims([Dim(self.shape, side, 1.0, 0.0) for side in self.sides], self.tag, numbers=False)


class Torus(_Grid, frozen=True, kw_only=True):
    """XPUs in a grid whose lines are closed to rings."""

    tag: ClassVar[str] = "torus"
    shape: ClassVar[Shape] = Shape.RING


class Mesh(_Grid, frozen=True, kw_only=True):
    """XPUs in a grid of open lines."""

    tag: ClassVar[str] = "mesh"
    shape: ClassVar[Shape] = Shape.MESH
