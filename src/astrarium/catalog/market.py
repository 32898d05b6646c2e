"""Parts that are bought or rented, sites and grids: the rows that a design's `cost` section names, as numbers."""

from __future__ import annotations

import functools
import os

from msgspec import Struct

from astrarium.catalog import row_of
from astrarium.catalog.files import VARIABLE
from astrarium.errors import InputError
from astrarium.units import Bandwidth, CarbonIntensity, CarbonMass, EnergyPrice, HourlyPrice, Money, Power, Quantity

__all__ = ["Part", "carbon_of", "check_device", "part", "pue_of", "tariff_of"]


class Part(Struct, frozen=True):
    """One row of parts; None or 0 where the row does not say it.

    `price` $ of one; `share`: price of the rest of a host over that of its devices; `rent` $ of a device for an hour.
    `npus` of a host, and what its price `includes`; `nic`: byte/ns of the card of each of its NPUs. `ports` of a
    switch, each of `port` byte/ns. `rate`: byte/ns of a link or card, one direction. `power` W of one, of a host with
    its devices; `power_share`: power of the rest of a host over its devices'. `embodied` kgCO2.
    """

    name: str
    kind: str
    date: str
    device: str
    npus: int
    includes: tuple[str, ...]
    ports: int
    price: float | None
    share: float | None
    rent: float | None
    nic: float | None
    port: float | None
    rate: float | None
    power: float | None
    power_share: float | None
    embodied: float | None


def part(name: str) -> Part:
    """A part by name. Raises InputError with the nearest match."""
    return _part(name, os.environ.get(VARIABLE, ""))


@functools.cache
def _part(name: str, files: str) -> Part:
    del files       # which rows there are depends on them
    row = row_of("parts", name)

    def of(kind: type[Quantity], key: str) -> float | None:
        return float(kind(row[key])) if key in row else None

    includes = row.get("includes", ())
    return Part(name, row["kind"], row["date"], row.get("device", ""), row.get("npus", 0),
                (includes,) if isinstance(includes, str) else tuple(includes), row.get("ports", 0),
                of(Money, "price"), row.get("share"), of(HourlyPrice, "rent"), of(Bandwidth, "nic"),
                of(Bandwidth, "port"), of(Bandwidth, "rate"), of(Power, "power"), row.get("power_share"),
                of(CarbonMass, "embodied"))


def check_device(path: str, name: str | None, device: str | None) -> None:
    """Refuses a part, which the field `path` names, that is priced for another device than `device`. Rows that say no
    device are of any."""
    other = part(name).device if name is not None else ""
    if device is not None and other and other != device:
        raise InputError(path, f"{name} is a price of {other}, and the NPUs are {device}",
                         expected=f"a part of {device} (`astrarium list part`), or a row without a device")


def pue_of(name: str) -> float:
    """Power usage effectiveness of a site of the catalog. Raises InputError with the nearest match."""
    return float(row_of("facilities", name)["pue"])


def tariff_of(name: str) -> float:
    """US dollars of a kWh of a tariff of the catalog. Raises InputError with the nearest match."""
    return float(EnergyPrice(row_of("tariffs", name)["price"]))


def carbon_of(name: str) -> float:
    """gCO2 of a kWh of a region's grid. Raises InputError with the nearest match."""
    return float(CarbonIntensity(row_of("regions", name)["carbon"]))
