"""What a design is built of: hosts, cards, switches, cables. Dims imply it (`of_dims`), a fabric shows it.

In a fabric a copy of a device with XPUs is a host; one without is a switch. Edges between copies are cables: `links`
where an end is a host, `trunks` between switches. What lies on no way between XPUs is not counted: networks for
management and storage.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from astrarium.arrays import F64, I64
from astrarium.catalog.market import part
from astrarium.cost import of_dims
from astrarium.cost.of_dims import Cables, Counts, named, times
from astrarium.design import Design
from astrarium.errors import InputError
from astrarium.fabric.built import Built
from astrarium.fabric.expand import XPU
from astrarium.network.planned import built_of

__all__ = ["Counts", "counts", "hosts_of", "needed"]


def counts(design: Design) -> Counts:
    """What a design is built of. Raises InputError for a missing part of the `cost` section, by its path, and where
    network and parts do not fit; UnsupportedError for a shape that has no counting rule."""
    if design.network.fabric is None:
        return of_dims.counts(design)
    return _of_fabric(design, _Copies(built_of(design.network)))


def hosts_of(design: Design) -> tuple[int, int]:
    """(hosts, NPUs of each). Raises InputError where they are no hosts of one size, or not of the part's."""
    if design.network.fabric is None:
        return of_dims.hosts_of(design)
    return _hosts(design, _Copies(built_of(design.network)))


def needed(design: Design) -> Iterator[str]:
    """Kinds of parts that join a design's hosts: `link`, `switch`."""
    if design.network.fabric is None:
        outer = [dim for dim in design.network.flat[design.cost.inside:] if dim.npus > 1]
        cables, switches = not all(map(of_dims.priced, outer)), any(dim.tag == "switch" for dim in outer)
    else:
        copies = _Copies(built_of(design.network))
        cables, switches = bool(copies.link.size), bool(copies.switches.size)
    yield from ["switch"] * switches + ["link"] * cables


class _Copies:
    """Copies of devices, numbered in the order of the file, and the cables between them.

    `xpus` [copies] in each; `one`, `two` [edges between copies] the copies at the ends, `link` the number of its link's
    name; `switches`: copies without XPUs at which a cable ends.
    """

    def __init__(self, built: Built) -> None:
        laid = built.laid
        fabric, placed = laid.expanded, laid.expanded.placed
        sizes = np.repeat([at.template.size for at in placed], [at.count for at in placed])
        self.built, self.first = built, np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        edge = np.flatnonzero(laid.on_ways[fabric.own:]) + fabric.own
        self.one, self.two = self._of(fabric.source[edge]), self._of(fabric.target[edge])
        self.link = fabric.link[edge]
        self.xpus = np.bincount(self._of(np.flatnonzero(fabric.kinds == XPU)), minlength=sizes.size)
        ends = np.flatnonzero(np.bincount(np.concatenate([self.one, self.two]), minlength=sizes.size))
        self.switches = ends[self.xpus[ends] == 0]

    def _of(self, nodes: I64) -> I64:
        return np.searchsorted(self.first, nodes, side="right") - 1

    def total(self, weights: F64 | I64) -> F64:
        """[copies] the sum of the weights of the cables that end at each."""
        found = np.zeros(self.xpus.size)
        for end in (self.one, self.two):
            np.add.at(found, end, weights)
        return found

    def name(self, copy: int) -> str:
        """`leaf.3`."""
        return ".".join(self.built.laid.expanded.name(int(self.first[copy])).split(".")[:2])


def _of_fabric(design: Design, copies: _Copies) -> Counts:
    hosts, size = _hosts(design, copies)
    wide = _cables(design, copies)
    host_ends = (copies.xpus[copies.one] > 0).astype(np.int64) + (copies.xpus[copies.two] > 0)
    _enough_ports(design, copies, wide)
    tiers = np.array([copies.built.wires.tier[number] or "" for number in copies.link], dtype=np.str_)
    cables = tuple(Cables(tier, int(wide[(tiers == tier) & (host_ends > 0)].sum()),
                          int(wide[(tiers == tier) & (host_ends == 0)].sum())) for tier in sorted(set(tiers.tolist())))
    return Counts(hosts, hosts * size, _cards(design, copies, host_ends), copies.switches.size, cables)


