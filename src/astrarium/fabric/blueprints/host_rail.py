"""Hosts of a file on rails: card i of every host goes to the leaf switches of rail i, spine switches join the rails."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import ceil
from typing import Annotated, Any, ClassVar

from msgspec import UnsetType
from msgspec.structs import replace

from astrarium.config import Knob, Problem
from astrarium.errors import InputError
from astrarium.fabric.blueprints.hosts import switch_of
from astrarium.fabric.config import Fabric, file_stamp
from astrarium.fabric.make import between, document, instance, link
from astrarium.fabric.schema import Annotation, Component, Device, Document, Edge

__all__ = ["HostRail"]


def _fits(rail: HostRail) -> Iterable[Problem]:
    if rail.nics is not None and (not rail.nics or len(set(rail.nics)) != len(rail.nics)):
        yield Problem("nics", "are none" if not rail.nics else "name a card twice", "numbers of cards, each once")


class HostRail(Fabric, frozen=True, kw_only=True):
    """Hosts that a file describes (NCCL's or lstopo's XML, or InfraGraph with one host), leaf switches per card, spine
    switches.

    Links: those of the file, `rail` (card to leaf) and `spine`, whose rates must be given; `inside` of switches is
    free.
    """

    rules: ClassVar[tuple[Callable[[Any], Iterable[Problem]], ...]] = (_fits,)
    tag: ClassVar[str] = "host_rail"
    free: ClassVar[tuple[str, ...]] = ("inside",)
    host: Annotated[str, Knob("File of one host.", file=True, early=True)]
    hosts: Annotated[int, Knob("Hosts.", ge=1)]
    ports: Annotated[int, Knob("Ports of a switch: half of a leaf's go to hosts, half to spines.", ge=2, lt=2**16)]
    nics: Annotated[Sequence[int] | None, Knob("Numbers of the cards on rails; left out: all.", ge=0)] = None

    @property
    def stamp(self) -> tuple[object, ...]:
        """When the file was written, and its size."""
        return file_stamp(self.host)

    def document(self) -> Document:
        """The infrastructure. Raises InputError for a file that is not one host with cards, and for too many hosts."""
        from astrarium.fabric.files import read_document

        read = read_document(self.host)
        device, card = _host_of(read, self.host)
        nics = range(card.count) if self.nics is None else self.nics
        if not nics or max(nics) >= card.count:
            raise InputError("network.fabric.nics", f"{self.host} has {card.count} cards",
                             expected=f"0 to {card.count - 1}")
        half = self.ports // 2
        leaves = len(nics) * ceil(self.hosts / half)
        if leaves > self.ports:
            raise InputError("network.fabric.hosts", f"{self.hosts} need {leaves} leaf switches, each with a link to "
                             "every spine", expected=f"at most {self.ports // len(nics) * half}")
        made = document(self.tag, [*_devices(read), switch_of(self.ports)], [link("rail"), link("spine")],
                        [instance("host", self.hosts, device.name), instance("leaf", leaves, "switch"),
                         instance("spine", self.ports - half, "switch")],
                        self._edges(card.name, nics, leaves), {"rail": "scale_out", "spine": "scale_out"})
        ranks = tuple(self._ranks(read))
        return made if not ranks or isinstance(made.annotations, UnsetType) else replace(
            made, annotations=replace(made.annotations, nodes=ranks))

    def _edges(self, card: str, nics: Sequence[int], leaves: int) -> Iterator[Edge]:
        half = self.ports // 2
        for group, first in enumerate(range(0, self.hosts, half)):
            last = min(first + half, self.hosts)
            for rail, nic in enumerate(nics):
                yield between(f"host[{first}:{last}]", f"{card}[{nic}]", f"leaf[{len(nics) * group + rail}]",
                              f"port[0:{last - first}]", "rail")
        for leaf in range(leaves):
            yield between(f"leaf[{leaf}]", f"port[{half}:{self.ports}]", f"spine[0:{self.ports - half}]",
                          f"port[{leaf}]", "spine")

    def _ranks(self, read: Document) -> Iterator[Annotation]:
        """Ranks host after host, inside a host as the file says them."""
        notes = read.annotations
        nodes = () if isinstance(notes, UnsetType) or isinstance(notes.nodes, UnsetType) else notes.nodes
        for host in range(self.hosts):
            for note in nodes:
                said = () if isinstance(note.attributes, UnsetType) else note.attributes
                yield replace(note, name=f"host.{host}." + note.name.split(".", 2)[2], attributes=tuple([
                    replace(each, value=str(int(each.value) + host * len(nodes))) if each.attribute == "rank" else each
                    for each in said]))


def _devices(read: Document) -> tuple[Device, ...]:
    found = read.infrastructure.devices
    return () if isinstance(found, UnsetType) else found


def _host_of(read: Document, file: str) -> tuple[Device, Component]:
    """The device of the one host, and its cards."""
    instances = read.infrastructure.instances
    if isinstance(instances, UnsetType) or len(instances) != 1 or instances[0].count != 1:
        count = 0 if isinstance(instances, UnsetType) else len(instances)
        raise InputError("network.fabric.host", f"{file} has {count} instances", expected="one host")
    device = next((each for each in _devices(read) if each.name == instances[0].device), None)
    components = () if device is None or isinstance(device.components, UnsetType) else device.components
    card = next((each for each in components if "nic" in each.kinds), None)
    if device is None or card is None or not card.count:
        raise InputError("network.fabric.host", f"{file} has no network cards",
                         expected="a host with components of choice nic")
    return device, card
