"""Hosts and switches of blueprints, with the numbers that are published.

NVLink and network cards: rows of the catalog (`astrarium list network`), whose sources are NVIDIA's data sheets. A
host's NVSwitches are one component: an XPU spreads its messages over all of them. PCIe: 16 lanes of 16 GT/s
(generation 4) or 32 GT/s (5), 128 of 130 bits of them data (PCI Express Base Specification 4.0 and 5.0).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from astrarium import catalog
from astrarium.fabric.make import component, device, inside, link
from astrarium.fabric.schema import Device, Link
from astrarium.units import Bandwidth, Time

__all__ = ["HOSTS", "HostRow", "dgx_of", "host_of", "port_link", "switch_of"]


def _pcie(rate: float) -> float:
    """Rate of 16 lanes, byte/ns, one direction."""
    return 16 * rate * 128 / 130 / 8


class HostRow(Struct, frozen=True):
    """A DGX: rows of the catalog inside and outside, PCIe of the cards."""

    title: str
    inner: str
    outer: str
    pcie: float             # byte/ns
    source: str

    @property
    def ports(self) -> int:
        """Ports of the catalog's switches for the network between hosts."""
        found: int = catalog.row_of("networks", self.outer)["switch_ports"]
        return found


HOSTS: Mapping[str, HostRow] = MappingProxyType({
    "dgx_a100": HostRow("NVIDIA DGX A100", "dgx_a100_nvswitch", "infiniband_hdr", _pcie(16),
                        "NVIDIA DGX A100 datasheet (eight 200 Gb/s ports); QM8700: 40 ports of 200 Gb/s"),
    "dgx_h100": HostRow("NVIDIA DGX H100", "dgx_h100_nvswitch", "infiniband_ndr", _pcie(32),
                        "NVIDIA DGX H100/H200 User Guide (eight 400 Gb/s ports); QM9700: 64 ports of 400 Gb/s"),
})
XPUS = 8


def _row(name: str) -> tuple[float, float | None]:
    """(byte/ns of an XPU, ns of a hop or None) of a row of the catalog."""
    row = catalog.network(name)
    given = row.plain
    latency = given.get("latency")
    return float(Bandwidth(given["bandwidth_per_npu"])), None if latency is None else float(Time(latency))


def dgx_of(name: str) -> Device:
    """A DGX: eight XPUs on an NVSwitch (`nvlink`), each with a network card of its own (`pcie`)."""
    row = HOSTS[name]
    rate, latency = _row(row.inner)
    return device(name, [component("xpu", "xpu", XPUS), component("nvswitch", "switch", 1),
                         component("nic", "nic", XPUS)],
                  [link("nvlink", rate, latency, row.inner), link("pcie", row.pcie)],
                  [inside("xpu", "nvswitch", "nvlink"), inside("xpu", "nic", "pcie", "one2one")],
                  f"{row.title}. {row.source}")


def port_link(name: str, link_name: str) -> Link:
    """A cable between a DGX's card and a switch, or between two such switches."""
    return link(link_name, _row(HOSTS[name].outer)[0], None, HOSTS[name].outer)


def host_of(name: str, xpus: int) -> Device:
    """A host of some XPUs, joined by a switch (`scale_up`) where there are several."""
    if xpus == 1:
        return device(name, [component("xpu", "xpu", 1)])
    return device(name, [component("xpu", "xpu", xpus), component("switch", "switch", 1)], [link("scale_up")],
                  [inside("xpu", "switch", "scale_up")])


def switch_of(ports: int, name: str = "switch") -> Device:
    """A switch. Inside it nothing takes time: a port's buffers and latency are its cable's."""
    return device(name, [component("asic", "switch", 1), component("port", "port", ports)], [link("inside")],
                  [inside("asic", "port", "inside")])
