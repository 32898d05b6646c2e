"""A network's dims as the engine takes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from astrarium.engine import plan
from astrarium.network.shapes import FullyConnected, Hypercube, LinkDim, Mesh, Ring, Switch
from astrarium.units import Bandwidth, Time

__all__ = ["Flat", "config_dim", "in_plan", "plan_dims", "shape_of", "sizes_of"]

_SHAPES = {
    "ring": plan.Shape.RING, "switch": plan.Shape.SWITCH, "fully_connected": plan.Shape.FULLY_CONNECTED,
    "mesh": plan.Shape.MESH, "hypercube": plan.Shape.HYPERCUBE,
}

_CLASSES: Mapping[plan.Shape, type[LinkDim]] = MappingProxyType({
    plan.Shape.RING: Ring, plan.Shape.RING_ONE_WAY: Ring, plan.Shape.SWITCH: Switch,
    plan.Shape.FULLY_CONNECTED: FullyConnected, plan.Shape.MESH: Mesh, plan.Shape.HYPERCUBE: Hypercube})


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
    return tuple(plan.Dim(shape_of(dim), dim.npus, float(dim.message_bandwidth), dim.hop_latency) for dim in dims)


def config_dim(dim: plan.Dim) -> LinkDim:
    """A dim of the engine as a design has it."""
    latency, bandwidth = Time.of(dim.latency), Bandwidth.of(dim.bandwidth)
    if dim.shape == plan.Shape.RING_ONE_WAY:
        return Ring(dim.npus, one_way=True, latency=latency, bandwidth=bandwidth)
    return _CLASSES[dim.shape](dim.npus, latency=latency, bandwidth=bandwidth)


def sizes_of(dims: Sequence[LinkDim]) -> list[tuple[plan.Shape, int]]:
    """Shape and NPUs of each dim."""
    return [(shape_of(dim), dim.npus) for dim in dims]
