"""Topologies that `lstopo FILE.xml` writes (hwloc 2): a host's packages, NUMA memories, PCI tree, GPUs, cards, NVLinks.

hwloc gives rates of PCI links in GB/s of one direction, without the line code, and of NVLink and XGMI in MB/s of one
direction. A bridge at an even depth is the upper port of a switch, one at an odd depth belongs to what is above it
(a root port, or a switch's lower port). Latencies are not in the file, nor what joins packages.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from astrarium.errors import InputError, UnsupportedError
from astrarium.fabric.host import Host, Instance
from astrarium.fabric.schema import Document
from astrarium.fabric.xmlfile import Element

__all__ = ["lstopo_host"]

COPROCESSOR = ("5", "32", "CoProc")
GPU_MAKERS = ("10de", "1002")
MATRICES = ("NVLinkBandwidth", "XGMIBandwidth")


class _Found:
    """What a walk over the tree collects: the host, and which part each PCI device is, by its number in matrices."""

    def __init__(self, where: str) -> None:
        self.where, self.host = where, Host()
        self.part: dict[str, Instance | None] = {}


def lstopo_host(root: Element, where: str) -> Document:
    """The host of a file whose outermost element is `topology`. Raises InputError with the line."""
    found = _Found(where)
    machines = list(root.all_of("object"))
    if len(machines) != 1 or machines[0].attributes.get("type") != "Machine":
        raise InputError(f"{where}:{root.line}", f"has {len(machines)} objects outermost", expected="one Machine")
    packages = _packages(machines[0])
    if not packages:
        raise InputError(f"{where}:{machines[0].line}", "has no Package", expected="a Machine with CPU packages")
    parts = {id(each): found.host.add("cpu") for each in packages}
    only = next(iter(parts.values())) if len(parts) == 1 else None
    _walk(found, machines[0], only, parts)
    for one in range(len(parts)):
        for two in range(one + 1, len(parts)):
            found.host.join(("cpu", one), ("cpu", two), "between_cpus", None, "The file does not say what joins CPUs.")
    for matrix in [*root.all_of("distances2"), *root.all_of("distances2hetero")]:
        if matrix.attributes.get("name") in MATRICES:
            _matrix(found, matrix)
    return found.host.document(f"lstopo file {where}")


def _packages(element: Element) -> list[Element]:
    found: list[Element] = []
    for child in element.all_of("object"):
        found += [child] if child.attributes.get("type") == "Package" else _packages(child)
    return found


def _walk(found: _Found, element: Element, cpu: Instance | None, parts: Mapping[int, Instance]) -> None:
    """What is inside a CPU package or above it: memories and PCI."""
    for child in element.all_of("object"):
        kind = child.attributes.get("type")
        if kind in ("Bridge", "PCIDev"):
            if cpu is None:
                raise UnsupportedError(f"{found.where}:{child.line}", "a PCI device at no package", expected="one "
                                       "inside the package that it is attached to")
            _pci(found, child, cpu)
        elif kind == "NUMANode":
            if cpu is not None:
                found.host.join(cpu, found.host.add("memory"), "memory")
            _walk(found, child, cpu, parts)
        else:
            _walk(found, child, parts.get(id(child), cpu), parts)


def _pci(found: _Found, element: Element, above: Instance) -> None:
    where = f"{found.where}:{element.line}"
    if element.attributes.get("type") == "Bridge":
        depth = element.attributes.get("depth", "0")
        if not (depth.isascii() and depth.isdigit() and len(depth) < 10):
            raise InputError(where, f"depth {depth[:20]!r}", expected="a number")
        here = above
        if int(depth) and int(depth) % 2 == 0 and any(element.all_of("object")):
            here = found.host.add("pci_switch")
            _join(found, above, here, element)
        for child in element.all_of("object"):
            if child.attributes.get("type") in ("Bridge", "PCIDev"):
                _pci(found, child, here)
        return
    name = _kind(element)
    first = name != "nvswitch" or not found.host.count(name)
    part = None if not name else found.host.add(name) if first else (name, 0)
    found.part[element.attributes.get("gp_index", "")] = part
    for child in element.all_of("object"):
        found.part[child.attributes.get("gp_index", "")] = part
    if part and name != "nvswitch":
        _join(found, above, part, element)


def _kind(device: Element) -> str:
    """What a PCI device is; empty for storage, management and the like."""
    said = device.attributes.get("pci_type", "")
    kind, maker = said[:4], said[6:10].lower()
    computes = any(child.attributes.get("osdev_type") in COPROCESSOR for child in device.all_of("object"))
    if kind in ("0302", "0380", "1200") or (kind == "0300" and (computes or maker in GPU_MAKERS)):
        return "gpu"
    return {"0200": "nic", "0207": "nic", "0680": "nvswitch" if maker == "10de" else ""}.get(kind, "")


def _join(found: _Found, above: Instance, part: Instance, element: Element) -> None:
    said = element.attributes.get("pci_link_speed", "0")
    try:
        rate = float(said)
    except ValueError:
        rate = math.nan
    if not 0 <= rate < 10_000:
        raise InputError(f"{found.where}:{element.line}", f"pci_link_speed {said[:20]!r}", expected="GB/s")
    found.host.join(above, part, f"pcie_{rate:.1f}".replace(".", "_") if rate else "pcie", rate or None,
                    "PCI Express, GB/s of hwloc" if rate else "")


def _matrix(found: _Found, matrix: Element) -> None:
    """Links between GPUs, and of GPUs to all NVSwitches as one, with their rates."""
    where = f"{found.where}:{matrix.line}"
    indices = [word.split(":")[-1] for word in _words(matrix, "indexes")]
    values = _words(matrix, "u64values")
    n = len(indices)
    if not n or len(values) != n * n or not all(
            word.isascii() and word.isdigit() and len(word) < 16 for word in values):
        raise InputError(where, f"{len(values)} values for {n} objects", expected="a square of numbers")
    if not all(index in found.part for index in indices) or matrix.attributes.get("indexing", "gp") != "gp":
        raise InputError(where, "names objects that are no PCI devices", expected="indexing gp, of devices of the file")
    name = "nvlink" if matrix.attributes["name"] == "NVLinkBandwidth" else "xgmi"
    rates: dict[tuple[Instance, Instance], int] = {}
    for row, one in enumerate(indices):
        for column, two in enumerate(indices):
            a, b = found.part[one], found.part[two]
            value = int(values[row * n + column])
            if row != column and value and a and b and a[0] == "gpu":
                a, b = (a, ("nvswitch", 0)) if b[0] == "nvswitch" else (a, b)
                rates[a, b] = rates.get((a, b), 0) + value
    for (a, b), rate in rates.items():
        if b[0] == "nvswitch" or a < b:
            if b[0] != "nvswitch" and rates.get((b, a)) != rate:
                raise InputError(where, f"gpu {a[1]} and gpu {b[1]} disagree on the rate between them",
                                 expected="equal rates in both directions")
            found.host.join(a, b, f"{name}_{rate / 1000:g}".replace(".", "_"), rate / 1000,
                            f"{matrix.attributes['name']} of hwloc")


def _words(matrix: Element, tag: str) -> Sequence[str]:
    return [word for child in matrix.all_of(tag) for word in child.text.split()]
