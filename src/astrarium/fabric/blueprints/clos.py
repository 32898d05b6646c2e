"""Clos networks (folded; fat trees are those without oversubscription) of two or three tiers of equal switches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import ceil
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Struct

from astrarium.config import Knob, Problem
from astrarium.fabric.blueprints.hosts import host_of, switch_of
from astrarium.fabric.config import Fabric
from astrarium.fabric.make import between, document, instance, link
from astrarium.fabric.schema import Document, Edge

__all__ = ["Clos", "Sizes", "climb", "sizes_of"]

TIERS = {"scale_up": "scale_up", "access": "scale_out", "spine": "scale_out", "core": "scale_out"}
Ports = Annotated[int, Knob("Ports of a switch.", ge=2, lt=2**16)]
Oversubscription = Annotated[int, Knob("Ports towards hosts per port upwards, of a leaf switch.", ge=1)]


class Sizes(Struct, frozen=True):
    """Switches of a Clos network: `down` and `up` ports of a leaf, leaves, spines (per pod, with three tiers), pods,
    core switches."""

    down: int
    up: int
    leaves: int
    pods: int = 1
    pod: int = 0            # leaves of a pod; 0: two tiers
    cores: int = 0


def sizes_of(ends: int, ports: int, oversubscription: int, tiers: int) -> Sizes | str:
    """How many switches join `ends` ports of hosts, or why they cannot.

    A leaf has `up` = ports / (1 + oversubscription), rounded down, links upwards, one to each spine switch (of its
    pod), and `oversubscription` times as many down. With three tiers half of a spine's ports go to the leaves of its
    pod, half to core switches, of which each has one link to every pod (Al-Fares et al., SIGCOMM 2008).
    """
    up = ports // (1 + oversubscription)
    if not up:
        return f"{ports} ports have none upwards with an oversubscription of {oversubscription}"
    down = up * oversubscription
    leaves = ceil(ends / down)
    if tiers == 2:
        return Sizes(down, up, leaves) if leaves <= ports else \
            f"{leaves} leaves of {down} hosts' ports each need as many ports of a spine, which has {ports}"
    half = ports // 2
    pods = ceil(leaves / half)
    return Sizes(down, up, pods * half, pods, half, up * half) if pods <= ports else \
        f"{pods} pods of {half} leaves need as many ports of a core switch, which has {ports}"


def climb(sizes: Sizes) -> Iterator[Edge]:
    """The edges above the leaves, one per leaf and per spine of a pod where slices can say it."""
    if not sizes.pod:
        for leaf in range(sizes.leaves):
            yield between(f"leaf[{leaf}]", f"port[{sizes.down}:{sizes.down + sizes.up}]", f"spine[0:{sizes.up}]",
                          f"port[{leaf}]", "spine")
        return
    for leaf in range(sizes.leaves):
        pod, place = divmod(leaf, sizes.pod)
        yield between(f"leaf[{leaf}]", f"port[{sizes.down}:{sizes.down + sizes.up}]",
                      f"spine[{pod * sizes.up}:{(pod + 1) * sizes.up}]", f"port[{place}]", "spine")
    for spine in range(sizes.pods * sizes.up):
        pod, place = divmod(spine, sizes.up)
        yield between(f"spine[{spine}]", f"port[{sizes.pod}:{2 * sizes.pod}]",
                      f"core[{place * sizes.pod}:{(place + 1) * sizes.pod}]", f"port[{pod}]", "core")


def _fits(clos: Clos) -> Iterable[Problem]:
    found = sizes_of(clos.hosts * clos.xpus, clos.ports, clos.oversubscription, clos.tiers)
    if isinstance(found, str):
        more = ", or tiers: 3" if clos.tiers == 2 else ""
        yield Problem("hosts", f"{clos.hosts} are too many: {found}", f"fewer hosts, or more ports{more}")


class Clos(Fabric, frozen=True, kw_only=True):
    """Hosts of some XPUs with a port each, leaf and spine switches, core switches with three tiers.

    Links: `scale_up` (XPU to the switch inside its host, where hosts have several), `access` (XPU to leaf), `spine`,
    `core`. They have no numbers of their own.
    """

    rules: ClassVar[tuple[Callable[[Any], Iterable[Problem]], ...]] = (_fits,)
    tag: ClassVar[str] = "clos"
    free: ClassVar[tuple[str, ...]] = ("inside",)
    hosts: Annotated[int, Knob("Hosts.", ge=1)]
    xpus: Annotated[int, Knob("XPUs of a host, with one port each.", ge=1)] = 1
    ports: Ports
    oversubscription: Oversubscription = 1
    tiers: Annotated[Literal[2, 3], Knob("Tiers of switches.")] = 2

    def document(self) -> Document:
        """The infrastructure."""
        sizes = sizes_of(self.hosts * self.xpus, self.ports, self.oversubscription, self.tiers)
        assert isinstance(sizes, Sizes)
        names = ["access", "spine"] + ["core"] * bool(sizes.pod)
        counts = [("leaf", sizes.leaves), ("spine", sizes.pods * sizes.up)] + [("core", sizes.cores)] * bool(sizes.pod)
        tiers = {name: TIERS[name] for name in names + ["scale_up"] * (self.xpus > 1)}
        return document(
            self.tag, [host_of("host", self.xpus), switch_of(self.ports)], [link(name) for name in names],
            [instance("host", self.hosts), *(instance(name, count, "switch") for name, count in counts)],
            [*_access(self.hosts * self.xpus, self.xpus, sizes), *climb(sizes)], tiers)


def _access(ends: int, xpus: int, sizes: Sizes) -> Iterator[Edge]:
    """XPU after XPU to leaf after leaf; an edge per host and leaf."""
    first = 0
    while first < ends:
        leaf, port = divmod(first, sizes.down)
        host, xpu = divmod(first, xpus)
        count = min(xpus - xpu, sizes.down - port)
        yield between(f"host[{host}]", f"xpu[{xpu}:{xpu + count}]", f"leaf[{leaf}]", f"port[{port}:{port + count}]",
                      "access")
        first += count


