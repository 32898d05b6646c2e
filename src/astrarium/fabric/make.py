"""Short words for values of the schema, for blueprints and readers of other formats."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import UNSET

from astrarium.fabric.schema import (
    Annotation,
    Annotations,
    Attribute,
    Bandwidth,
    Component,
    Custom,
    Device,
    DeviceEdge,
    DeviceEndpoint,
    Document,
    Edge,
    Endpoint,
    Infrastructure,
    Instance,
    Latency,
    Link,
    Physical,
)

__all__ = ["between", "component", "device", "document", "inside", "instance", "link"]


def component(name: str, kind: str, count: int, description: str = "") -> Component:
    """`count` components; a kind that the schema does not know is a custom one."""
    known = {"cpu", "xpu", "nic", "memory", "port", "switch", "device"}
    choice: Any = kind if kind in known else "custom"
    return Component(name=name, count=count, choice=choice, description=description or UNSET,
                     custom=UNSET if kind in known else Custom(type=kind))


def link(name: str, bandwidth: float | None = None, latency: float | None = None, description: str = "") -> Link:
    """A link with a bandwidth in byte/ns and a latency in ns; None: not given."""
    physical = Physical(
        bandwidth=UNSET if bandwidth is None else Bandwidth(choice="gigabytes_per_second",
                                                            gigabytes_per_second=float(bandwidth)),
        latency=UNSET if latency is None else Latency(choice="ns", ns=float(latency)))
    return Link(name=name, description=description or UNSET,
                physical=UNSET if bandwidth is None and latency is None else physical)


def inside(one: str, two: str, over: str, scheme: Any = "many2many") -> DeviceEdge:
    """An edge in a device."""
    return DeviceEdge(ep1=DeviceEndpoint(component=one), ep2=DeviceEndpoint(component=two), scheme=scheme, link=over)


def between(one: str, of_one: str, two: str, of_two: str, over: str, scheme: Any = "one2one") -> Edge:
    """An edge between instances."""
    return Edge(ep1=Endpoint(instance=one, component=of_one), ep2=Endpoint(instance=two, component=of_two),
                scheme=scheme, link=over)


def device(name: str, components: Iterable[Component], links: Iterable[Link] = (),
           edges: Iterable[DeviceEdge] = (), description: str = "") -> Device:
    """A device."""
    return Device(name=name, description=description or UNSET, components=tuple(components), links=tuple(links),
                  edges=tuple(edges))


def instance(name: str, count: int, of: str = "") -> Instance:
    """`count` copies of a device, which has the same name where none is given."""
    return Instance(name=name, device=of or name, count=count)


def document(name: str, devices: Iterable[Device], links: Iterable[Link], instances: Iterable[Instance],
             edges: Iterable[Edge], tiers: Mapping[str, str] | None = None, description: str = "") -> Document:
    """A whole file. `tiers`: of links, by name."""
    notes = tuple([Annotation(name=link, attributes=(Attribute(attribute="tier", value=tier),))
                   for link, tier in (tiers or {}).items()])
    return Document(infrastructure=Infrastructure(
        name=name, description=description or UNSET, devices=tuple(devices), links=tuple(links),
        instances=tuple(instances), edges=tuple(edges)), annotations=Annotations(links=notes) if notes else UNSET)
