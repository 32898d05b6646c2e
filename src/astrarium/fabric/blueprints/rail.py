"""DGX hosts on rails: the card of XPU i of every host goes to leaf switches of rail i.

Rail-optimised, with spine switches: NVIDIA DGX SuperPOD reference architectures (RA-11333-001 for H100). Rail-only,
without: Wang et al., arXiv 2307.12169; a message to another rail then crosses an NVSwitch, through an XPU of its host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import ceil
from typing import Annotated, Any, ClassVar

from astrarium.config import Knob, Problem
from astrarium.fabric.blueprints.hosts import HOSTS, XPUS, dgx_of, port_link, switch_of
from astrarium.fabric.config import Fabric
from astrarium.fabric.make import between, document, instance
from astrarium.fabric.schema import Document, Edge

__all__ = ["DgxA100Rail", "DgxA100RailOnly", "DgxH100Rail", "DgxH100RailOnly", "Rails"]

TIERS = {"nvlink": "scale_up", "rail": "scale_out", "spine": "scale_out"}


def _fits(rails: Rails) -> Iterable[Problem]:
    ports, groups = rails.switch_ports, ceil(rails.hosts / rails.down)
    if rails.spines and XPUS * groups > ports:
        yield Problem("hosts", f"{rails.hosts} need {XPUS * groups} leaf switches, each with a link to every spine of "
                      f"{ports} ports", f"at most {ports // XPUS * rails.down}")
    if not rails.spines and rails.hosts > ports:
        yield Problem("hosts", f"{rails.hosts} on one switch of {ports} ports per rail", f"at most {ports}")


class Rails(Fabric, frozen=True, kw_only=True):
    """Hosts, leaf switches per rail, spine switches.

    Links: `nvlink`, `pcie` (XPU to card), `rail` (card to leaf), `spine`; `inside` of switches is free. Bandwidths are
    published; latencies are not, but for NVLink of an H100 (fitted, see the catalog).
    """

    rules: ClassVar[tuple[Callable[[Any], Iterable[Problem]], ...]] = (_fits,)
    host: ClassVar[str] = ""
    spines: ClassVar[bool] = True
    free: ClassVar[tuple[str, ...]] = ("inside",)
    hosts: Annotated[int, Knob("Hosts of eight XPUs.", ge=1)]
    ports: Annotated[int | None, Knob("Ports of a switch; left out: those of the switch that NVIDIA builds it with.",
                                      ge=2, lt=2**16)] = None

    @property
    def switch_ports(self) -> int:
        """Ports of a switch."""
        return HOSTS[self.host].ports if self.ports is None else self.ports

    @property
    def down(self) -> int:
        """Ports of a leaf towards hosts."""
        return self.switch_ports // 2 if self.spines else self.switch_ports

    def document(self) -> Document:
        """The infrastructure."""
        ports, leaves = self.switch_ports, XPUS * ceil(self.hosts / self.down)
        up = ports - self.down
        switches = [instance("leaf", leaves, "switch")] + [instance("spine", up, "switch")] * self.spines
        edges = [*self._rails(), *self._climb(leaves, up)]
        return document(self.tag, [dgx_of(self.host), switch_of(ports)],
                        [port_link(self.host, "rail")] + [port_link(self.host, "spine")] * self.spines,
                        [instance("host", self.hosts, self.host), *switches], edges,
                        {name: tier for name, tier in TIERS.items() if name != "spine" or self.spines})

    def _rails(self) -> Iterator[Edge]:
        """Group g of hosts has the leaves 8 g to 8 g + 7."""
        for group, first in enumerate(range(0, self.hosts, self.down)):
            last = min(first + self.down, self.hosts)
            for rail in range(XPUS):
                yield between(f"host[{first}:{last}]", f"nic[{rail}]", f"leaf[{XPUS * group + rail}]",
                              f"port[0:{last - first}]", "rail")

    def _climb(self, leaves: int, up: int) -> Iterator[Edge]:
        for leaf in range(leaves if self.spines else 0):
            yield between(f"leaf[{leaf}]", f"port[{self.down}:{self.down + up}]", f"spine[0:{up}]", f"port[{leaf}]",
                          "spine")


class DgxH100Rail(Rails, frozen=True, kw_only=True):
    """DGX H100 hosts on eight rails, leaf and spine switches of 64 ports."""

    tag: ClassVar[str] = "dgx_h100_rail"
    host: ClassVar[str] = "dgx_h100"


class DgxA100Rail(Rails, frozen=True, kw_only=True):
    """DGX A100 hosts on eight rails, leaf and spine switches of 40 ports."""

    tag: ClassVar[str] = "dgx_a100_rail"
    host: ClassVar[str] = "dgx_a100"


class DgxH100RailOnly(Rails, frozen=True, kw_only=True):
    """DGX H100 hosts on eight rails that are joined only by the hosts."""

    tag: ClassVar[str] = "dgx_h100_rail_only"
    host: ClassVar[str] = "dgx_h100"
    spines: ClassVar[bool] = False


class DgxA100RailOnly(Rails, frozen=True, kw_only=True):
    """DGX A100 hosts on eight rails that are joined only by the hosts."""

    tag: ClassVar[str] = "dgx_a100_rail_only"
    host: ClassVar[str] = "dgx_a100"
    spines: ClassVar[bool] = False
