"""A fabric section as a graph: read, expanded, numbered, contracted, recognised. Cached by content."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct, UnsetType
from msgspec.structs import replace

from astrarium.arrays import I64
from astrarium.engine.plan import Dim, Graph, Shape
from astrarium.errors import InputError, nearest
from astrarium.fabric.config import TIERS, Fabric
from astrarium.fabric.contract import Wired, relevant, wired, without_links
from astrarium.fabric.expand import XPU, Expanded, expand, ports_with_one_cable
from astrarium.fabric.numbers import Said, Wires, wires_of
from astrarium.fabric.planes import striped
from astrarium.fabric.recognise import recognised
from astrarium.fabric.schema import Document
from astrarium.fabric.templates import DroppedEdge
from astrarium.fabric.ways import costed

__all__ = ["Built", "Laid", "Which", "build", "dropped_notes", "fabric_notes", "laid_of", "laid_out", "logical"]

PATH = "network.fabric"
MOST_SHOWN = 20     # paths of a note


class Laid(Struct, frozen=True, eq=False):
    """A fabric without numbers: nodes, edges, which nodes are NPUs (in order), which edges lie on ways between them."""

    expanded: Expanded
    npus: I64
    on_ways: npt.NDArray[np.bool_]
    tiers: dict[str, str]           # by link name, of the file


class Which(msgspec.Struct, frozen=True, gc=False):
    """Links: those between two ends, those of a device, or those of a tier."""

    ends: tuple[str | int, str | int] | None = None
    device: str = ""
    tier: str = ""


class Built(Struct, frozen=True, eq=False):
    """A fabric as the engine takes it. `dims`: those that it is, as a whole; None where it is none. `planes`: names of
    devices that are one in the graph."""

    laid: Laid
    wires: Wires
    wired: Wired
    dims: tuple[Dim, ...] | None
    planes: tuple[tuple[str, ...], ...] = ()

    @property
    def graph(self) -> Graph:
        return self.wired.graph

    @property
    def npus(self) -> int:
        return self.wired.npus

    def name(self, node: int) -> str:
        """The file's name of a node of the graph; of those that became one, the first."""
        return self.laid.expanded.name(int(self.wired.first[node]))

    def tier(self, link: int) -> str:
        """The tier of a link of the graph; empty if unknown."""
        return self.wires.tier[int(self.wired.link_of[link])]

    def nodes(self, end: str | int, path: str) -> I64:
        """The nodes of the graph that an end of a link means: the number of an NPU, or names of the file."""
        if isinstance(end, int):
            if not 0 <= end < self.npus:
                raise InputError(path, f"there is no NPU {end}", expected=f"0 to {self.npus - 1}")
            return np.array([end])
        found = np.unique(self.wired.node_of[self.laid.expanded.find(end, path)])
        return found[found >= 0].astype(np.int64)

    def links(self, which: Which, path: str) -> I64:
        """The links of the graph that a choice means, both ways. Raises InputError where there is none."""
        if which.ends is not None:
            return self.between(which.ends, f"{path}.link")
        if which.device:
            return self.leaving(which.device, f"{path}.nic")
        names = [number for number, tier in enumerate(self.wires.tier) if tier == which.tier]
        found = np.flatnonzero(np.isin(self.wired.link_of, names))
        if not found.size:
            known = sorted({self.wires.tier[number] for number in np.unique(self.wired.link_of)} - {""})
            raise InputError(f"{path}.tier", f"no link is of tier {which.tier}", expected="one of " + ", ".join(known)
                             if known else "tiers of links (network.fabric.links)")
        return found

    def leaving(self, device: str, path: str) -> I64:
        """The links of the graph between a device, or several, and others, both ways. Raises InputError where there is
        none, and where the graph does not tell them from links of other devices."""
        inside = self.laid.expanded.find(device, path)
        names = {self.laid.expanded.name(int(node)) for node in inside} if self.planes else set()
        striped = next((plane for plane in self.planes if names & set(plane) and set(plane) - names), None)
        if striped is not None:
            raise InputError(path, f"{device} counts as one with {', '.join(striped[:4])}", expected="all of them, or "
                             "network.fabric.planes: apart")
        source, target = (np.isin(ends, inside) for ends in (self.laid.expanded.source, self.laid.expanded.target))
        out = self.laid.on_ways & (source != target)
        ends = self.wired.node_of[np.stack([self.laid.expanded.source[out], self.laid.expanded.target[out]])]
        ends = np.sort(ends[:, (ends >= 0).all(axis=0) & (ends[0] != ends[1])], axis=0)
        wanted, count = np.unique(_pair(self.graph, *ends), return_counts=True)
        key = _pair(self.graph, *np.sort(np.stack([self.graph.source, self.graph.target]), axis=0))
        found = np.flatnonzero(np.isin(key, wanted))
        if not found.size:
            raise InputError(path, f"{device} has no links on a way between NPUs", expected="a NIC, a switch, ...")
        have = np.bincount(np.searchsorted(wanted, key[found]), minlength=wanted.size) // 2
        if (have > count).any() and not self.planes:
            node = divmod(int(wanted[have > count][0]), self.graph.nodes)
            raise InputError(path, f"{device} has one of several links between {self.name(node[0])} and "
                             f"{self.name(node[1])}, which count as its ends", expected="a device that has all of "
                             "them, or numbers for the links inside, which are free")
        return found

    def between(self, ends: tuple[str | int, str | int], path: str) -> I64:
        """The links of the graph between two ends, both ways. Raises InputError where there is none."""
        one, two = (self.nodes(end, f"{path}[{side}]") for side, end in enumerate(ends))
        source, target = self.graph.source, self.graph.target
        found = np.flatnonzero((np.isin(source, one) & np.isin(target, two)) |
                               (np.isin(source, two) & np.isin(target, one)))
        if not found.size:
            near = np.unique(target[np.isin(source, one)])[:6]
            raise InputError(path, f"there is no link between {ends[0]} and {ends[1]}",
                             expected=f"a neighbour of {ends[0]}: " + ", ".join(self.name(int(n)) for n in near)
                             if near.size else "two ends of a link that lies on a way between NPUs")
        return found


