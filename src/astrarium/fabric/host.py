"""A host that a file describes, part by part, as a device of the schema; PCIe rates."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from astrarium.fabric.make import component, device, document, inside, instance, link
from astrarium.fabric.schema import Annotation, Annotations, Attribute, Document, Link

__all__ = ["PCIE", "Host", "Instance", "pcie_rate"]

Instance = tuple[str, int]      # component, number

KINDS: Mapping[str, str] = MappingProxyType({"gpu": "xpu", "nic": "nic", "cpu": "cpu", "memory": "memory",
                                             "pci_switch": "switch", "nvswitch": "switch"})
PCIE: Mapping[float, tuple[int, float]] = MappingProxyType({
    2.5: (1, 0.8), 5.0: (2, 0.8), 8.0: (3, 128 / 130), 16.0: (4, 128 / 130), 32.0: (5, 128 / 130), 64.0: (6, 1.0)})
"""GT/s of a lane -> (generation, share of bits that are data: 8b/10b, 128b/130b, 1b/1b). PCI Express Base
Specifications 1.0 to 6.0. Headers of packets are not counted."""


def pcie_rate(transfers: float, lanes: int) -> float:
    """Rate of `lanes` lanes of `transfers` GT/s (a key of PCIE), byte/ns, one direction."""
    return transfers * PCIE[transfers][1] * lanes / 8


class _Link(Struct, frozen=True):
    bandwidth: float | None
    description: str


class Host:
    """Parts and links of one host, collected."""

    def __init__(self) -> None:
        self._count: dict[str, int] = {}
        self._links: dict[str, _Link] = {}
        self._edges: list[tuple[Instance, Instance, str]] = []
        self._ports: dict[str, _Link] = {}
        self.ranks: dict[int, int] = {}         # of GPUs

    def add(self, name: str) -> Instance:
        """One more part of a kind (`KINDS`)."""
        number = self._count.get(name, 0)
        self._count[name] = number + 1
        return name, number

    def count(self, name: str) -> int:
        """How many parts of a kind there are."""
        return self._count.get(name, 0)

    def join(self, one: Instance, two: Instance, over: str, bandwidth: float | None = None,
             description: str = "") -> None:
        """A link between two parts: byte/ns, None where the file does not say it."""
        self._links.setdefault(over, _Link(bandwidth, description))
        self._edges.append((one, two, over))

    def port(self, over: str, bandwidth: float, description: str) -> None:
        """A kind of cable that cards of this host have: a link of the infrastructure that nothing uses yet."""
        self._ports.setdefault(over, _Link(bandwidth, description))

    def document(self, source: str) -> Document:
        """One host; the ranks of its GPUs as annotations where all are known."""
        parts = [component(name, KINDS[name], count) for name, count in self._count.items()]
        edges = [inside(f"{one[0]}[{one[1]}]", f"{two[0]}[{two[1]}]", over, "one2one")
                 for one, two, over in self._edges]
        made = document("host", [device("host", parts, _written(self._links), edges, source)], _written(self._ports),
                        [instance("host", 1)], [])
        if not self.ranks or sorted(self.ranks.values()) != list(range(self.count("gpu"))):
            return made
        notes = [Annotation(name=f"host.0.gpu.{gpu}", attributes=(Attribute(attribute="rank", value=str(rank)),))
                 for gpu, rank in sorted(self.ranks.items())]
        return Document(infrastructure=made.infrastructure, annotations=Annotations(nodes=tuple(notes)))


def _written(links: Mapping[str, _Link]) -> list[Link]:
    return [link(name, each.bandwidth, None, each.description) for name, each in links.items()]
