"""How many hosts, cards, switches and links dims imply.

Dims inside a host (`cost.inside`) belong to its price. The others join hosts, block by block:

- `switch`: a block of n NPUs is a separate fat tree with full bisection (a rail, where each NPU of a host is in
  another block). With switches of k ports it has the fewest tiers L with 2 (k/2)^L >= n (one tier: n <= k); every tier
  but the highest has ceil(2 n / k) switches, the highest ceil(n / k). n links join NPUs to switches, (L - 1) n join
  switches. Of blocks with n <= k, floor(k / n) share a switch. A link that needs several ports has as many planes.
- `ring`, `mesh`, `fully_connected`, `hypercube`: a cable per pair of neighbours.

A dim whose `link` has a price is joined by that technology, its trunks too: `links` of it per link of the dim.

Source of the tree: C. E. Leiserson, "Fat-trees", IEEE Trans. Computers C-34(10), 1985; M. Al-Fares et al., SIGCOMM
2008.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

from msgspec import Struct

from astrarium.catalog.market import Part, part
from astrarium.design import Design
from astrarium.errors import InputError, UnsupportedError
from astrarium.market import Cost
from astrarium.network.config import LinkDim, Ring

__all__ = ["Cables", "Counts", "Tree", "counts", "hosts_of", "named", "priced", "times", "tree"]

MOST_TIERS = 8


class Tree(Struct, frozen=True):
    """A fat tree: its tiers, its switches, the links between them."""

    tiers: int
    switches: int
    trunks: int


class Cables(Struct, frozen=True):
    """Cables of a tier (empty: of no named one): `links` end at a host, `trunks` join switches. `technology`: their row
    of links; empty: `cost.link` and `cost.trunk` say what they are."""

    tier: str
    links: int
    trunks: int
    technology: str = ""


class Counts(Struct, frozen=True):
    """Pieces that a design is built of. `npus`: those of whole hosts; `nics`: ports of cards."""

    hosts: int
    npus: int
    nics: int
    switches: int
    cables: tuple[Cables, ...]

    @property
    def links(self) -> int:
        """Cables that end at a host."""
        return sum(each.links for each in self.cables)

    @property
    def trunks(self) -> int:
        """Cables between switches."""
        return sum(each.trunks for each in self.cables)


def tree(ends: int, ports: int) -> Tree:
    """The fat tree of full bisection that joins `ends` by switches of `ports` ports. Raises InputError where no number
    of tiers does."""
    if ends <= ports:
        return Tree(1, 1, 0)
    half = ports // 2
    tiers = next((each for each in range(2, MOST_TIERS + 1) if 2 * half ** each >= ends), 0)
    if not tiers or half < 2:
        raise InputError("cost.switch", f"switches of {ports} ports cannot join {ends:,}",
                         expected="switches with more ports")
    lower = (tiers - 1) * math.ceil(ends / half)
    return Tree(tiers, lower + math.ceil(ends / (2 * half)), (tiers - 1) * ends)


_CABLES: Mapping[str, Callable[[LinkDim], int]] = MappingProxyType({
    "ring": lambda dim: dim.npus if dim.npus > 2 or not (isinstance(dim, Ring) and dim.one_way) else dim.npus - 1,
    "mesh": lambda dim: dim.npus - 1, "fully_connected": lambda dim: dim.npus * (dim.npus - 1) // 2,
    "hypercube": lambda dim: dim.npus * (dim.npus.bit_length() - 1) // 2})
"""Cables of a block of a dim without a switch."""


def hosts_of(design: Design) -> tuple[int, int]:
    """(hosts, NPUs of each). Raises InputError where the dims inside are not a host."""
    dims, cost = design.network.flat, design.cost
    if cost.inside > len(dims):
        raise InputError("cost.inside", f"{cost.inside} dims are inside a host, of {len(dims)}",
                         expected=f"0 to {len(dims)}")
    inner = math.prod(dim.npus for dim in dims[:cost.inside])
    host = None if cost.host is None else part(cost.host)
    size = host.npus if host is not None and host.npus else inner
    whole = inner == size or (inner == design.network.npus and inner < size)
    if cost.inside and not whole:
        raise InputError("cost.inside", f"the {cost.inside} dims inside a host hold {inner} NPUs, a {cost.host} {size}",
                         expected="dims whose NPUs make one host, or 0: every dim joins hosts")
    return math.ceil(design.network.npus / size), size


def counts(design: Design) -> Counts:
    """What dims are built of. Raises InputError for a missing part of the `cost` section, by its path, and where dims
    and parts do not fit; UnsupportedError for a shape that has no counting rule."""
    hosts, size = hosts_of(design)
    nics, switches, total = 0, 0, design.network.npus
    cables = {"": [0, 0]}
    for number, dim in enumerate(design.network.flat[design.cost.inside:], start=design.cost.inside):
        if dim.npus == 1:
            continue
        blocks = total // dim.npus
        boxes, links, trunks = _dim(design.cost, dim, blocks, f"network.dims[{number}]")
        nics, switches = nics + _cards(design.cost, dim, blocks), switches + boxes
        of = cables.setdefault(priced(dim), [0, 0])
        of[0], of[1] = of[0] + links, of[1] + trunks
    _enough_cards(design, nics, total)
    return Counts(hosts, hosts * size, nics, switches,
                  tuple([Cables("", links, trunks, name) for name, (links, trunks) in cables.items()]))


def priced(dim: LinkDim) -> str:
    """The technology of a dim's links, if it has a price; else empty."""
    return dim.technology.name if dim.technology is not None and dim.technology.price is not None else ""