def _pair(graph: Graph, one: I64, two: I64) -> I64:
    """A number of its own for each pair of nodes."""
    return one.astype(np.int64) * graph.nodes + two


def laid_out(fabric: Fabric) -> Laid:
    """Nodes and edges of a fabric, whatever its links are. Raises InputError for a bad one: see `expand`; XPUs that no
    way joins, a port with two cables, ranks that are no numbering."""
    return _laid_out(fabric, fabric.stamp)


@lru_cache(maxsize=8)
def _laid_out(fabric: Fabric, stamp: tuple[object, ...]) -> Laid:
    del stamp
    document = fabric.document()
    try:
        return laid_of(document, drop_dangling=fabric.dangling == "drop")
    except InputError as error:
        raise type(error)(f"{fabric.title}: {error.path}", error.message, expected=error.expected,
                          did_you_mean=error.did_you_mean) from None


def laid_of(document: Document, *, drop_dangling: bool = False) -> Laid:
    """Nodes and edges of a document; `drop_dangling` as in `expand`. Raises InputError as `laid_out`, with paths in the
    document."""
    found = expand(document.infrastructure, drop_dangling=drop_dangling)
    ports_with_one_cable(found)
    npus = _ranked(found, document)
    return Laid(found, npus, relevant(found, npus), _tiers(document))


def fabric_notes(fabric: Fabric) -> tuple[str, ...]:
    """What reading a fabric dropped (`dangling: drop`): a sentence for each component that is not there. Raises
    InputError as `laid_out`."""
    return dropped_notes(laid_out(fabric).expanded.dropped) if fabric.dangling == "drop" else ()


def dropped_notes(dropped: Sequence[DroppedEdge]) -> tuple[str, ...]:
    """For each device and component that it does not have: how many edges name it, and the paths of the first ones."""
    paths: dict[tuple[str, str], list[str]] = {}
    for edge in dropped:
        paths.setdefault((edge.device, edge.component), []).append(edge.path)
    notes = []
    for (device, component), every in paths.items():
        more = f" and {len(every) - MOST_SHOWN:,} more" if len(every) > MOST_SHOWN else ""
        notes.append(f"dropped {len(every):,} edge{'s' if len(every) > 1 else ''}, as device {device} has no component "
                     f"{component!r}: {', '.join(every[:MOST_SHOWN])}{more}")
    return tuple(notes)


def build(fabric: Fabric, hint: tuple[Dim, ...] = (), dead: tuple[Which, ...] = ()) -> Built:
    """The graph of a fabric. `hint`: dims that it may be. `dead`: links that are not there. Raises InputError for a bad
    one (`laid_out`), and for numbers that are missing, by their path in the design."""
    return _built(fabric, fabric.stamp, hint, dead)


@lru_cache(maxsize=8)
def _built(fabric: Fabric, stamp: tuple[object, ...], hint: tuple[Dim, ...],
           dead: tuple[Which, ...]) -> Built:
    laid = _laid_out(fabric, stamp)
    expanded = laid.expanded
    used = np.zeros(len(expanded.links), np.bool_)
    used[expanded.link[laid.on_ways]] = True
    free = {name: Said(free=True) for name in fabric.free}
    wires = wires_of(expanded.links, used, {**free, **fabric.said},
                     inside_free=fabric.inside == "free", tiers=laid.tiers, file=fabric.title, path=PATH)
    found = Built(laid, wires, wired(expanded, laid.on_ways, wires, laid.npus, PATH), None)
    if dead:
        gone = np.zeros(found.graph.source.size, np.bool_)
        for which in dead:
            gone[found.links(which, "network.changes")] = True
        found = Built(laid, wires, without_links(found.wired, gone, found.name), None)
    whole, planes = (found.wired, ()) if fabric.planes == "apart" else striped(
        found.wired, found.name, _in_hosts(found), [int(node) for name in fabric.in_switch
                                                    for node in found.nodes(name, f"{PATH}.in_switch.{name}")])
    dims = recognised(whole.graph, whole.npus, hint)
    whole = replace(whole, graph=costed(whole.graph, whole.npus, *_leaving(found, whole)))
    return Built(laid, wires, whole, dims, tuple([tuple(map(found.name, nodes)) for nodes in planes]))


