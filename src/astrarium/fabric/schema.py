"""InfraGraph's schema, version 3.1, as frozen values: what a file may say, field by field.

Names, choices and units are those of the public schema (OpenAPI document of PyPI `infragraph` 3.1.0). A field that a
file leaves out is UNSET, so that a file is written as it was read.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

__all__ = ["COMPONENTS", "Annotation", "Annotations", "Attribute", "Bandwidth", "Component", "Custom", "Device",
           "DeviceEdge", "DeviceEndpoint", "Document", "Edge", "EdgeAnnotation", "Empty", "Endpoint", "Infrastructure",
           "Instance", "Latency", "Link", "Physical"]

ComponentChoice = Literal["custom", "device", "cpu", "xpu", "nic", "memory", "port", "switch"]
COMPONENTS = ("custom", "device", "cpu", "xpu", "nic", "memory", "port", "switch")
Scheme = Literal["one2one", "many2many", "ring"]
Text = str | UnsetType


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A mapping of the schema: no other keys."""


class Empty(_Strict, frozen=True, kw_only=True):
    """A placeholder of the schema for what a kind of component may say one day."""


class Custom(_Strict, frozen=True, kw_only=True):
    type: str


class Component(_Strict, frozen=True, kw_only=True):
    """`count` parts of one kind; with `choice: device` this many devices of this name."""

    name: str
    description: Text = UNSET
    count: int
    choice: ComponentChoice | UnsetType = UNSET
    custom: Custom | UnsetType = UNSET
    device: Empty | UnsetType = UNSET
    cpu: Empty | UnsetType = UNSET
    xpu: Empty | UnsetType = UNSET
    nic: Empty | UnsetType = UNSET
    memory: Empty | UnsetType = UNSET
    port: Empty | UnsetType = UNSET
    switch: Empty | UnsetType = UNSET

    @property
    def kinds(self) -> tuple[str, ...]:
        """Every kind that this says it is; a sound one says one."""
        said = [name for name in COMPONENTS if getattr(self, name) is not UNSET]
        return tuple(dict.fromkeys([*([] if isinstance(self.choice, UnsetType) else [self.choice]), *said]))


class Bandwidth(_Strict, frozen=True, kw_only=True):
    choice: Literal["gigabits_per_second", "gigabytes_per_second", "gigatransfers_per_second"] | UnsetType = UNSET
    gigabits_per_second: int | float | UnsetType = UNSET
    gigabytes_per_second: int | float | UnsetType = UNSET
    gigatransfers_per_second: int | float | UnsetType = UNSET


class Latency(_Strict, frozen=True, kw_only=True):
    choice: Literal["ms", "us", "ns"] | UnsetType = UNSET
    ms: int | float | UnsetType = UNSET
    us: int | float | UnsetType = UNSET
    ns: int | float | UnsetType = UNSET


class Physical(_Strict, frozen=True, kw_only=True):
    bandwidth: Bandwidth | UnsetType = UNSET
    latency: Latency | UnsetType = UNSET


class Link(_Strict, frozen=True, kw_only=True):
    name: str
    description: Text = UNSET
    physical: Physical | UnsetType = UNSET


class DeviceEndpoint(_Strict, frozen=True, kw_only=True):
    """`component: xpu[0:4]`; a way into parts that are devices has dots (`cx5[0].port`), or begins in `device`."""

    device: Text = UNSET
    component: str


class DeviceEdge(_Strict, frozen=True, kw_only=True):
    ep1: DeviceEndpoint
    ep2: DeviceEndpoint
    scheme: Scheme | UnsetType = UNSET
    link: str


class Device(_Strict, frozen=True, kw_only=True):
    name: str
    description: Text = UNSET
    components: tuple[Component, ...] | UnsetType = UNSET
    links: tuple[Link, ...] | UnsetType = UNSET
    edges: tuple[DeviceEdge, ...] | UnsetType = UNSET


class Instance(_Strict, frozen=True, kw_only=True):
    name: str
    description: Text = UNSET
    device: str
    count: int


class Endpoint(_Strict, frozen=True, kw_only=True):
    instance: str
    component: str


class Edge(_Strict, frozen=True, kw_only=True):
    ep1: Endpoint
    ep2: Endpoint
    scheme: Scheme | UnsetType = UNSET
    link: str


class Infrastructure(_Strict, frozen=True, kw_only=True):
    name: Text = UNSET
    description: Text = UNSET
    devices: tuple[Device, ...] | UnsetType = UNSET
    links: tuple[Link, ...] | UnsetType = UNSET
    instances: tuple[Instance, ...] | UnsetType = UNSET
    edges: tuple[Edge, ...] | UnsetType = UNSET


class Attribute(_Strict, frozen=True, kw_only=True):
    attribute: str
    value: str


class Annotation(_Strict, frozen=True, kw_only=True):
    """What is said of nodes (`host[0]xpu[0:4]`, `host.0.xpu.1`) or of a link, by name."""

    name: str
    attributes: tuple[Attribute, ...] | UnsetType = UNSET


class EdgeAnnotation(_Strict, frozen=True, kw_only=True):
    ep1: str
    ep2: str
    attributes: tuple[Attribute, ...] | UnsetType = UNSET


class Annotations(_Strict, frozen=True, kw_only=True):
    nodes: tuple[Annotation, ...] | UnsetType = UNSET
    edges: tuple[EdgeAnnotation, ...] | UnsetType = UNSET
    links: tuple[Annotation, ...] | UnsetType = UNSET
    graph: tuple[Attribute, ...] | UnsetType = UNSET


class Document(_Strict, frozen=True, kw_only=True):
    """A file: an infrastructure alone, or with annotations beside it (what the package's `get_graph` writes)."""

    infrastructure: Infrastructure
    annotations: Annotations | UnsetType = UNSET
