"""The `network` section: dims (innermost first) or a fabric, and the back end that times messages."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from astrarium import catalog
from astrarium.config import Config, Knob, Problem
from astrarium.config.named import LIKE, Shorthand
from astrarium.config.spec import specs
from astrarium.fabric.config import Fabric
from astrarium.fabric.in_switch import InSwitch
from astrarium.network.change import Change
from astrarium.network.ns3.settings import Ns3
from astrarium.network.packets import Packets
from astrarium.network.routes import Route
from astrarium.network.shapes import DIM_NAME, Dim, FullyConnected, Hypercube, LinkDim, Mesh, Ring, Switch, Torus
from astrarium.registry import Kind

__all__ = ["Change", "Dim", "FullyConnected", "Hypercube", "InSwitch", "LinkDim", "Mesh", "Network", "Ring", "Switch",
           "Torus"]


def _size_rules(network: Network) -> Iterator[Problem]:
    if not network.dims and network.fabric is None:
        yield Problem("dims", "is empty", "at least one dim, or a fabric")
    if network.dims and network.npus >= 2**31:
        yield Problem("dims", f"{network.npus} NPUs are too many", "less than 2147483648")


def _library_rules(network: Network) -> Iterator[Problem]:
    if network.backend == "library" and network.library is None:
        yield Problem("library", "is missing", "the shared library of backend: library")


def _fabric_rules(network: Network) -> Iterator[Problem]:
    """A fabric can be built, and the rest of the section fits it and the back end."""
    if network.changes:
        from astrarium.network.planned import changes_of_links

        if problems := list(changes_of_links(network)):
            yield from problems
            return
    if network.fabric is None:
        for name, given in (("ecmp", network.ecmp is not None), ("routes", bool(network.routes))):
            if given:
                yield Problem(name, "has no effect without a fabric", "network.fabric")
        return
    from astrarium.network.planned import faults

    yield from faults(network)


def _packets_rules(network: Network) -> Iterator[Problem]:
    if network.backend == "packets" and network.packets.transport.tag == "roce" and network.flat:
        from astrarium.network.roce_network import roce_faults

        yield from roce_faults(network)


def _one_dim(name: str) -> Mapping[str, Any]:
    """A network of the catalog as a network of one dim."""
    catalog.network(name)
    return {"dims": [{LIKE: name}]}


def _placed(plain: Mapping[str, Any], beside: Mapping[str, Any]) -> Mapping[str, Any]:
    """Fields of a dim next to `like` change the one dim that the name describes."""
    own = {spec.name for spec in specs(Network)}
    of_dim = {Dim.tag_key, *(spec.name for name in Kind("shape").names() for spec in specs(Kind("shape").load(name)))}
    moved = {key: value for key, value in beside.items() if key in of_dim - own and "dims" not in beside}
    kept = {key: value for key, value in beside.items() if key not in moved}
    return {"dims": [{**plain["dims"][0], **moved}], **kept}


Ecmp = int | Literal["off"] | None


class Network(Config, frozen=True):
    """Dims, innermost first, or a fabric, and the model that times messages on them."""

    shorthand: ClassVar[Shorthand | None] = Shorthand(_one_dim, DIM_NAME, merge=_placed)
    rules = (_size_rules, _library_rules, _fabric_rules, _packets_rules)
    dims: Annotated[Sequence[Dim], Knob("Dims, innermost first. Beside a fabric: what it is, or on what collectives "
                                        "are laid out.")] = ()
    backend: Annotated[str, Knob("How messages share links.", choices=Kind("backend"))] = "closed_form"
    library: Annotated[str | None, Knob("Shared library of a network plug-in (backend: library).", file=True)] = None
    switching: Annotated[Literal["store_and_forward", "cut_through"] | None,
                         Knob("What contention (packets) forwards from link to link: whole messages (packets), or "
                              "heads as they arrive. Left out: heads with contention, whole packets with packets.")
                         ] = None
    packets: Annotated[Packets, Knob("Packets, buffers and transport (backend: packets).")] = Packets()
    options: Annotated[str, Knob("What a plug-in back end is told; it reads this as it likes.")] = ""
    ns3: Annotated[Ns3, Knob("What ns-3 simulates, and how its program is run (backend: ns3).")] = Ns3()
    fabric: Annotated[Fabric | None, Knob("Graph of XPUs, NICs, switches and links, in place of dims.")] = None
    ecmp: Annotated[Ecmp, Knob("Seed of the hash that chooses among equally fast ways of a fabric, by the two NPUs; "
                               "off: always the link that comes first. Left out: 0, and a fabric that is dims has the "
                               "ways of the dims.", ge=0, lt=2**63)] = None
    changes: Annotated[Sequence[Change], Knob("Links whose speed changes while the design runs.")] = ()
    routes: Annotated[Sequence[Route], Knob("Ways between NPUs of a fabric that are not the shortest, or not those of "
                                            "ecmp.")] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """Fields that the back end does not take; edges that reading the fabric dropped (`fabric.dangling: drop`), by
        path and number; assumptions about its ways and planes."""
        from astrarium.network.inactive import inactive

        if self.fabric is None:
            return tuple(inactive(self, self.backend, self.packets))
        from astrarium.fabric.built import fabric_notes
        from astrarium.network.planned import assumed

        return (*inactive(self, self.backend, self.packets), *fabric_notes(self.fabric), *assumed(self))

    @property
    def written(self) -> tuple[LinkDim, ...]:
        """`dims` with every torus written as its ring dims."""
        found: list[LinkDim] = []
        for dim in self.dims:
            if isinstance(dim, Torus):
                found.extend(dim.rings())
            elif isinstance(dim, LinkDim):
                found.append(dim)
        return tuple(found)

    @property
    def flat(self) -> tuple[LinkDim, ...]:
        """The dims of a run: those that are written, with every torus as its ring dims; those of a fabric
        (design/0016)."""
        if self.fabric is None:
            return self.written
        from astrarium.network.planned import fabric_dims

        return fabric_dims(self)

    @property
    def npus(self) -> int:
        """NPUs of the whole network: the product over its dims."""
        return math.prod(dim.npus for dim in self.flat)
