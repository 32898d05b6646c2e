"""Power and energy of a whole site: NPUs, the rest of their hosts, cards, switches and optics, times the PUE.

    peak = PUE (sum of NPUs' power + hosts x the rest of a host + cards + switches + links)
    energy of a run = PUE (NPUs while they compute and while they do not + all the rest x makespan)

All but the NPUs draws the same whatever runs (what its part says, as a limit), so the energy is an upper bound there.
Network energy per bit (`network.dims[].energy`) is not in it: the switches' and links' power is.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from astrarium import catalog
from astrarium.catalog.market import Part, part
from astrarium.catalog.technology import link_technology
from astrarium.cost.capital import bill
from astrarium.cost.counts import counts, hosts_of
from astrarium.cost.energy import npu_energy
from astrarium.cost.figure import Figure, plain_number, refuse_without, without
from astrarium.cost.of_dims import priced
from astrarium.design import Design, npu_types
from astrarium.errors import InputError
from astrarium.result import Result
from astrarium.units import Power

__all__ = ["POWER_MEAN", "POWER_PEAK", "SITE_ENERGY", "SitePower", "check_site", "mean_power", "missing_site",
           "site_energy", "site_power", "watts"]


class SitePower(Struct, frozen=True):
    """W: of all NPUs while they compute (`active`) and while they do not (`idle`), of the `rest`; and the PUE."""

    active: float
    idle: float
    rest: float
    pue: float

    @property
    def peak(self) -> float:
        """W of the site at most."""
        return self.pue * (self.active + self.rest)

    @property
    def waiting(self) -> float:
        """W of the site while nothing runs."""
        return self.pue * (self.idle + self.rest)


def missing_site(design: Design) -> Iterator[str]:
    """Paths that the power of a site needs and the design, or a part of the catalog, does not say."""
    cost = design.cost
    yield from (path for name in ("power", "idle_power") for path in without(design, name))
    if cost.site is None:
        yield "cost.pue (or cost.facility)"
    if cost.host is None:
        yield "cost.host"
    elif cost.host_power is None and _rest_of(design, part(cost.host)) is None:
        yield f"cost.host_power (nor does catalog.parts.{cost.host} say it)"
    names = [cost.switch, cost.link, cost.trunk, cost.nic]
    yield from (f"catalog.parts.{name}.power" for name in dict.fromkeys(names)
                if name is not None and part(name).power is None)
    outer = () if design.network.fabric is not None else design.network.flat[cost.inside:]
    yield from (f"catalog.links.{name}.power" for name in dict.fromkeys(map(priced, outer))
                if name and link_technology(name).power is None)


def check_site(design: Design, figure: str = "power_peak") -> None:
    """Raises InputError that names all that the power of the site needs."""
    if design.cost.rental is not None:
        raise InputError(figure, "is not known of rented NPUs", expected="a cost.host whose power is known")
    refuse_without(figure, list(missing_site(design)), "what the NPUs draw, and parts, site and host of the catalog")
    bill(design)


def _rest_of(design: Design, host: Part) -> float | None:
    """W of a host without its NPUs, as its part says: all of it less the devices' limit, or a share of theirs. Raises
    InputError for a host that draws less than its devices."""
    if host.power_share is not None:
        return host.power_share * hosts_of(design)[1] * float(design.compute.power or 0)
    if host.power is None or not host.device:
        return None
    limit = catalog.load("devices").get(host.device, {}).get("power")
    if limit is None:
        return None
    devices = host.npus * float(Power(limit))
    if host.power < devices:
        raise InputError(f"catalog.parts.{host.name}.power", f"{watts(host.power)} are less than its {host.npus} "
                         f"{host.device} draw", expected=f"the host with its devices: more than {watts(devices)}")
    return host.power - devices


def site_power(design: Design) -> SitePower:
    """The power of a design's site, cards and optics included. Raises InputError for what is missing, by its path."""
    check_site(design)
    kinds, types = npu_types(design)
    each = np.bincount(kinds, minlength=len(types))
    active = sum(int(count) * float(compute.active_power or 0) for count, (compute, _) in zip(each, types, strict=True))
    idle = sum(int(count) * float(compute.idle_power or 0) for count, (compute, _) in zip(each, types, strict=True))
    cost, found = design.cost, counts(design)
    assert cost.host is not None
    host = part(cost.host)
    own = cost.host_power if cost.host_power is not None else _rest_of(design, host)
    pieces = [(cost.switch, found.switches)] + ([] if "nic" in host.includes else [(cost.nic, found.nics)])
    pieces += [piece for cables in found.cables if not cables.technology
               for piece in ((cost.link, cables.links), (cost.trunk, cables.trunks))]
    rest = found.hosts * (own or 0.0) + sum(count * (part(name).power or 0.0) for name, count in pieces if name)
    rest += sum((cables.links + cables.trunks) * (link_technology(cables.technology).power or 0.0)
                for cables in found.cables if cables.technology)
    return SitePower(active, idle, rest, cost.site or 1.0)


def site_energy(design: Design, result: Result) -> float:
    """Joules of the site during a recorded run."""
    power = site_power(design)
    compute, idle = npu_energy(design, result)
    return power.pue * (compute + idle + power.rest * result.at_least_ps / 1e12)


def watts(value: float) -> str:
    """W for a person."""
    return f"{value / 1e6:,.4g} MW" if value >= 1e6 else f"{value / 1e3:,.4g} kW" if value >= 1e3 else f"{value:.4g} W"


def mean_power(design: Design, result: Result) -> float:
    """W of the site during a recorded run, in the mean."""
    return site_energy(design, result) / max(result.at_least_ps, 1) * 1e12


POWER_PEAK = Figure(of_design=lambda design: site_power(design).peak, over_cases="largest", check=check_site,
                    label="power of the site at most", shown=watts)
POWER_MEAN = Figure(of_both=mean_power, record=True, over_cases="mean",
                    check=lambda design: check_site(design, "power_mean"),
                    label="mean power of the site", shown=watts)
SITE_ENERGY = Figure(of_both=site_energy, record=True, check=lambda design: check_site(design, "site_energy"),
                     label="energy of the site", shown=lambda value: f"{plain_number(value)} J")
