"""The `network` section: dims (innermost first) and the back end that times messages on them.

Bandwidth is one direction. A dim takes the bandwidth of one link, or of all of an NPU's links in the dim together; the
other follows from the number of links.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from astrarium import catalog
from astrarium.config import Config, Knob, Problem, default
from astrarium.config.named import LIKE, Shorthand
from astrarium.config.spec import Variants, specs
from astrarium.network.packets import Packets
from astrarium.registry import Kind
from astrarium.units import Bandwidth, EnergyPerByte, OptionalBandwidth, OptionalEnergyPerByte, Time

__all__ = ["Dim", "FullyConnected", "Hypercube", "LinkDim", "Mesh", "Network", "Ring", "Switch", "Torus"]


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


_NAME = "a name of the catalog (`astrarium list network`)"


class Dim(Config, frozen=True):
    """One dim of the network."""

    variants: ClassVar[Variants | None] = Kind("shape")
    tag_key: ClassVar[str] = "shape"
    shorthand: ClassVar[Shorthand | None] = Shorthand(lambda name: catalog.network(name).plain, _NAME)
    either = (("bandwidth", "bandwidth_per_npu"),)


def _rates(dim: LinkDim | Torus) -> Iterator[Problem]:
    if dim.efficiency > 1:
        yield Problem("efficiency", f"{dim.efficiency} is more than the whole bandwidth", "more than 0, at most 1")
    if dim.bandwidth is not None and dim.bandwidth_per_npu is not None:
        yield Problem("bandwidth_per_npu", "is given beside bandwidth, from which it follows", "one of the two")
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
    """Ring dims of equal links, one per direction; everywhere else it counts as those dims."""

    rules = (_rates, _has_sides)
    tag: ClassVar[str] = "torus"
    latency: HopLatency
    bandwidth: LinkBandwidth = default(None)
    bandwidth_per_npu: NpuBandwidth = default(None)
    energy: Energy = default(None)
    efficiency: Efficiency = 1.0
    fabric: FabricName = None

    def rings(self) -> tuple[Ring, ...]:
        """The ring dims that this is."""
        link = self.bandwidth if self.bandwidth is not None else (self.bandwidth_per_npu or 0.0) / (2 * len(self.npus))
        energy = None if self.energy is None else EnergyPerByte.of(self.energy)
        return tuple(Ring(npus, latency=Time.of(self.latency), bandwidth=Bandwidth.of(link), energy=energy,
                          efficiency=self.efficiency, fabric=self.fabric)
                     for npus in self.npus)


def _size_rules(network: Network) -> Iterator[Problem]:
    if not network.dims:
        yield Problem("dims", "is empty", "at least one dim")
    if network.dims and network.npus >= 2**31:
        yield Problem("dims", f"{network.npus} NPUs are too many", "less than 2147483648")


def _library_rules(network: Network) -> Iterator[Problem]:
    if network.backend == "library" and network.library is None:
        yield Problem("library", "is missing", "the shared library of backend: library")
    if network.backend != "library" and network.library is not None:
        yield Problem("library", f"means nothing where backend is {network.backend}", "backend: library")


def _switching_rules(network: Network) -> Iterator[Problem]:
    if network.backend not in ("contention", "packets") and network.switching != "store_and_forward":
        yield Problem("switching", f"means nothing where backend is {network.backend}", "backend: contention")


def _packets_rules(network: Network) -> Iterator[Problem]:
    if network.backend != "packets" and network.packets != Packets():
        yield Problem("packets", f"means nothing where backend is {network.backend}", "backend: packets")


def _one_dim(name: str) -> Mapping[str, Any]:
    """A network of the catalog as a network of one dim."""
    catalog.network(name)
    return {"dims": [{LIKE: name}]}


def _placed(plain: Mapping[str, Any], beside: Mapping[str, Any]) -> Mapping[str, Any]:
    """Fields of a dim beside `like` change the one dim that the name stands for."""
    own = {spec.name for spec in specs(Network)}
    of_dim = {Dim.tag_key, *(spec.name for name in Kind("shape").names() for spec in specs(Kind("shape").load(name)))}
    moved = {key: value for key, value in beside.items() if key in of_dim - own and "dims" not in beside}
    kept = {key: value for key, value in beside.items() if key not in moved}
    return {"dims": [{**plain["dims"][0], **moved}], **kept}


class Network(Config, frozen=True):
    """Dims, innermost first, and the model that times messages on them."""

    shorthand: ClassVar[Shorthand | None] = Shorthand(_one_dim, _NAME, merge=_placed)
    rules = (_size_rules, _library_rules, _switching_rules, _packets_rules)
    dims: Annotated[Sequence[Dim], Knob("Dims, innermost first.")]
    backend: Annotated[str, Knob("How messages share links.", choices=Kind("backend"))] = "closed_form"
    library: Annotated[str | None, Knob("Shared library of a network plug-in (backend: library).", file=True)] = None
    switching: Annotated[Literal["store_and_forward", "cut_through"],
                         Knob("What contention (packets) forwards from link to link: whole messages (packets), or "
                              "heads as they arrive.")
                         ] = "store_and_forward"
    packets: Annotated[Packets, Knob("Packets, buffers and transport (backend: packets).")] = Packets()
    options: Annotated[str, Knob("What a plug-in back end is told; it reads this as it likes.")] = ""

    @property
    def flat(self) -> tuple[LinkDim, ...]:
        """The dims with every torus written as its ring dims."""
        found: list[LinkDim] = []
        for dim in self.dims:
            if isinstance(dim, Torus):
                found.extend(dim.rings())
            elif isinstance(dim, LinkDim):
                found.append(dim)
        return tuple(found)

    @property
    def npus(self) -> int:
        """NPUs of the whole network: the product over its dims."""
        return math.prod(dim.npus for dim in self.flat)
