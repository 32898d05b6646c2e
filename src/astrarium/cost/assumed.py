"""What figures of cost assume where a design or a caller says nothing: rows of the catalog, said in words."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from typing import Any

from astrarium import catalog
from astrarium.catalog.market import part
from astrarium.config import replace, replace_all
from astrarium.design import Design
from astrarium.errors import InputError
from astrarium.market import Cost
from astrarium.units import EnergyPrice, HourlyPrice, Lifetime, Power

__all__ = ["POWERS", "assumptions", "catalog_powers", "price_hint", "rents", "usual_cost", "with_prices"]

POWERS = ("power", "idle_power")
IDLE = 80 / 700     # power of an idle NPU over its limit: an H100's, whose row has the sources of both


def usual_cost(device: str) -> str:
    """The first row of whole `cost` sections whose host or device is of `device`; else its first rent. Raises
    InputError."""
    for name, row in catalog.load("costs").items():
        parts = [part(row["cost"][key]) for key in ("host", "device") if key in row["cost"]]
        if any(each.device == device for each in parts):
            return name
    for name in rents(device):
        return name
    priced = [name for name, row in catalog.load("parts").items() if row.get("device") == device]
    raise InputError("cost", f"the catalog has no whole section of prices of {device}"
                     + (f" (its parts: {', '.join(priced)})" if priced else ", and no part of it"),
                     expected="--cost: a row of costs (`astrarium list cost`, or your own in --catalog), or fields, "
                     "such as --cost host=... --cost switch=...")


def rents(device: str) -> dict[str, str]:
    """Rows of rents of a device -> US dollars of an hour, with the unit; the lowest first."""
    found = {name: row["rent"] for name, row in catalog.load("parts").items()
             if row["kind"] == "rental" and row.get("device") == device}
    return dict(sorted(found.items(), key=lambda each: float(HourlyPrice(each[1]))))


def price_hint(devices: Collection[str]) -> str:
    """Which flags show money in a plan; empty if the catalog has no prices of one of its devices."""
    priced = dict[str, str]()
    for device in devices:
        with suppress(InputError):
            priced[device] = usual_cost(device)
    if not priced or len(priced) < len(devices):
        return ""
    if len(devices) > 1:
        return "prices: --objective cost compares by them"
    (device, name), = priced.items()
    others = [f"{rent} ({price})" for rent, price in rents(device).items() if rent != name][:1]
    return f"prices: --cost {' or '.join([name, *others])}; --objective cost compares by them"


def catalog_powers(device: str, stated: Mapping[str, Any], assumed: list[str]) -> dict[str, Any]:
    """What an NPU draws: what is `stated`, else the device's row; adds to `assumed`. A power that neither says is left
    out; an idle power is then assumed."""
    row = catalog.device(device).row
    found = {name: stated.get(name, row.get(name)) for name in POWERS}
    said = [f"{name.replace('_', ' ')} {found[name]}" for name in POWERS if found[name] is not None]
    source = "" if stated else " (catalog: the limit of its data sheet)"
    assumed += [f"an NPU's {' and '.join(said)}{source}"] if said else []
    if found["idle_power"] is None and found["power"] is not None:
        found["idle_power"] = f"{IDLE * float(Power(found['power'])):.4g} W"
        assumed.append(f"an idle {device} draws {found['idle_power']} (not published: {IDLE:.1%} of its limit, as an "
                       "H100; to change: --cost compute.idle_power=...)")
    return {name: value for name, value in found.items() if value is not None}


def with_prices(design: Design, shared: bool = False) -> tuple[Design, tuple[str, ...]]:
    """The design with the catalog's `cost` section and powers of its device where it says none, for figures of cost
    alone, and what these rest on, in words. `shared`: NPUs pay for their share of a host that they do not fill."""
    device, assumed = getattr(design.compute, "device", None), list[str]()
    stated = {name: value for name in POWERS if (value := getattr(design.compute, name, None)) is not None}
    if device is not None and len(stated) < len(POWERS):
        powers = catalog_powers(device, stated, assumed)
        design = replace_all(design, {f"compute.{name}": value for name, value in powers.items() if name not in stated})
    if design.cost == Cost() and design.compute.hourly_price is None and device is not None:
        try:
            name = usual_cost(device)
        except InputError:
            return design, (*assumed, f"no prices of {device} are in the catalog")
        design = replace(design, "cost", name)
        assumed.append(f"cost: {name}, of the catalog")
    host = design.cost.host
    whole = [] if host is None or part(host).npus <= design.network.npus else [
        f"the share of {design.network.npus} of the {part(host).npus} NPUs of a {host}" if shared else
        f"a whole {host}, of whose {part(host).npus} NPUs the design has {design.network.npus} (serve and plan --for "
        "serving charge the share)"]
    return design, (*assumed, *assumptions(design.cost), *whole)


def assumptions(cost: Cost) -> Iterator[str]:
    """Sentences about prices, site and energy, with the dates of their rows."""
    for name in ("host", "device", "nic", "switch", "link", "trunk", "rental"):
        chosen = getattr(cost, name)
        if chosen is not None:
            yield f"{name}: {chosen} (prices of {part(chosen).date})"
    site, price, grid = cost.site, cost.energy_price, cost.grid
    said = [f"PUE {site:g}" + ("" if cost.facility is None else f" ({cost.facility})")] if site is not None else []
    said += [f"{EnergyPrice.of(price)}" + ("" if cost.tariff is None else f" ({cost.tariff})")] \
        if price is not None else []
    said += [f"{grid:g} gCO2/kWh" + ("" if cost.region is None else f" ({cost.region})")] if grid is not None else []
    said += [f"paid off over {Lifetime.of(cost.lifetime)}"] if cost.lifetime is not None else []
    if said:
        yield ", ".join(said) + f", working {100 * cost.utilisation:g} % of the time"
