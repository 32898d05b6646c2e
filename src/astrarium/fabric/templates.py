"""Devices of an infrastructure as templates: nodes and edges of one copy, with those of the devices inside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
from msgspec import Struct, UnsetType

from astrarium.arrays import I64, U8
from astrarium.errors import InputError, UnsupportedError, nearest
from astrarium.fabric.endpoints import FORM, Segment, indices, parts_of
from astrarium.fabric.schema import COMPONENTS, Device, DeviceEdge, DeviceEndpoint, Edge, Link, Physical

__all__ = ["MOST_EDGES", "Dangling", "DroppedEdge", "LinkName", "LinkTable", "NoComponentError",
           "Pairs", "Slot", "Template", "Templates", "components_in", "endpoint_parts", "repeated", "room"]


MOST_NODES = 1 << 26
MOST_EDGES = 1 << 27
DEEPEST = 16


class LinkName(msgspec.Struct, frozen=True, gc=False):
    """A link that edges go over: `device` is whose links it is of, empty for the infrastructure's own."""

    device: str
    name: str
    physical: Physical | None

    @property
    def path(self) -> str:
        return f"{self.device}.{self.name}" if self.device else self.name


class Slot(msgspec.Struct, frozen=True, gc=False):
    """Components of one name: the first node, how many, how many nodes each has, and the device that they are."""

    first: int
    count: int
    size: int
    device: str | None


class Template(Struct, frozen=True, eq=False):
    """A device: its nodes with those of the devices inside it, and its edges over them."""

    name: str
    size: int
    kinds: U8                       # [size] index into COMPONENTS
    slots: Mapping[str, Slot]
    source: I64                     # [edges] nodes of the template
    target: I64
    link: I64                       # [edges] number of the link


class DroppedEdge(msgspec.Struct, frozen=True, gc=False):
    """An edge of the file that was dropped, because an end of it names a component that the device does not have."""

    path: str
    device: str
    component: str


class LinkTable:
    """Numbers for links, by whose they are."""

    def __init__(self) -> None:
        self.rows: list[LinkName] = []
        self._number: dict[tuple[str, str], int] = {}

    def add(self, device: str, links: Sequence[Link] | UnsetType, path: str) -> None:
        for place, link in enumerate(() if isinstance(links, UnsetType) else links):
            if (device, link.name) in self._number:
                raise InputError(f"{path}links[{place}].name", f"{link.name!r} is there twice",
                                 expected="another name")
            self._number[device, link.name] = len(self.rows)
            physical = None if isinstance(link.physical, UnsetType) else link.physical
            self.rows.append(LinkName(device, link.name, physical))

    def number(self, device: str, name: str, path: str) -> int:
        found = self._number.get((device, name))
        if found is None:
            known = [link for owner, link in self._number if owner == device]
            raise InputError(path, f"there is no link {name!r}" + (f" in device {device}" if device else ""),
                             expected="one of " + ", ".join(known) if known else "a link of the links beside it",
                             did_you_mean=nearest(name, known))
        return found


class NoComponentError(Exception):
    """An endpoint names a component that its device does not have."""

    def __init__(self, path: str, device: Template, component: str):
        self.path, self.device, self.component = path, device, component

    def error(self, otherwise: str = "") -> InputError:
        """What is said of it. `otherwise`: what else is expected."""
        known = self.device.slots
        return InputError(self.path, f"device {self.device.name} has no component {self.component!r}",
                          expected="one of " + ", ".join(known) + otherwise,
                          did_you_mean=nearest(self.component, known))


class Dangling:
    """What becomes of edges with an end at no component: refused, or dropped and counted."""

    def __init__(self, *, drop: bool) -> None:
        self._drop = drop
        self.dropped: list[DroppedEdge] = []

    def add(self, path: str, missing: NoComponentError) -> None:
        """The edge at `path` has such an end. Raises InputError where it is not to be dropped."""
        if not self._drop:
            raise missing.error(", or `dangling: drop`, which drops such edges") from None
        self.dropped.append(DroppedEdge(path, missing.device.name, missing.component))


