"""What it is trained on: NPUs of a device, their hosts, and the fabric between these."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from astrarium import catalog
from astrarium.collective.config import Collective
from astrarium.collective.fabrics import fabric
from astrarium.compute.config import Compute, usual_model
from astrarium.config.base import decode
from astrarium.config.files import load
from astrarium.config.named import LIKE
from astrarium.config.spec import specs
from astrarium.design import Design
from astrarium.errors import InputError, nearest
from astrarium.market import Cost
from astrarium.memory.config import Memory
from astrarium.network.config import Network
from astrarium.network.needs import needs_dims
from astrarium.planner.reserve import NO_RESERVE, Reserve
from astrarium.registry import Kind
from astrarium.stack import SECTIONS, Stacks, settings_of
from astrarium.system.config import System
from astrarium.vocab import MOST_PLANNED
from astrarium.workload.transformer import Transformer

__all__ = ["Machine", "device_names", "host_size", "machine_of", "stack_settings"]

NOWHERE = Cost()      # nothing is said of prices


class Machine(Struct, frozen=True):
    """`npus` NPUs of `device`; `assumed`: sentences about what the caller left open."""

    device: str
    compute: Compute
    memory: Memory
    network: Network
    collective: Collective
    system: System
    stack: str | None = None
    assumed: tuple[str, ...] = ()
    cost: Cost = NOWHERE
    reserve: Reserve = NO_RESERVE

    @property
    def npus(self) -> int:
        """All of them."""
        return self.network.npus

    @property
    def host(self) -> int:
        """NPUs of the innermost dim: the host, or the NVLink domain."""
        return self.network.flat[0].npus

    @property
    def models(self) -> str:
        """Which models say how long things take."""
        return f"{self.compute.tag} kernels, {self.collective.model} collectives, stack {self.stack or 'none'}"

    @property
    def capacity(self) -> float:
        """Bytes of an NPU."""
        return float(self.memory.capacity or math.inf)

    @property
    def room(self) -> float:
        """Bytes of an NPU that the tensors of a layout may need."""
        return self.reserve.room(self.capacity)

    def design(self, workload: Transformer) -> Design:
        """The design of a workload on it."""
        return Design(workload=workload, network=self.network, compute=self.compute, memory=self.memory,
                      collective=self.collective, system=self.system, stack=self.stack, cost=self.cost)


def device_names(device: str | Sequence[str]) -> list[str]:
    """Names of devices of the catalog, of one or several that are given by name or alias. Raises InputError for none,
    and for an unknown one."""
    given = [device] if isinstance(device, str) else list(device)
    if not given:
        raise InputError("device", "is empty", expected="a device of the catalog (`astrarium list device`)")
    try:
        return [catalog.name_of("devices", each) for each in given]
    except InputError as error:
        raise InputError("device", error.message, expected=error.expected, did_you_mean=error.did_you_mean) from None


def machine_of(device: str, npus: int, network: str | Network | None = None, compute: str | None = None,
               collectives: str | None = None, stack: str | None = None, *, cost: Cost | None = None,
               powers: Mapping[str, Any] = MappingProxyType({}), assumed: Sequence[str] = (),
               reserve: Reserve = NO_RESERVE) -> Machine:
    """`npus` NPUs of a catalog device. `network`: a Network, a file of one, or names of the catalog, innermost first,
    joined by commas; left out: the device's usual host and fabric. `compute`: a compute model; `collectives`: where
    their times come from (`collective.model`); left out: what was measured, see `usual_model` and
    `usual_collectives`. `stack`: a software stack of the catalog. `cost`: where it is bought; `powers`: what an NPU
    draws (fields of `compute`); `assumed`: sentences about both; `reserve`: memory that stays free. Raises
    InputError."""
    if not 1 <= npus <= MOST_PLANNED:
        raise InputError("gpus", f"{npus:,}", expected=f"1 to {MOST_PLANNED:,}")
    row = catalog.device(device)
    said: list[str] = []
    if isinstance(network, Network):
        found = network
    elif network is not None and _is_file(network):
        found = _read(network)
    else:
        found = _named(device, network, npus, said)
    needs_dims(found, "a plan")
    if found.npus != npus:
        raise InputError("network", f"has {found.npus} NPUs", expected=f"{npus}, as many as gpus says")
    model = compute or usual_model(device)
    settings = stack_settings(stack, len(found.flat) > 1, device, model)
    times = collectives or usual_collectives(found)
    known = {name: value for name, value in settings["collective"].items()
             if name != "library" or times == "measured"}       # a library's times are measured ones
    how = decode(Collective, {**known, "model": times})
    return Machine(device, _compute(device, model, {**settings["compute"], **powers}),
                   Memory(**row.memory), found, how, decode(System, settings["system"]), stack,
                   (*said, *assumed, *([reserve.text] if reserve.text else ())), cost or NOWHERE, reserve)


def usual_collectives(network: Network) -> str:
    """`measured` where all collectives of a training step were measured on the fabric of every dim."""
    whole = all(dim.fabric is not None and fabric(dim.fabric).complete for dim in network.flat)
    return "measured" if whole else "simulated"


def _compute(device: str, model: str, settings: Mapping[str, Any]) -> Compute:
    """A compute model of a catalog device, under a stack's settings of those that the model has."""
    if model not in Kind("compute"):
        raise InputError("compute", f"{model!r} is not known",
                         expected="one of " + ", ".join(Kind("compute").names()))
    known = {spec.name for spec in specs(Kind("compute").load(model))}
    given = {name: value for name, value in settings.items() if name in known}
    return decode(Compute, {LIKE: device, "model": model, **given})