def _dim(cost: Cost, dim: LinkDim, blocks: int, path: str) -> tuple[int, int, int]:
    """Switches, links and trunks of the blocks of a dim."""
    rate = math.inf if priced(dim) else named(cost, "link", path).rate or 0.0
    if dim.tag == "switch":
        switch = named(cost, "switch", path)
        planes = times(dim.link_bandwidth, min(switch.port or 0.0, rate))
        each = tree(dim.npus, switch.ports)
        shared = max(1, switch.ports // dim.npus)
        switches = math.ceil(blocks / shared) if each.tiers == 1 else blocks * each.switches
        wide = dim.links if priced(dim) else planes
        return planes * switches, wide * blocks * dim.npus, wide * blocks * each.trunks
    if dim.tag not in _CABLES:
        raise UnsupportedError(f"{path}.shape", f"there is no counting rule for {dim.tag}",
                               expected="switch, " + ", ".join(_CABLES))
    wide = dim.links if priced(dim) else times(dim.link_bandwidth, rate)
    return 0, wide * blocks * _CABLES[dim.tag](dim), 0


def _cards(cost: Cost, dim: LinkDim, blocks: int) -> int:
    """Ports of network cards that the NPUs of a dim need."""
    host = None if cost.host is None else part(cost.host)
    included = host is not None and "nic" in host.includes
    rate = (host.nic if included and host is not None else None if cost.nic is None else part(cost.nic).rate)
    return blocks * dim.npus * dim.links_per_npu * (1 if rate is None else times(dim.link_bandwidth, rate))


def named(cost: Cost, name: str, path: str) -> Part:
    """The part that the section names. Raises InputError with its path."""
    chosen = getattr(cost, name)
    if chosen is None:
        raise InputError(f"cost.{name}", f"is missing: {path} joins hosts",
                         expected=f"a {name} of the catalog (`astrarium list part`)")
    return part(chosen)


def times(bandwidth: float, rate: float) -> int:
    """Ports or cables of a rate that a link takes."""
    return max(1, math.ceil(bandwidth / rate * (1 - 1e-9)))


def _enough_cards(design: Design, needed: int, npus: int) -> None:
    """Refuses dims that need more than the card of each NPU that the price of a host includes."""
    host = None if design.cost.host is None else part(design.cost.host)
    if host is None or "nic" not in host.includes or host.nic is None:
        return
    rates = sum(float(dim.npu_bandwidth) for dim in design.network.flat[design.cost.inside:] if dim.npus > 1)
    if needed > npus or rates > host.nic * (1 + 1e-9):
        raise InputError("cost.host", f"{design.cost.host} has a card of {host.nic:g} GB/s for every NPU, the dims "
                         f"between hosts need {rates:g} GB/s", expected="a host whose price includes no cards, and "
                         "cost.nic")