class Templates:
    """Templates of devices, made when first needed."""

    def __init__(self, devices: Sequence[Device], links: LinkTable, dangling: Dangling) -> None:
        self._links, self._dangling = links, dangling
        self._place: dict[str, int] = {}
        self.made: dict[str, Template] = {}
        self._devices = devices
        for place, device in enumerate(devices):
            if device.name in self._place:
                raise InputError(f"devices[{place}].name", f"{device.name!r} is there twice",
                                 expected="another name")
            self._place[device.name] = place
            links.add(device.name, device.links, f"devices[{place}].")

    def of(self, name: str, path: str, within: tuple[str, ...] = ()) -> Template:
        """The template of a device. `path`: who names it. Raises InputError."""
        if name in self.made:
            return self.made[name]
        if name not in self._place:
            raise InputError(path, f"there is no device {name!r}", expected="one of " + ", ".join(self._place),
                             did_you_mean=nearest(name, self._place))
        if name in within or len(within) >= DEEPEST:
            loop = " in ".join(reversed([*within, name]))
            raise InputError(path, f"device {name!r} contains itself ({loop})" if name in within else
                             f"devices are nested more than {DEEPEST} deep", expected="devices without a loop")
        place = self._place[name]
        self.made[name] = self._make(self._devices[place], f"devices[{place}]", (*within, name))
        return self.made[name]

    def _make(self, device: Device, path: str, within: tuple[str, ...]) -> Template:
        slots: dict[str, Slot] = {}
        kinds: list[U8] = []
        inner: list[tuple[int, int, Template]] = []
        size = 0
        for place, component in enumerate(() if isinstance(device.components, UnsetType) else device.components):
            at = f"{path}.components[{place}]"
            if component.name in slots:
                raise InputError(f"{at}.name", f"{component.name!r} is there twice", expected="another name")
            if parts_of(component.name) != ((component.name, None),):
                raise InputError(f"{at}.name", f"{component.name!r} is no name", expected="text without . [ ]")
            if component.count < 0:
                raise InputError(f"{at}.count", f"{component.count} is impossible", expected="a number, 0 or more")
            if len(component.kinds) != 1:
                raise InputError(f"{at}.choice", f"says {' and '.join(component.kinds) or 'nothing'}",
                                 expected="one of " + ", ".join(COMPONENTS))
            kind = component.kinds[0]
            sub = self.of(component.name, f"{at}.name", within) if kind == "device" else None
            each = 1 if sub is None else sub.size
            room(size + each * component.count, at)
            slots[component.name] = Slot(size, component.count, each, None if sub is None else sub.name)
            if sub is None:
                kinds.append(np.full(component.count, COMPONENTS.index(kind), np.uint8))
            else:
                kinds.append(np.tile(sub.kinds, component.count))
                inner.append((size, component.count, sub))
            size += each * component.count
        all_kinds = np.concatenate(kinds) if kinds else np.zeros(0, np.uint8)
        bare = Template(device.name, size, all_kinds, slots, *[np.zeros(0, np.int64)] * 3)
        own = self._edges(device, bare, path)
        parts = [repeated(sub, first, count) for first, count, sub in inner]
        return Template(device.name, size, all_kinds, slots,
                        *(np.concatenate([each[side] for each in [own, *parts]]) for side in range(3)))

    def _edges(self, device: Device, template: Template, path: str) -> tuple[I64, I64, I64]:
        pairs = Pairs()
        for place, edge in enumerate(() if isinstance(device.edges, UnsetType) else device.edges):
            at = f"{path}.edges[{place}]"
            number = self._links.number(device.name, edge.link, f"{at}.link")
            try:
                ends = [self._ends(template, end, f"{at}.{side}.component")
                        for side, end in (("ep1", edge.ep1), ("ep2", edge.ep2))]
            except NoComponentError as missing:
                self._dangling.add(at, missing)
            else:
                pairs.add(ends[0], ends[1], edge, number, at)
        return pairs.arrays()

    def _ends(self, template: Template, end: DeviceEndpoint, path: str) -> Sequence[int] | I64:
        text = end.component if isinstance(end.device, UnsetType) else f"{end.device}.{end.component}"
        return components_in(template, self.made, endpoint_parts(text, path), path)