def stack_settings(stack: str | None, several_hosts: bool, device: str, model: str) -> Mapping[str, Mapping[str, Any]]:
    """Section -> settings of a software stack on a device under a compute model; of none where there is no name. Raises
    InputError for an unknown one."""
    if stack is None:
        return dict.fromkeys(SECTIONS, MappingProxyType({}))
    if stack not in Stacks():
        names = Stacks().names()
        raise InputError("stack", f"{stack[:60]!r} is not known", expected="one of " + ", ".join(names),
                         did_you_mean=nearest(stack, names))
    return settings_of(stack, several_hosts, device, compute=model)


def _is_file(text: str) -> bool:
    return os.path.splitext(text)[1].lower() in (".yaml", ".yml")


def _read(path: str) -> Network:
    """The network in a file: the section itself, or that of a design."""
    from astrarium.config.yamlfile import parse_yaml, read_text

    data = parse_yaml(read_text(path), path).data
    if isinstance(data, dict) and "network" in data:
        return load(Design, path).network
    return load(Network, path)


def host_size(device: str) -> int:
    """NPUs of the device's first host of the catalog; 0: it has none."""
    name = _usual_host(device)
    return 0 if name is None else catalog.host(name).npus


def _usual_host(device: str) -> str | None:
    return next((name for name, row in catalog.load("hosts").items() if row["device"] == device), None)


def _usual(device: str) -> tuple[str, ...]:
    """Networks inside the device's first host of the catalog, and between hosts. Raises InputError."""
    name = _usual_host(device)
    if name is None:
        raise InputError("network", f"the catalog has no host of {device}, so its links are unknown",
                         expected="--network: rows of networks, innermost first (`astrarium list network`, or your own "
                                  "in --catalog), or a file")
    host = catalog.host(name)
    return (*host.inner, *(() if host.outer is None else (host.outer,)))


def _shared(device: str, inner: catalog.Link) -> list[str]:
    """Why a device has a network that is named after a host of another device."""
    hosts = catalog.load("hosts").values()
    first = next((row for row in hosts if inner.name in row["inner"]), None)
    own = next((row for row in hosts if row["device"] == device), None)
    if first is None or own is None or first["device"] == device:
        return []
    return [f"{inner.name} in a host of {device}: {inner.title} ({own['source']})"]


def _named(device: str, network: str | None, npus: int, assumed: list[str]) -> Network:
    """A network of catalog rows, of which the last takes the NPUs that are left."""
    names = _usual(device) if network is None else tuple(name.strip() for name in network.split(","))
    rows = [catalog.network(name) for name in names]
    dims: list[dict[str, Any]] = []
    left = npus
    for place, row in enumerate(rows):
        if place and left == 1:
            break
        last = place == len(rows) - 1
        if row.npus is None and not last:
            raise InputError(f"network: {row.name}", "does not say how many NPUs it joins", expected="a place behind "
                             "the others, or a network file")
        size = left if last and row.npus is None else min(row.npus or left, left)
        if left % size:
            raise InputError("gpus", f"{npus} NPUs are not whole hosts of {size}",
                             expected=f"{npus // size * size} or {(npus // size + 1) * size}")
        latency, said = row.hop(inside=not place)
        assumed += [said] if said else []
        dims.append({**row.plain, "npus": size, "latency": latency})
        left //= size
    if left > 1:
        raise InputError("network", f"{', '.join(names)} have {npus // left} NPUs",
                         expected=f"{npus}: one dim more, such as infiniband_ndr")
    if network is None:
        assumed.insert(0, "network: " + ", ".join(f"{row.name} ({dim['npus']})" for row, dim in zip(rows, dims)))
        assumed[1:1] = _shared(device, rows[0])
    return decode(Network, {"dims": dims})
