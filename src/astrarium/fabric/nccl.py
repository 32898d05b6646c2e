"""NCCL's topology files (`NCCL_TOPO_DUMP_FILE`, `NCCL_TOPO_FILE`; RCCL's too): a host's CPUs, PCI tree, GPUs, NICs and
NVLinks.

As NCCL reads them (https://github.com/NVIDIA/nccl, commit 5067397c, src/graph/topo.cc): all NVSwitches of a host are
one, and a GPU's NVLinks to them one link; `<c2c>` (NVLink-C2C) joins a GPU and its CPU with `count` links of `bw` MB/s
(and its PCI Express, where that leads to the CPU itself, is left out: nothing takes it).
Rates of PCIe follow from speed and width; rates of NVLink and between CPUs, and latencies, are not in the file.
In a file without `<gpu>`, as clouds ship them, classes of PCI say which cards are GPUs and NICs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from astrarium.errors import InputError, UnsupportedError
from astrarium.fabric.host import PCIE, Host, Instance, pcie_rate
from astrarium.fabric.schema import Document
from astrarium.fabric.xmlfile import Element

__all__ = ["nccl_host"]

_SPEED = re.compile(r"\s*(\d{1,3}(?:\.\d{1,2})?)\s*GT/s.*")
TAGS = {"cpu": ("pci", "nic"), "pci": ("pci", "gpu", "nic"), "gpu": ("nvlink", "xgmi", "c2c"), "nic": ("net",),
        "net": (), "nvlink": (), "xgmi": (), "c2c": ()}
NVSWITCH, NVLINK_CPU, BRIDGE = "0x068000", "0x068001", "0x0604"
GPU = ("0x0300", "0x0302", "0x0380", "0x1200")
CARDS = {"0x0302": "gpu", "0x0380": "gpu", "0x1200": "gpu", "0x0200": "nic", "0x0207": "nic"}
"""Classes of cards in a file without `<gpu>`: 3D and display controllers (not VGA, which servers have for consoles),
accelerators; Ethernet and InfiniBand. PCI Code and ID Assignment Specification."""


class _Gpus(Struct, frozen=True):
    """GPUs that were read. `links`: (GPU, its CPU, the element of a link)."""

    by_class: bool
    at: dict[str, Instance]         # by busid
    links: list[tuple[Instance, Instance, Element]]


def nccl_host(root: Element, where: str) -> Document:
    """The host of a file whose outermost element is `system`. Raises InputError with the line; UnsupportedError for
    several hosts in one file, and for elements that are not known here."""
    host = Host()
    gpus = _Gpus(not _has(root, "gpu"), {}, [])
    hashes = {cpu.attributes.get("host_hash", "") for cpu in root.all_of("cpu")}
    if len(hashes) > 1:
        raise UnsupportedError(f"{where}:{root.line}", f"has {len(hashes)} hosts", expected="a file of one host")
    for element in root.children:
        if element.tag != "cpu":
            raise UnsupportedError(f"{where}:{element.line}", f"<{element.tag}> in <system>", expected="<cpu>")
        cpu = host.add("cpu")
        for child in _children(element, where):
            if child.tag == "pci":
                _pci(host, child, (cpu, cpu), gpus, where)
            else:
                host.join(cpu, host.add("nic"), "pcie")     # how it is attached is unknown
                _nets(host, child, where)
    for one in range(host.count("cpu")):
        for two in range(one + 1, host.count("cpu")):
            host.join(("cpu", one), ("cpu", two), "between_cpus", None, "The file does not say what joins CPUs.")
    _nvlinks(host, gpus, where)
    return host.document(f"NCCL topology file {where}")


def _has(element: Element, tag: str) -> bool:
    """Whether an element of this tag is inside it, however deep."""
    return any(child.tag == tag or _has(child, tag) for child in element.children)


def _children(element: Element, where: str) -> Iterator[Element]:
    for child in element.children:
        if child.tag not in TAGS[element.tag]:
            raise UnsupportedError(f"{where}:{child.line}", f"<{child.tag}> in <{element.tag}>",
                                   expected=" or ".join(f"<{tag}>" for tag in TAGS[element.tag]) or "nothing inside it")
        yield child


def _pci(host: Host, element: Element, above: tuple[Instance, Instance], gpus: _Gpus, where: str) -> None:
    """A card or bridge and what is below it. `above`: what it hangs on, and the CPU."""
    children = list(_children(element, where))
    bus, kind = element.attributes.get("busid", ""), element.attributes.get("class", "")
    if bus in gpus.at:
        raise InputError(f"{where}:{element.line}", f"busid {bus[:40]!r} is there twice", expected="another busid")
    gpu = next((child for child in children if child.tag == "gpu"), None)
    nic = next((child for child in children if child.tag == "nic"), None)
    card = "gpu" if gpu else "nic" if nic else CARDS.get(kind[:6]) if gpus.by_class else None
    if card is None and not kind.startswith(BRIDGE):
        return      # storage and the like
    if len(children) > (gpu is not None or nic is not None) and card:
        raise UnsupportedError(f"{where}:{element.line}", "a card together with other parts", expected="one gpu or nic")
    part = host.add(card or "pci_switch")
    if gpu is None or above[0] != above[1] or not any(map(_to_cpu, gpu.children)):
        name, rate = _pcie(element, where)
        host.join(above[0], part, name, rate, f"PCI Express, {element.attributes.get('link_speed', '?')[:20]}, "
                  f"{element.attributes.get('link_width', '?')[:4]} lanes" if rate else "")
    if card == "gpu":
        gpus.at[bus] = part
    if gpu:
        gpus.links.extend([(part, above[1], link) for link in _children(gpu, where)])
        rank = gpu.attributes.get("rank", "")
        if rank.isascii() and rank.isdigit() and len(rank) < 10:
            host.ranks[part[1]] = int(rank)
    elif nic:
        _nets(host, nic, where)
    for child in children if card is None else ():
        _pci(host, child, (part, above[1]), gpus, where)


def _nets(host: Host, nic: Element, where: str) -> None:
    """Speeds of a card's ports, in Mb/s, as kinds of cables."""
    for net in _children(nic, where):
        speed = _number(net, "speed", where)
        if speed:
            host.port(f"net_{speed // 1000}g", speed / 8000, f"Port of {speed:,} Mb/s, such as "
                      f"{net.attributes.get('name', '?')[:40]}")


