"""What a link of a fabric is: bandwidth, latency, tier. The design's word counts before the file's; nothing is guessed.

Bits and bytes, ms, us and ns are those that the schema names. A GT/s is a transfer of one lane of unknown width: it
gives no bandwidth.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import UNSET, Struct, UnsetType

from astrarium.arrays import F64
from astrarium.config import Problem
from astrarium.errors import InputError, nearest
from astrarium.fabric import schema
from astrarium.fabric.templates import LinkName
from astrarium.units import Bandwidth, Time

__all__ = ["FREE", "Said", "Wires", "known", "wires_of"]

BANDWIDTHS: Mapping[str, float] = MappingProxyType({"gigabits_per_second": 0.125, "gigabytes_per_second": 1.0})
LATENCIES: Mapping[str, float] = MappingProxyType({"ms": 1e6, "us": 1e3, "ns": 1.0})
FREE = math.inf     # bandwidth of a link that takes no time


class Said(Struct, frozen=True):
    """What a design says of the links of one name."""

    bandwidth: float | None = None      # byte/ns
    latency: float | None = None        # ns
    free: bool = False
    tier: str = ""


class Wires(Struct, frozen=True, eq=False):
    """Per link name of an expanded fabric [links]: byte/ns (FREE: takes no time), ns, tier (empty: none)."""

    bandwidth: F64
    latency: F64
    tier: tuple[str, ...]


def wires_of(links: Sequence[LinkName], used: npt.NDArray[np.bool_], said: Mapping[str, Said], *, inside_free: bool,
             tiers: Mapping[str, str], file: str, path: str) -> Wires:
    """The numbers of links. `used` [links]: those of edges. `said`: by link (`nvlink`) or by link of a device
    (`dgx.nvlink`), which counts first. `tiers`: of the file, by link name. Raises InputError that names every number
    that is missing, by its path in the design, and names in `said` that are no links."""
    _links_there(links, said, path)
    bandwidth, latency = np.full(len(links), FREE), np.zeros(len(links))
    every, missing = known(links, said, inside_free=inside_free, tiers=tiers, file=file, used=used), []
    for number, (link, word) in enumerate(zip(links, every, strict=True)):
        if not used[number] or word.free:
            continue
        nothing = link.device and word.bandwidth is word.latency is None
        missing += [Problem(f"{path}.links.{link.name}.{name}", f"is missing, and {file} does not say it"
                            + (f" (links {link.name} of device {link.device})" if link.device else ""),
                            kind.expected() + (", or inside: free" if nothing else ""))
                    for name, value, kind in (("bandwidth", word.bandwidth, Bandwidth), ("latency", word.latency, Time))
                    if value is None]
        bandwidth[number], latency[number] = word.bandwidth or 0.0, word.latency or 0.0
    if missing:
        from astrarium.config import ConfigError

        raise ConfigError(list({problem.path: problem for problem in reversed(missing)}.values())[::-1])
    return Wires(bandwidth, latency, tuple([word.tier for word in every]))


def known(links: Sequence[LinkName], said: Mapping[str, Said], *, inside_free: bool = False,
          tiers: Mapping[str, str] | None = None, file: str = "",
          used: npt.NDArray[np.bool_] | None = None) -> list[Said]:
    """What is known of each link: `said`, else the file's word; see `wires_of`. Raises InputError for impossible
    numbers of links that are `used`."""
    found = []
    for number, link in enumerate(links):
        word = said.get(link.path, said.get(link.name, Said()))
        tier = word.tier or (tiers or {}).get(link.path, (tiers or {}).get(link.name, ""))
        if word.free or (used is not None and not used[number]):
            found.append(Said(free=word.free, tier=tier))
            continue
        physical = link.physical or schema.Physical()
        rate = _bandwidth(physical, link, file) if word.bandwidth is None else word.bandwidth
        time = _latency(physical, link, file) if word.latency is None else word.latency
        found.append(Said(rate, time, bool(inside_free and link.device and rate is time is None), tier))
    return found


def _links_there(links: Sequence[LinkName], said: Mapping[str, Said], path: str) -> None:
    names = list(dict.fromkeys([*(link.name for link in links), *(link.path for link in links)]))
    for name in said:
        if name not in names:
            raise InputError(f"{path}.links.{name}", "the fabric has no such link",
                             expected="one of " + ", ".join(dict.fromkeys(link.name for link in links)),
                             did_you_mean=nearest(name, names))


def _bandwidth(physical: schema.Physical, link: LinkName, file: str) -> float | None:
    """Byte/ns that the file says, above 0; None where it says none, or lanes only."""
    found = _chosen(physical.bandwidth, (*BANDWIDTHS, "gigatransfers_per_second"), link, "bandwidth", file)
    if found is None or found[0] not in BANDWIDTHS:
        return None
    if not (math.isfinite(found[1]) and found[1] > 0):
        raise InputError(f"{file}: link {link.path}: physical.bandwidth.{found[0]}", f"{found[1]} is impossible",
                         expected="a number above 0")
    return found[1] * BANDWIDTHS[found[0]]


def _latency(physical: schema.Physical, link: LinkName, file: str) -> float | None:
    found = _chosen(physical.latency, tuple(LATENCIES), link, "latency", file)
    if found is None:
        return None
    if not (math.isfinite(found[1]) and found[1] >= 0):
        raise InputError(f"{file}: link {link.path}: physical.latency.{found[0]}", f"{found[1]} is impossible",
                         expected="a number, 0 or more")
    return found[1] * LATENCIES[found[0]]


def _chosen(of: Any, units: Sequence[str], link: LinkName, name: str, file: str) -> tuple[str, float] | None:
    """(unit, number) of a choice of the schema; None where it is not made."""
    if isinstance(of, UnsetType):
        return None
    given = [unit for unit in units if getattr(of, unit) is not UNSET]
    if not given and of.choice is UNSET:
        return None
    if len(given) != 1 or of.choice not in (UNSET, given[0]):
        raise InputError(f"{file}: link {link.path}: physical.{name}", f"choice {of.choice or 'none'} with "
                         f"{', '.join(given) or 'no number'}", expected="one number, of the unit that is chosen")
    return given[0], float(getattr(of, given[0]))
