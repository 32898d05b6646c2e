"""Dims of a network: shapes, links, bandwidths.

Bandwidth is one direction. A dim takes the bandwidth of one link, or of all of an NPU's links in the dim together; the
other follows from the number of links.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, Any, ClassVar

from astrarium import catalog
from astrarium.config import Config, Knob, Problem, default
from astrarium.config.named import Shorthand
from astrarium.config.spec import Variants
from astrarium.fabric.in_switch import InSwitch
from astrarium.registry import Kind
from astrarium.units import Bandwidth, EnergyPerByte, OptionalBandwidth, OptionalEnergyPerByte, Time

__all__ = ["DIM_NAME", "Dim", "FullyConnected", "Hypercube", "LinkDim", "Mesh", "Ring", "Switch", "Torus"]


class _Fabrics:
    """The names of the fabrics of the catalog."""

    def names(self) -> tuple[str, ...]:
        return tuple(catalog.load("collectives"))

    def load(self, name: str) -> Any:
        return catalog.load("collectives")[name]

    def __contains__(self, name: object) -> bool:
        return name in catalog.load("collectives")


LinkBandwidth = Annotated[OptionalBandwidth, Knob("Bandwidth of one link, one direction (or bandwidth_per_npu).", gt=0)]
NpuBandwidth = Annotated[OptionalBandwidth, Knob("Bandwidth of all links of one NPU in this dim, one direction "
                                                 "(or bandwidth).", gt=0)]
Energy = Annotated[OptionalEnergyPerByte, Knob("Energy of what leaves an NPU in this dim (for the objective energy).")]
HopLatency = Annotated[Time, Knob("Time of the first byte over one hop; a switch is two hops.")]
Efficiency = Annotated[float, Knob("Share of the bandwidth that messages get, up to 1 (measured ones: catalog/"
                                   "collectives.toml).", gt=0)]
FabricName = Annotated[str | None, Knob("Fabric on which collectives were measured, for collective.model: measured; "
                                        "names of the catalog bring theirs.", choices=_Fabrics())]


DIM_NAME = "a name of the catalog (`astrarium list network`)"


class Dim(Config, frozen=True):
    """One dim of the network."""

    variants: ClassVar[Variants | None] = Kind("shape")
    tag_key: ClassVar[str] = "shape"
    shorthand: ClassVar[Shorthand | None] = Shorthand(lambda name: catalog.network(name).plain, DIM_NAME)
    either = (("bandwidth", "bandwidth_per_npu"),)


def _rates(dim: LinkDim | Torus) -> Iterator[Problem]:
    if dim.efficiency > 1:
        yield Problem("efficiency", f"{dim.efficiency} is more than the whole bandwidth", "more than 0, at most 1")
    if dim.bandwidth is not None and dim.bandwidth_per_npu is not None:
        yield Problem("bandwidth_per_npu", "cannot be combined with bandwidth, from which it follows", "one of the two")
    if dim.bandwidth is None and dim.bandwidth_per_npu is None:
        yield Problem("bandwidth", "is missing", f"{Bandwidth.expected()}, or bandwidth_per_npu")


class _Counted(Dim, frozen=True):
    """A dim of `npus` NPUs."""

    npus: Annotated[int, Knob("NPUs in this dim.", ge=1)]


class LinkDim(_Counted, frozen=True, kw_only=True):
    """A dim of equal links."""

    rules: ClassVar[tuple[Callable[[Any], Iterable[Problem]], ...]] = (_rates,)
    latency: HopLatency
    bandwidth: LinkBandwidth = default(None)
    bandwidth_per_npu: NpuBandwidth = default(None)
    energy: Energy = default(None)
    efficiency: Efficiency = 1.0
    fabric: FabricName = None

    @property
    def links_per_npu(self) -> int:
        """Outgoing links of one NPU in this dim (at least 1)."""
        return _LINKS[self.tag](self)

    @property
    def link_bandwidth(self) -> float:
        """Byte/ns of one link, one direction."""
        return self.bandwidth if self.bandwidth is not None else (self.bandwidth_per_npu or 0.0) / self.links_per_npu

    @property
    def message_bandwidth(self) -> float:
        """Byte/ns that messages get of one link, one direction: its bandwidth x efficiency."""
        return self.link_bandwidth * self.efficiency

    @property
    def npu_bandwidth(self) -> float:
        """Byte/ns out of one NPU over all its links in this dim."""
        total = self.bandwidth_per_npu
        return total if total is not None else (self.bandwidth or 0.0) * self.links_per_npu


class Ring(LinkDim, frozen=True, kw_only=True):
    """Each NPU is linked to two neighbours, or to the next one only."""

    tag: ClassVar[str] = "ring"
    one_way: Annotated[bool, Knob("Messages travel clockwise only.")] = False


class Switch(LinkDim, frozen=True, kw_only=True):
    """Each NPU has one link to a switch: two hops."""

    tag: ClassVar[str] = "switch"
    in_switch: Annotated[InSwitch | None, Knob("What the switches can do themselves, for the algorithms nvls and "
                                               "sharp; left out: nothing.")] = None


class FullyConnected(LinkDim, frozen=True, kw_only=True):
    """Each NPU has a link to every other one: one hop."""

    tag: ClassVar[str] = "fully_connected"


class Mesh(LinkDim, frozen=True, kw_only=True):
    """A line of NPUs, each linked to its neighbours."""

    tag: ClassVar[str] = "mesh"


def _power_of_two(dim: Hypercube) -> Iterator[Problem]:
    if dim.npus & (dim.npus - 1):
        yield Problem("npus", f"{dim.npus} is impossible", "a power of two")


class Hypercube(LinkDim, frozen=True, kw_only=True):
    """NPUs whose numbers differ in one bit are linked."""

    rules = (_rates, _power_of_two)
    tag: ClassVar[str] = "hypercube"


_LINKS: dict[str, Callable[[LinkDim], int]] = {
    "ring": lambda dim: 1 if isinstance(dim, Ring) and dim.one_way else 2,
    "switch": lambda _: 1,
    "fully_connected": lambda dim: max(1, dim.npus - 1),
    "mesh": lambda _: 2,
    "hypercube": lambda dim: max(1, dim.npus.bit_length() - 1),
}


class _Sides(Dim, frozen=True):
    """A dim with several directions."""

    npus: Annotated[Sequence[int], Knob("NPUs in each direction, innermost first.", ge=1)]


def _has_sides(torus: Torus) -> Iterator[Problem]:
    if not torus.npus:
        yield Problem("npus", "is empty", "the NPUs in each direction, such as [4, 4]")


class Torus(_Sides, frozen=True, kw_only=True):
    """Ring dims of equal links, one per direction; it is equal to these dims."""

    rules = (_rates, _has_sides)
    tag: ClassVar[str] = "torus"
    latency: HopLatency
    bandwidth: LinkBandwidth = default(None)
    bandwidth_per_npu: NpuBandwidth = default(None)
    energy: Energy = default(None)
    efficiency: Efficiency = 1.0
    fabric: FabricName = None

    def rings(self) -> tuple[Ring, ...]:
        """The equal ring dims."""
        link = self.bandwidth if self.bandwidth is not None else (self.bandwidth_per_npu or 0.0) / (2 * len(self.npus))
        energy = None if self.energy is None else EnergyPerByte.of(self.energy)
        return tuple(Ring(npus, latency=Time.of(self.latency), bandwidth=Bandwidth.of(link), energy=energy,
                          efficiency=self.efficiency, fabric=self.fabric)
                     for npus in self.npus)