def _in_hosts(built: Built) -> npt.NDArray[np.bool_]:
    """[nodes of the graph] whether each is of a device with XPUs."""
    placed = built.laid.expanded.placed
    with_xpus = np.array([bool((each.template.kinds == XPU).any()) for each in placed])
    return with_xpus[np.searchsorted([each.first for each in placed], built.wired.first, side="right") - 1]


def _leaving(built: Built, whole: Wired) -> tuple[npt.NDArray[np.bool_], int]:
    """([links] whether each begins in a device of several XPUs and ends outside, but for links of tier scale_up; the
    most nodes of such a device)."""
    placed = built.laid.expanded.placed
    device = np.searchsorted([each.first for each in placed], whole.first, side="right") - 1
    host = np.array([np.count_nonzero(each.template.kinds == XPU) > 1 for each in placed])[device]
    source, target = whole.graph.source, whole.graph.target
    scale_up = np.array([tier == "scale_up" for tier in built.wires.tier], np.bool_)[whole.link_of]
    span = int(np.bincount(device[host]).max()) if host.any() else 0
    return host[source] & (device[source] != device[target]) & ~scale_up, span


def _ranked(found: Expanded, document: Document) -> I64:
    """The XPUs in their order: that of the file, or that of annotations `rank` on all of them."""
    xpus = np.flatnonzero(found.kinds == XPU)
    if not xpus.size:
        raise InputError("instances", "have no xpu", expected="at least one component of choice xpu")
    ranks: dict[int, int] = {}
    notes = document.annotations
    nodes = () if isinstance(notes, UnsetType) or isinstance(notes.nodes, UnsetType) else notes.nodes
    for place, note in enumerate(nodes):
        said = () if isinstance(note.attributes, UnsetType) else note.attributes
        rank = next((each.value for each in said if each.attribute == "rank"), None)
        if rank is not None:
            path = f"annotations.nodes[{place}]"
            at = found.find(note.name, f"{path}.name")
            if at.size != 1 or found.kinds[at[0]] != XPU or not rank.isascii() or not rank.isdigit():
                raise InputError(path, f"rank {rank[:20]!r} of {note.name[:60]!r}", expected="a number of one xpu")
            ranks[int(at[0])] = int(rank)
    if not ranks:
        return xpus
    if sorted(ranks.values()) != list(range(xpus.size)):
        raise InputError("annotations.nodes", f"the ranks of {len(ranks)} nodes are no numbering",
                         expected=f"0 to {xpus.size - 1}, each once")
    return np.array(sorted(ranks, key=lambda node: ranks[node]), np.int64)


def _tiers(document: Document) -> dict[str, str]:
    """Tiers that annotations give to links."""
    notes, found = document.annotations, {}
    for place, note in enumerate(() if isinstance(notes, UnsetType) or isinstance(notes.links, UnsetType)
                                 else notes.links):
        for each in () if isinstance(note.attributes, UnsetType) else note.attributes:
            if each.attribute == "tier":
                if each.value.replace("-", "_") not in TIERS:
                    raise InputError(f"annotations.links[{place}]", f"{each.value[:60]!r} is no tier",
                                     expected="one of " + ", ".join(TIERS), did_you_mean=nearest(each.value, TIERS))
                found[note.name] = each.value.replace("-", "_")
    return found


def logical(built: Built) -> tuple[Dim, ...]:
    """The dims on which collectives are laid out: those that the fabric is; else one switch dim of all NPUs, with the
    smallest bandwidth into or out of an NPU, and half of the longest way's latency from NPU 0 (runs never use them)."""
    if built.dims is not None:
        return built.dims
    graph, npus = built.graph, built.npus
    rates = [np.bincount(end, weights=graph.bandwidth, minlength=graph.nodes)[:npus].min()
             for end in (graph.source, graph.target)]
    return (Dim(Shape.SWITCH, npus, float(min(rates)), _longest(graph, npus) / 2),)


def _longest(graph: Graph, npus: int) -> float:
    """Latency (ns) of the longest of the shortest ways from NPU 0: fewest links first, then least latency."""
    order = np.argsort(graph.source, kind="stable")
    begin = np.searchsorted(graph.source[order], np.arange(graph.nodes + 1))
    seen, time = np.zeros(graph.nodes, np.bool_), np.full(graph.nodes, np.inf)
    seen[0], time[0] = True, 0.0
    here = np.zeros(1, np.int64)
    while here.size:
        count = begin[here + 1] - begin[here]
        first = np.repeat(begin[here] - np.cumsum(count) + count, count)
        links = order[first + np.arange(first.size)]
        links = links[~seen[graph.target[links]]]
        np.minimum.at(time, graph.target[links], time[graph.source[links]] + graph.latency[links])
        here = np.sort(graph.target[links])
        here = here[np.r_[True, here[1:] != here[:-1]]] if here.size else here
        seen[here] = True
    return float(time[:npus].max())
