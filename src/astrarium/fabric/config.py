"""The `network.fabric` section: an InfraGraph file or a blueprint, and what the design says of its links."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from astrarium.config import Config, Knob, Problem, default
from astrarium.config.mapping import NameMap
from astrarium.config.named import Shorthand
from astrarium.config.spec import Variants
from astrarium.errors import InputError, InternalError
from astrarium.fabric.in_switch import InSwitch
from astrarium.fabric.numbers import Said
from astrarium.fabric.schema import Document
from astrarium.registry import Kind, load
from astrarium.units import OptionalBandwidth, OptionalTime

__all__ = ["TIERS", "Fabric", "FabricFile", "FabricLink", "Tier", "blueprint", "file_stamp"]

TIERS = ("scale_in", "scale_up", "scale_out", "scale_across", "scale_above")
Tier = Literal["scale_in", "scale_up", "scale_out", "scale_across", "scale_above"]


def _free(name: str) -> Mapping[str, object]:
    if name != "free":
        raise InputError("", f"{name[:60]!r} is not known", expected="free")
    return {"free": True}


def _one_way(link: FabricLink) -> Iterator[Problem]:
    if link.free and (link.bandwidth is not None or link.latency is not None):
        yield Problem("free", "cannot be combined with numbers", "free, or bandwidth and latency")


class FabricLink(Config, frozen=True, kw_only=True):
    """Settings of a link of the fabric. They override the file, which gives the others."""

    shorthand: ClassVar[Shorthand | None] = Shorthand(_free, "free")
    rules = (_one_way,)
    bandwidth: Annotated[OptionalBandwidth, Knob("Bandwidth of one direction.", gt=0)] = default(None)
    latency: Annotated[OptionalTime, Knob("Time of the first byte from one end to the other.")
                       ] = default(None)
    free: Annotated[bool, Knob("It takes no time and carries any number of bytes: its two ends are one node.")] = False
    tier: Annotated[Tier | None, Knob("Which tier of the system it belongs to, for reports.")] = None

    @property
    def said(self) -> Said:
        """These settings in base units."""
        return Said(self.bandwidth, self.latency, self.free, self.tier or "")


class Fabric(Config, frozen=True, kw_only=True):
    """A graph of XPUs, NICs, switches and links: an InfraGraph file, or a blueprint."""

    variants: ClassVar[Variants | None] = Kind("blueprint")
    tag_key: ClassVar[str] = "blueprint"
    untagged: ClassVar[str] = "file"
    free: ClassVar[tuple[str, ...]] = ()        # links that take no time, whatever a design says of others
    links: Annotated[Mapping[str, FabricLink],
                     Knob("Numbers of links by name: `nvlink`, or `dgx.nvlink` for those of one device.")] = NameMap()
    inside: Annotated[Literal["asked", "free"], Knob("Links inside devices that no file describes: asked for, "
                                                     "or free (they take no time).")] = "asked"
    dangling: Annotated[Literal["refuse", "drop"], Knob("Edges to a component that the device does not have: refused, "
                                                        "or dropped with a note of each.")] = "refuse"
    planes: Annotated[Literal["striped", "apart"],
                      Knob("Parallel switches and cards of a host: one device, over which messages are striped; or "
                           "apart, and each message takes one.")] = "striped"
    in_switch: Annotated[Mapping[str, InSwitch],
                         Knob("What switches can do themselves, by their names in the file, for the algorithm sharp: "
                              "collectives go along trees of them.")] = NameMap()

    @property
    def said(self) -> dict[str, Said]:
        """Settings of links, by name, in addition to the document."""
        return {name: link.said for name, link in self.links.items()}

    @property
    def title(self) -> str:
        """What messages call it."""
        return f"blueprint {self.tag}"

    @property
    def stamp(self) -> tuple[object, ...]:
        """What its content depends on in addition to its fields."""
        return ()

    def document(self) -> Document:
        """The infrastructure. Raises InputError."""
        raise InternalError(f"{self.title} makes no infrastructure")


def blueprint(name: str, **fields: Any) -> Fabric:
    """Make a fabric from a few numbers: `blueprint("dgx_h100_rail", hosts=64)`.

    Args:
        name: A blueprint (`astrarium list blueprint`).
        **fields: Fields of its class.

    Raises:
        InputError: The name is unknown, or a field is wrong.
    """
    found: Fabric = load("blueprint", name)(**fields)
    return found


def file_stamp(path: str) -> tuple[object, ...]:
    """When a file was written, and its size; nothing of one that cannot be read."""
    try:
        about = os.stat(path)
    except (OSError, ValueError):
        return ()
    return about.st_mtime_ns, about.st_size, about.st_ino


class FabricFile(Fabric, frozen=True, kw_only=True):
    """A fabric of a file."""

    tag: ClassVar[str] = "file"
    file: Annotated[str, Knob("InfraGraph (YAML, JSON), topology of ns-3 or htsim, or host of NCCL or lstopo (XML).",
                              file=True, early=True)]

    @property
    def title(self) -> str:
        """The file."""
        return self.file

    @property
    def stamp(self) -> tuple[object, ...]:
        """When the file was written, and its size."""
        return file_stamp(self.file)

    def document(self) -> Document:
        """The file's content. Raises InputError."""
        from astrarium.fabric.files import read_document

        return read_document(self.file)