def components_in(template: Template, known: Mapping[str, Template], parts: Sequence[Segment], path: str, *,
                  whole: bool = False) -> Sequence[int] | I64:
    """The nodes of a template that an endpoint means; `known`: the templates of devices inside it. `whole`: a device
    means all its nodes. Raises NoComponentError, and InputError for what is wrong in other ways."""
    found: Sequence[int] | I64 = range(1)
    for place, (name, brackets) in enumerate(parts):
        slot = template.slots.get(name)
        if slot is None:
            raise NoComponentError(path, template, name)
        numbers = indices(brackets, slot.count, name, path)
        if place == 0 and slot.size == 1:
            found = range(slot.first + numbers.start, slot.first + numbers.stop, numbers.step)
        else:
            found = (np.asarray(found, np.int64)[:, None] + slot.first
                     + np.asarray(numbers, np.int64) * slot.size).reshape(-1)
        last = place == len(parts) - 1
        if slot.device is not None:
            template = known[slot.device]
            if last and not whole:
                raise InputError(path, f"{name} is a device", expected=f"one of its components, such as "
                                 f"{name}[0].{next(iter(template.slots), '…')}")
            if last:
                found = (np.asarray(found, np.int64)[:, None] + np.arange(template.size)).reshape(-1)
        elif not last:
            raise InputError(path, f"{name} is no device", expected="no parts of it")
    return found


def room(nodes: int, path: str) -> None:
    if nodes > MOST_NODES:
        raise InputError(path, f"{nodes:,} nodes are too many", expected=f"at most {MOST_NODES:,}")


def endpoint_parts(text: str, path: str) -> tuple[Segment, ...]:
    found = parts_of(text)
    if found is None:
        raise InputError(path, f"{text[:80]!r} is no endpoint", expected=FORM)
    return found


def repeated(template: Template, first: int, count: int) -> tuple[I64, I64, I64]:
    """The edges of copies of a template whose nodes begin with `first`."""
    shift = first + np.arange(count, dtype=np.int64)[:, None] * template.size
    return ((template.source + shift).reshape(-1), (template.target + shift).reshape(-1),
            np.tile(template.link, count))


class Pairs:
    """Edges as they are written: single pairs as numbers, others as arrays."""

    def __init__(self) -> None:
        self._arrays: list[tuple[I64, I64, I64]] = []
        self._single: tuple[list[int], list[int], list[int]] = ([], [], [])
        self._total = 0

    def add(self, first: Sequence[int] | I64, second: Sequence[int] | I64, edge: Edge | DeviceEdge, link: int,
            path: str) -> None:
        scheme = edge.scheme
        if isinstance(scheme, UnsetType) or scheme == "ring":
            raise UnsupportedError(f"{path}.scheme", "is missing" if scheme != "ring" else "ring: the schema does not "
                                   "say which nodes it joins", expected="one2one or many2many")
        one, two = len(first), len(second)
        if one == two == 1:
            for column, value in zip(self._single, (int(first[0]), int(second[0]), link), strict=True):
                column.append(value)
            return
        self._flush()
        count = one * two if scheme == "many2many" else min(one, two)
        self._total += count
        if self._total > MOST_EDGES:
            raise InputError(path, f"{self._total:,} edges are too many", expected=f"at most {MOST_EDGES:,}")
        a, b = np.asarray(first, np.int64), np.asarray(second, np.int64)
        ends = (np.repeat(a, two), np.tile(b, one)) if scheme == "many2many" else (a[:count], b[:count])
        self._arrays.append((*ends, np.full(count, link, np.int64)))

    def _flush(self) -> None:
        if self._single[0]:
            a, b, c = (np.array(column, np.int64) for column in self._single)
            self._arrays.append((a, b, c))
            self._single = ([], [], [])

    def arrays(self) -> tuple[I64, I64, I64]:
        """Source, target and link of every edge as written."""
        self._flush()
        if not self._arrays:
            return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64)
        a, b, c = (np.concatenate([each[side] for each in self._arrays]) for side in range(3))
        return a, b, c


