"""The device and the fabric of a row, from the words that its source uses."""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct

from astrarium import catalog
from astrarium.compute import kernels
from astrarium.errors import InputError
from astrarium.validate.rows import Row

__all__ = ["System", "network_of", "system_named", "system_of"]


class System(Struct, frozen=True):
    """`device` and `inner` (the links inside a host of `hosted` NPUs) are rows of the catalog; `outer` joins hosts."""

    device: str
    inner: str
    hosted: int
    outer: str

    @property
    def kernels(self) -> str | None:
        """The device's name among measured kernels, or None."""
        return kernels.named(self.device)


HGX_A100 = System("a100_sxm_80gb", "dgx_a100_nvswitch", 8, "infiniband_hdr")
HGX_H100 = System("h100_sxm", "dgx_h100_nvswitch", 8, "infiniband_ndr")
SYSTEMS: tuple[tuple[str, System], ...] = (
    (r"a100.*40 ?gb?\b", System("a100_sxm_40gb", "dgx_a100_nvswitch", 8, "infiniband_hdr")),
    (r"a100(?!\d)|ampere", HGX_A100),
    (r"l40s", System("l40s", "l40s_pcie4", 8, "infiniband_hdr")),
    (r"h200(?!\d)", System("h200_sxm", "dgx_h200_nvswitch", 8, "infiniband_ndr")),
    (r"h100(?!\d)|hopper", HGX_H100),
    (r"gb300(?!\d)", System("gb300", "gb300_nvl72", 72, "infiniband_ndr")),
    (r"gb200(?!\d)", System("gb200", "gb200_nvl72", 64, "infiniband_ndr")),
    (r"\bb300(?!\d)", System("b300", "dgx_b300_nvswitch", 8, "infiniband_ndr")),
    (r"\bb200(?!\d)", System("b200", "dgx_b200_nvswitch", 8, "infiniband_ndr")),
    (r"mi300x", System("mi300x", "mi300x_platform", 8, "ethernet_400g")),
    (r"mi325x", System("mi325x", "mi300x_platform", 8, "ethernet_400g")),
)
PORT = re.compile(r"(\d+(?:\.\d+)?) ?(gbps|gb/s|gbit/s|gbit)", re.IGNORECASE)
EFA = {"h100_sxm": "efa_p5", "a100_sxm_80gb": "efa_p4de", "b200": "efa_b200"}


def system_of(row: Row) -> System:
    """The system of the row's device. Raises InputError for a device that the catalog does not have."""
    return system_named(row.text("gpu") or row.text("hw"))


def system_named(name: str, path: str = "gpu") -> System:
    """The system of a device's name in a source."""
    for pattern, system in SYSTEMS:
        if re.search(pattern, name.lower()):
            return system
    raise InputError(path, f"{name[:60]!r} is no device with rows in the catalog",
                     expected="one of A100, H100, H200, B200, B300, GB200, GB300, L40S, MI300X, MI325X")


def network_of(row: Row, system: System, npus: int, assumed: list[str]) -> dict[str, Any]:
    """Plain data of the network section: hosts of `hosted` NPUs, one port each unless the row says otherwise. Raises
    InputError where the NPUs do not fill hosts."""
    inner = min(system.hosted, npus)
    if npus % inner:
        raise InputError("n_gpus", f"{npus} are not whole hosts of {inner}", expected=f"a multiple of {inner}")
    dims: list[dict[str, Any]] = [{"like": system.inner, "npus": inner}]
    if npus > inner:
        dims.append({**_outer(row, system, inner, assumed), "npus": npus // inner})
    for dim, inside in zip(dims, (True, False)):
        dim["latency"], said = catalog.network(dim["like"]).hop(inside)
        assumed += [said] if said else []
    return {"dims": dims}


def _outer(row: Row, system: System, inner: int, assumed: list[str]) -> dict[str, Any]:
    """What joins hosts, per NPU."""
    words = (row.text("gpu") or row.text("hw")).lower()
    if stated := PORT.search(words):
        assumed.append(f"network: {stated[0]} is of a host")
        return {"like": system.outer, "bandwidth_per_npu": f"{float(stated[1]) / inner:g} Gb/s"}
    if "efa" in words and system.device in EFA:
        assumed.append(f"network: {EFA[system.device]}")
        return {"like": EFA[system.device]}
    assumed.append(f"network: {system.outer}, a port for every NPU")
    return {"like": system.outer}
