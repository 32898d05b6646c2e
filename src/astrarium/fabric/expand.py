"""An infrastructure as arrays of nodes and undirected edges.

Devices become templates, once each; instances repeat them. Edges between the same two nodes are one edge, an edge from
a node to itself is none: what the package of InfraGraph's schema does with its simple graph.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct, UnsetType

from astrarium.arrays import I32, I64, U8
from astrarium.errors import InputError, nearest
from astrarium.fabric.endpoints import indices, parts_of
from astrarium.fabric.schema import COMPONENTS, Edge, Infrastructure, Instance
from astrarium.fabric.templates import (
    MOST_EDGES,
    Dangling,
    DroppedEdge,
    LinkName,
    LinkTable,
    NoComponentError,
    Pairs,
    Template,
    Templates,
    components_in,
    endpoint_parts,
    repeated,
    room,
)

__all__ = ["PORT", "XPU", "Expanded", "Placed", "expand", "ports_with_one_cable"]


XPU = COMPONENTS.index("xpu")
PORT = COMPONENTS.index("port")


class Placed(Struct, frozen=True, eq=False):
    """The nodes of all copies of an instance: copy i has those from `first` + i * template.size on."""

    name: str
    count: int
    first: int
    template: Template


class Expanded(Struct, frozen=True, eq=False):
    """Nodes 0..nodes-1 in the order of the file, and undirected edges: those of devices first, then those between."""

    nodes: int
    kinds: U8                       # [nodes] index into COMPONENTS
    source: I64                     # [edges]
    target: I64
    link: I32                       # [edges] into `links`
    own: int                        # how many edges are inside devices
    links: tuple[LinkName, ...]
    placed: tuple[Placed, ...]
    templates: Mapping[str, Template]
    dropped: tuple[DroppedEdge, ...]

    def name(self, node: int) -> str:
        """`host.0.xpu.3`."""
        at = self.placed[bisect_right([each.first for each in self.placed], node) - 1]
        copy, inside = divmod(node - at.first, at.template.size)
        return f"{at.name}.{copy}.{self.inside(at.template, inside)}"

    def inside(self, template: Template, node: int) -> str:
        name, slot = next((name, slot) for name, slot in template.slots.items()
                          if slot.first <= node < slot.first + slot.count * slot.size)
        number, inside = divmod(node - slot.first, slot.size)
        rest = "" if slot.device is None else "." + self.inside(self.templates[slot.device], inside)
        return f"{name}.{number}{rest}"

    def names(self) -> list[str]:
        """The names of all nodes."""
        found: list[str] = []
        known: dict[str, list[str]] = {}
        for at in self.placed:
            inside = known.setdefault(at.template.name,
                                      [self.inside(at.template, node) for node in range(at.template.size)])
            found += [f"{at.name}.{copy}.{name}" for copy in range(at.count) for name in inside]
        return found

    def find(self, text: str, path: str) -> I64:
        """The nodes that `host.0.xpu.1`, `host.0`, `host[0]xpu[0:2]` or `host[0].xpu` mean: with a device, all in it.
        Raises InputError."""
        dotted = re.sub(r"\](?=[^.\[])", "].", re.sub(r"\.(\d+)(?=\.|$)", r"[\1]", text))
        (name, brackets), *rest = endpoint_parts(dotted, path)
        known = [each.name for each in self.placed]
        if name not in known:
            raise InputError(path, f"there is no {text[:80]!r}", expected="a node, such as "
                             + (f"{known[0]}.0" if known else "…"), did_you_mean=nearest(name, known))
        at = self.placed[known.index(name)]
        copies = np.asarray(indices(brackets, at.count, name, path), np.int64)
        try:
            inside = (components_in(at.template, self.templates, rest, path, whole=True) if rest
                      else range(at.template.size))
        except NoComponentError as missing:
            raise missing.error() from None
        return (at.first + copies[:, None] * at.template.size + np.asarray(inside, np.int64)).reshape(-1)


def expand(infrastructure: Infrastructure, *, drop_dangling: bool = False) -> Expanded:
    """All nodes and edges.

    `drop_dangling`: edges with an end at a component that the device does not have are dropped (`Expanded.dropped`), as
    the package of InfraGraph's schema does; else they are refused.

    Raises InputError, with its path in the file, for an unknown device, instance, component or
    link, a name that is there twice, a number out of range, a device that contains itself, two nodes joined over two
    links, a port with two cables."""
    links = LinkTable()
    devices = () if isinstance(infrastructure.devices, UnsetType) else infrastructure.devices
    dangling = Dangling(drop=drop_dangling)
    templates = Templates(devices, links, dangling)
    links.add("", infrastructure.links, "")
    placed = _placed(() if isinstance(infrastructure.instances, UnsetType) else infrastructure.instances, templates)
    nodes = placed[-1].first + placed[-1].count * placed[-1].template.size if placed else 0
    own = [repeated(at.template, at.first, at.count) for at in placed]
    between = _between(() if isinstance(infrastructure.edges, UnsetType) else infrastructure.edges, placed, templates,
                       links, dangling)
    if sum(each[0].size for each in own) > MOST_EDGES:
        raise InputError("instances", "have too many edges", expected=f"at most {MOST_EDGES:,}")
    kinds = np.concatenate([np.tile(at.template.kinds, at.count) for at in placed]) if placed else np.zeros(0, np.uint8)
    written = [np.concatenate([each[side] for each in own]) if own else np.zeros(0, np.int64) for side in range(3)]
    inside, outside = _one_each(written, nodes), _one_each(list(between), nodes)
    source, target, link = (np.concatenate([inside[side], outside[side]]) for side in range(3))
    found = Expanded(nodes, kinds, source, target, link.astype(np.int32), inside[0].size, tuple(links.rows), placed,
                     templates.made, tuple(dangling.dropped))
    for edges in (written, between):
        _over_one_link(found, *edges)
    return found


def ports_with_one_cable(fabric: Expanded) -> None:
    """Raise InputError where two edges between instances end at one port."""
    ends = np.concatenate([fabric.source[fabric.own:], fabric.target[fabric.own:]])
    ends = ends[fabric.kinds[ends] == PORT]
    node, count = np.unique(ends, return_counts=True)
    if (count > 1).any():
        twice = int(node[count > 1][0])
        raise InputError("edges", f"{fabric.name(twice)} has {int(count[node == twice][0])} cables",
                         expected="one cable of a port")


def _over_one_link(fabric: Expanded, source: I64, target: I64, link: I64) -> None:
    """Raise InputError where edges, as written, join two nodes over two links: no simple graph has both."""
    key = np.minimum(source, target) * fabric.nodes + np.maximum(source, target)
    order = np.lexsort((link, key))
    key, link = key[order], link[order]
    twice = np.flatnonzero((key[1:] == key[:-1]) & (link[1:] != link[:-1]) & (key[1:] % (fabric.nodes + 1) != 0))
    if twice.size:
        at = int(twice[0])
        one, two = (fabric.name(int(node)) for node in divmod(key[at], fabric.nodes))
        names = [fabric.links[int(number)] for number in link[at:at + 2]]
        where = f"devices.{names[0].device}.edges" if names[0].device else "edges"
        raise InputError(where, f"join {one} and {two} over two links, {names[0].name} and {names[1].name}",
                         expected="one link between two components, with the bandwidth of both")


def _placed(instances: Sequence[Instance], templates: Templates) -> tuple[Placed, ...]:
    found: list[Placed] = []
    first, known = 0, set()
    for place, instance in enumerate(instances):
        path = f"instances[{place}]"
        if instance.name in known:
            raise InputError(f"{path}.name", f"{instance.name!r} is there twice", expected="another name")
        if parts_of(instance.name) != ((instance.name, None),):
            raise InputError(f"{path}.name", f"{instance.name!r} is no name", expected="text without . [ ]")
        if instance.count < 0:
            raise InputError(f"{path}.count", f"{instance.count} is impossible", expected="a number, 0 or more")
        known.add(instance.name)
        template = templates.of(instance.device, f"{path}.device")
        room(first + instance.count * template.size, path)
        found.append(Placed(instance.name, instance.count, first, template))
        first += instance.count * template.size
    return tuple(found)


def _between(edges: Sequence[Edge], placed: Sequence[Placed], templates: Templates,
             links: LinkTable, dangling: Dangling) -> tuple[I64, I64, I64]:
    """The edges between instances, as written."""
    by_name, pairs = {at.name: at for at in placed}, Pairs()
    cache: dict[tuple[str, str], Sequence[int] | I64] = {}

    def nodes(instance: str, component: str, path: str) -> Sequence[int] | I64:
        name, brackets = endpoint_parts(instance, f"{path}.instance")[0]
        at = by_name.get(name)
        if at is None:
            raise InputError(f"{path}.instance", f"there is no instance {name!r}",
                             expected="one of " + ", ".join(by_name), did_you_mean=nearest(name, by_name))
        copies = indices(brackets, at.count, name, f"{path}.instance")
        key = (at.template.name, component)
        inside = cache.get(key)
        if inside is None:
            where = f"{path}.component"
            inside = cache[key] = components_in(at.template, templates.made, endpoint_parts(component, where), where)
        if len(copies) == 1:
            shift = at.first + copies[0] * at.template.size
            return [shift + int(inside[0])] if len(inside) == 1 else np.asarray(inside, np.int64) + shift
        return (at.first + np.asarray(copies, np.int64)[:, None] * at.template.size
                + np.asarray(inside, np.int64)).reshape(-1)
    for place, edge in enumerate(edges):
        path = f"edges[{place}]"
        number = links.number("", edge.link, f"{path}.link")
        try:
            one, two = (nodes(end.instance, end.component, f"{path}.{side}")
                        for side, end in (("ep1", edge.ep1), ("ep2", edge.ep2)))
        except NoComponentError as missing:
            dangling.add(path, missing)
        else:
            pairs.add(one, two, edge, number, path)
    return pairs.arrays()


def _one_each(columns: Sequence[I64], nodes: int) -> tuple[I64, I64, I64]:
    """Each pair of nodes once, in the order of its first edge, with the link of its last; no loops at a node."""
    source, target, link = columns
    kept = source != target
    source, target, link = source[kept], target[kept], link[kept]
    key = np.minimum(source, target) * nodes + np.maximum(source, target)
    order = np.argsort(key, kind="stable")
    ordered = key[order]
    heads = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if ordered.size else np.zeros(0, np.int64)
    tails = np.r_[heads[1:], ordered.size] - 1 if heads.size else heads
    first, last = order[heads], order[tails]
    again = np.argsort(first, kind="stable")
    return source[first[again]], target[first[again]], link[last[again]]


