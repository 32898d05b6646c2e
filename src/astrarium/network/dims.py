"""A network's dims as the engine takes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from astrarium.engine import plan
from astrarium.network.shapes import LinkDim, Ring

__all__ = ["Flat", "in_plan", "plan_dims", "shape_of"]

_SHAPES = {
    "ring": plan.Shape.RING, "switch": plan.Shape.SWITCH, "fully_connected": plan.Shape.FULLY_CONNECTED,
    "mesh": plan.Shape.MESH, "hypercube": plan.Shape.HYPERCUBE,
}


class Flat(Protocol):
    """What has flat dims: a network section."""

    @property
    def flat(self) -> tuple[LinkDim, ...]: ...


def shape_of(dim: LinkDim) -> plan.Shape:
    """The engine's shape of a dim."""
    return plan.Shape.RING_ONE_WAY if isinstance(dim, Ring) and dim.one_way else _SHAPES[dim.tag]


def plan_dims(network: Flat) -> tuple[plan.Dim, ...]:
    """Every flat dim of a network, as `in_plan` gives them."""
    return in_plan(network.flat)


def in_plan(dims: Sequence[LinkDim]) -> tuple[plan.Dim, ...]:
    """The engine's dims: shape, NPUs, byte/ns that messages get of one link, ns of one hop."""
    return tuple(plan.Dim(shape_of(dim), dim.npus, float(dim.message_bandwidth), float(dim.latency)) for dim in dims)
