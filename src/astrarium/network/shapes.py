"""Dims of a network: shapes, links, bandwidths.

Bandwidth is one direction. A dim takes the bandwidth of one link, or of all of an NPU's links in the dim together; the
other follows from the number of links.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar

from astrarium import catalog
from astrarium.catalog.technology import LinkTechnology, Technologies, link_technology
from astrarium.config import Config, Knob, Problem, default
from astrarium.config.derive import Derivation
from astrarium.config.named import Shorthand
from astrarium.config.spec import Variants
from astrarium.fabric.in_switch import InSwitch
from astrarium.registry import Kind
from astrarium.units import (
    Bandwidth,
    EnergyPerByte,
    Length,
    OptionalBandwidth,
    OptionalEnergyPerByte,
    OptionalLength,
    Quantity,
    Time,
)

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
Energy = Annotated[OptionalEnergyPerByte, Knob("Energy of what leaves an NPU in this dim (for the objective energy); "
                                               "of a `link`, of what crosses one link.")]
HopLatency = Annotated[Time, Knob("Time of the first byte over one hop; a switch is two hops. With a `link`, what its "
                                  "ends (adapter, switch) take in addition to it.")]
Technology = Annotated[str | None, Knob("Technology of the links (`astrarium list link`): its row says bandwidth, "
                                        "energy, latency, reach and price.", choices=Technologies("links"))]
Parallel = Annotated[int, Knob("Links of the technology, side by side, that make one link of the dim.", ge=1)]
Distance = Annotated[OptionalLength, Knob("Length of a link, for its delay; refused where the technology reaches "
                                          "less far.", gt=0)]
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
    either = (("bandwidth", "bandwidth_per_npu"),
              ("bandwidth", "link"), ("bandwidth_per_npu", "link"))


def _of_one(name: str) -> Mapping[str, Quantity]:
    """Bandwidth and energy of one link of a technology."""
    found = link_technology(name)
    energy = {} if found.energy is None else {"energy": EnergyPerByte.of(found.energy)}
    return {"bandwidth": Bandwidth.of(found.bandwidth), **energy}


_BY_LINK = Derivation("link", "links", Technologies("links"), _of_one, ("bandwidth", "energy"), counted=("bandwidth",))


def _reaches(dim: LinkDim | Torus) -> Iterator[Problem]:
    if dim.link is None:
        for name, given in (("links", dim.links > 1), ("length", dim.length is not None)):
            if given:
                yield Problem(name, "has no effect without link", "link, a technology (`astrarium list link`)")
        return
    reach = link_technology(dim.link).reach
    if reach is not None and dim.length is not None and dim.length > reach:
        yield Problem("length", f"{dim.length} is farther than {dim.link} reaches", f"at most {Length.of(reach)}, or "
                      "another link")


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

    rules: ClassVar[tuple[Callable[[Any], Iterable[Problem]], ...]] = (_rates, _reaches)
    derive = _BY_LINK
    latency: HopLatency
    bandwidth: LinkBandwidth = default(None)
    bandwidth_per_npu: NpuBandwidth = default(None)
    energy: Energy = default(None)
    efficiency: Efficiency = 1.0
    fabric: FabricName = None
    link: Technology = None
    links: Parallel = 1
    length: Distance = default(None)

    @property
    def technology(self) -> LinkTechnology | None:
        """The technology of the links."""
        return None if self.link is None else link_technology(self.link)

    @property
    def hop_latency(self) -> float:
        """ns of the first byte over one hop: of its ends, and of the link between them."""
        found = self.technology
        own = 0.0 if found is None else found.latency + found.delay * float(self.length or 0.0)
        return float(self.latency) + own

    @property
    def energy_out(self) -> float:
        """nJ of a byte that leaves an NPU: `energy`, of a `link` that of all links to the next NPU (a switch: two)."""
        each = float(self.energy or 0.0)
        return each if self.link is None or self.tag != "switch" else 2 * each

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

    rules = (_rates, _reaches, _power_of_two)
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

    rules = (_rates, _reaches, _has_sides)
    derive = _BY_LINK
    tag: ClassVar[str] = "torus"
    latency: HopLatency
    bandwidth: LinkBandwidth = default(None)
    bandwidth_per_npu: NpuBandwidth = default(None)
    energy: Energy = default(None)
    efficiency: Efficiency = 1.0
    fabric: FabricName = None
    link: Technology = None
    links: Parallel = 1
    length: Distance = default(None)

    def rings(self) -> tuple[Ring, ...]:
        """The equal ring dims."""
        if self.link is not None:
            length = None if self.length is None else Length.of(self.length)
            return tuple(Ring(npus, latency=Time.of(self.latency), efficiency=self.efficiency, fabric=self.fabric,
                              link=self.link, links=self.links, length=length) for npus in self.npus)
        link = self.bandwidth if self.bandwidth is not None else (self.bandwidth_per_npu or 0.0) / (2 * len(self.npus))
        energy = None if self.energy is None else EnergyPerByte.of(self.energy)
        return tuple(Ring(npus, latency=Time.of(self.latency), bandwidth=Bandwidth.of(link), energy=energy,
                          efficiency=self.efficiency, fabric=self.fabric)
                     for npus in self.npus)