def _pcie(element: Element, where: str) -> tuple[str, float | None]:
    """(name, byte/ns) of a card's or bridge's link; a rate only where speed and width are known."""
    width = _number(element, "link_width", where)
    match = _SPEED.fullmatch(element.attributes.get("link_speed", ""))
    if match is None or not width:
        return "pcie", None
    speed = float(match[1])
    if speed not in PCIE or width > 32:
        raise InputError(f"{where}:{element.line}", f"{width} lanes of {match[1]} GT/s",
                         expected="PCI Express: 2.5, 5, 8, 16, 32 or 64 GT/s, up to 32 lanes")
    return f"pcie{PCIE[speed][0]}_x{width}", pcie_rate(speed, width)


def _to_cpu(link: Element) -> bool:
    """Whether a link of a GPU leads to its CPU."""
    return link.tag == "c2c" or link.attributes.get("tclass", "").startswith(NVLINK_CPU)


def _nvlinks(host: Host, gpus: _Gpus, where: str) -> None:
    """Links of GPUs to NVSwitches, to CPUs and to each other."""
    to_switch: dict[Instance, int] = {}
    pairs: dict[tuple[Instance, Instance], dict[Instance, int]] = {}
    for gpu, cpu, link in gpus.links:
        target, kind = link.attributes.get("target", ""), link.attributes.get("tclass", "")
        count = _number(link, "count", where)
        if link.tag == "c2c":
            rate = count * _number(link, "bw", where) / 1000
            host.join(gpu, cpu, f"c2c_{rate:.4g}".replace(".", "_"), rate or None, f"{count} NVLink-C2Cs of a GPU")
        elif kind.startswith(NVLINK_CPU):
            host.join(gpu, cpu, f"nvlink_x{count}", None, f"{count} NVLinks of a GPU to its CPU")
        elif kind.startswith(NVSWITCH):
            to_switch[gpu] = to_switch.get(gpu, 0) + count
        elif kind.startswith(GPU) and target in gpus.at:
            other = gpus.at[target]
            pairs.setdefault((min(gpu, other), max(gpu, other)), {})[gpu] = count
        else:
            raise InputError(f"{where}:{link.line}", f"a link to {target[:40]!r} of class {kind[:20]!r}",
                             expected="a GPU of the file, an NVSwitch (class 0x068000) or a CPU (0x068001)")
    if to_switch:
        switch = host.add("nvswitch")
        for gpu, count in to_switch.items():
            host.join(gpu, switch, f"nvlink_x{count}", None, f"{count} NVLinks of a GPU to all NVSwitches")
    for (one, two), counts in pairs.items():
        if len(counts) != 2 or len(set(counts.values())) != 1:
            raise InputError(f"{where}: gpu {one[1]}", f"and gpu {two[1]} disagree on the links between them",
                             expected="as many in both directions")
        count = counts[one]
        host.join(one, two, f"nvlink_x{count}", None, f"{count} links between two GPUs")


def _number(element: Element, name: str, where: str) -> int:
    """An attribute that is a number; 0 where it is left out."""
    text = element.attributes.get(name, "0") or "0"
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise InputError(f"{where}:{element.line}", f"{name} {text[:40]!r} of <{element.tag}>", expected="a number")
    return int(text)