def _hosts(design: Design, copies: _Copies) -> tuple[int, int]:
    found = np.flatnonzero(copies.xpus)
    first = int(found[0])
    odd = found[copies.xpus[found] != copies.xpus[first]]
    if odd.size:
        raise InputError("network.fabric", f"{copies.name(first)} has {copies.xpus[first]} XPUs, "
                         f"{copies.name(int(odd[0]))} {copies.xpus[odd[0]]}, and hosts of one kind are bought",
                         expected="devices of as many XPUs each")
    size, host = int(copies.xpus[first]), None if design.cost.host is None else part(design.cost.host)
    if host is not None and host.npus and host.npus != size:
        raise InputError("cost.host", f"{design.cost.host} has {host.npus} NPUs, a host of the fabric {size}",
                         expected=f"a host of {size}")
    return found.size, size


def _rates(copies: _Copies) -> F64:
    """[cables] byte/ns of one direction. Raises InputError for a cable that is `free`."""
    rates = copies.built.wires.bandwidth[copies.link]
    if not np.isfinite(rates).all():
        free = copies.built.laid.expanded.links[int(copies.link[~np.isfinite(rates)][0])].path
        raise InputError(f"network.fabric.links.{free}", "joins devices and is free, so the number of its cables is "
                         "unknown", expected="its bandwidth")
    return rates


def _cables(design: Design, copies: _Copies) -> I64:
    """[edges between copies] cables of each: as many as its bandwidth needs, of a cable's and of a switch's port."""
    rates, found = _rates(copies), np.zeros(copies.link.size, np.int64)
    at_switch = (copies.xpus[copies.one] == 0) | (copies.xpus[copies.two] == 0)
    for rate, beside in {(float(rate), bool(beside)) for rate, beside in zip(rates, at_switch, strict=True)}:
        most = named(design.cost, "link", "network.fabric").rate or 0.0
        if beside:
            most = min(most, named(design.cost, "switch", "network.fabric").port or 0.0)
        found[(rates == rate) & (at_switch == beside)] = times(rate, most)
    return found


def _enough_ports(design: Design, copies: _Copies, wide: I64) -> None:
    """Refuses a switch with more cables than the ports of its part."""
    if not copies.switches.size:
        return
    used = copies.total(wide)
    ports = named(design.cost, "switch", "network.fabric").ports
    fullest = int(copies.switches[np.argmax(used[copies.switches])])
    if used[fullest] > ports:
        raise InputError("cost.switch", f"{copies.name(fullest)} has {int(used[fullest])} cables, a "
                         f"{design.cost.switch} {ports} ports",
                         expected="a switch with more ports, or a fabric of smaller ones")


def _cards(design: Design, copies: _Copies, host_ends: I64) -> int:
    """Ports of network cards at the hosts' ends of cables. Refuses cables that carry more than the cards that a host's
    price includes."""
    host = None if design.cost.host is None else part(design.cost.host)
    rates = _rates(copies)
    included = host is not None and "nic" in host.includes
    if host is not None and included and host.nic is not None:
        own = copies.total(rates)
        hosts = np.flatnonzero(copies.xpus)
        busiest = int(hosts[np.argmax(own[hosts])])
        if own[busiest] > host.nic * copies.xpus[busiest] * (1 + 1e-9):
            raise InputError("cost.host", f"{design.cost.host} has a card of {host.nic:g} GB/s for every NPU, the "
                             f"cables of {copies.name(busiest)} carry {own[busiest]:g} GB/s",
                             expected="a host whose price includes no cards, and cost.nic")
        return int(host_ends.sum())
    rate = None if design.cost.nic is None else part(design.cost.nic).rate
    each = [1 if rate is None else times(float(speed), rate) for speed in rates]
    return int((host_ends * np.array(each, np.int64)).sum())
