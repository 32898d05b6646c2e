"""The `cost` section of a design: parts of the system, its site, the price of its energy.

    cost: {like: us_h100_2024, pue: 1.1, lifetime: 4 years}

Parts, sites, tariffs and regions are rows of the catalog, each with a source and a date. A figure whose price is not
here is refused by the path that lacks it; see `astrarium.cost`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar

from msgspec import Struct

from astrarium import catalog
from astrarium.catalog.market import carbon_of, pue_of, tariff_of
from astrarium.config import Config, Knob, Problem, default
from astrarium.config.named import Shorthand
from astrarium.errors import InputError
from astrarium.units import (
    OptionalCarbonIntensity,
    OptionalEnergyPerByte,
    OptionalEnergyPerFlop,
    OptionalEnergyPrice,
    OptionalLifetime,
    OptionalPower,
)

__all__ = ["Cost"]


class _Rows(Struct, frozen=True):
    """Names of the rows of a kind of the catalog; `part`: of parts of this kind alone."""

    kind: str
    part: str = ""

    def names(self) -> tuple[str, ...]:
        rows = catalog.load(self.kind)
        return tuple(name for name, row in rows.items() if not self.part or row["kind"] == self.part)

    def load(self, name: str) -> Any:
        return catalog.load(self.kind)[name]

    def __contains__(self, name: object) -> bool:
        row = catalog.load(self.kind).get(name) if isinstance(name, str) else None
        return row is not None and (not self.part or row["kind"] == self.part)


def _named(name: str) -> Mapping[str, Any]:
    """The section that a row of costs is, or the rent of a row of parts."""
    row = catalog.load("parts").get(name)
    if row is None:
        return dict(catalog.row_of("costs", name)["cost"])
    kind = row["kind"]
    if kind == "rental":
        return {kind: name}
    raise InputError("", f"{name} is the price of a {kind} alone", expected=f"a whole section (`astrarium list cost`), "
                     f"or {kind}: {name} and the other parts")


def _one_of_two(cost: Cost) -> Iterable[Problem]:
    for first, second in Cost.either:
        if getattr(cost, first) is not None and getattr(cost, second) is not None:
            yield Problem(second, f"cannot be combined with {first}", "one of the two")


def _bought_or_rented(cost: Cost) -> Iterable[Problem]:
    bought = next((name for name in ("host", "device") if getattr(cost, name) is not None), None)
    if cost.rental is not None and bought is not None:
        yield Problem("rental", f"cannot be combined with {bought}", "NPUs that are bought, or rented ones")


def _whole(cost: Cost) -> Iterable[Problem]:
    if cost.utilisation > 1:
        yield Problem("utilisation", f"{cost.utilisation} is more than all of the time", "above 0, at most 1")


class Cost(Config, frozen=True, kw_only=True):
    """Parts of a design, its site, and the price of its energy."""

    shorthand: ClassVar[Shorthand | None] = Shorthand(
        _named, "a row of the catalog (`astrarium list cost`, or a rental of `astrarium list part`)")
    either = (("pue", "facility"), ("electricity", "tariff"), ("carbon_intensity", "region"))
    rules = (_one_of_two, _bought_or_rented, _whole)
    host: Annotated[str | None, Knob("Hosts that are bought (`astrarium list part`).", choices=_Rows("parts", "host"))
                    ] = None
    device: Annotated[str | None, Knob("Devices that are bought, where the host's price does not include them.",
                                       choices=_Rows("parts", "device"))] = None
    nic: Annotated[str | None, Knob("Network cards that are bought, where the host's price does not include them.",
                                    choices=_Rows("parts", "nic"))] = None
    switch: Annotated[str | None, Knob("Switches between hosts.", choices=_Rows("parts", "switch"))] = None
    link: Annotated[str | None, Knob("Links between an NPU's card and a switch, or two NPUs of different hosts.",
                                     choices=_Rows("parts", "link"))] = None
    trunk: Annotated[str | None, Knob("Links between two switches.", choices=_Rows("parts", "link"))] = None
    inside: Annotated[int, Knob("Dims, innermost first, that are inside a host (a torus counts as its rings): the "
                                "host's price covers them.", ge=0)] = 1
    rental: Annotated[str | None, Knob("NPUs that are rented by the hour, network and energy included.",
                                       choices=_Rows("parts", "rental"))] = None
    host_power: Annotated[OptionalPower, Knob("Power of a host without its NPUs; left out: as its part says.")
                          ] = default(None)
    pue: Annotated[float | None, Knob("Power usage effectiveness of the site (or facility).", ge=1)] = None
    facility: Annotated[str | None, Knob("The site, by whose PUE power and energy are multiplied (or pue).",
                                         choices=_Rows("facilities"))] = None
    electricity: Annotated[OptionalEnergyPrice, Knob("Price of energy (or tariff).")] = default(None)
    tariff: Annotated[str | None, Knob("Tariff of the energy (or electricity).", choices=_Rows("tariffs"))] = None
    carbon_intensity: Annotated[OptionalCarbonIntensity, Knob("CO2 of the energy (or region).")] = default(None)
    region: Annotated[str | None, Knob("Region whose grid's mean CO2 counts (or carbon_intensity).",
                                       choices=_Rows("regions"))] = None
    lifetime: Annotated[OptionalLifetime, Knob("Time over which what is bought is paid off, evenly.", gt=0)
                        ] = default(None)
    utilisation: Annotated[float, Knob("Share of the lifetime in which the cluster works; the rest of the time it "
                                       "idles, and working hours pay for it.", gt=0)] = 1.0
    tokens: Annotated[float | None, Knob("Tokens of the whole training run (for training_cost).", gt=0)] = None
    flop_energy: Annotated[OptionalEnergyPerFlop, Knob("Energy of a FLOP at the precision of the workload (for "
                                                       "operation_energy).")] = default(None)
    memory_energy: Annotated[OptionalEnergyPerByte, Knob("Energy of what moves between an NPU and its memory (for "
                                                         "operation_energy).")] = default(None)

    @property
    def site(self) -> float | None:
        """Power usage effectiveness: the field, or that of the facility."""
        return self.pue if self.facility is None else pue_of(self.facility)

    @property
    def energy_price(self) -> float | None:
        """US dollars of a kWh: the field, or that of the tariff."""
        return self.electricity if self.tariff is None else tariff_of(self.tariff)

    @property
    def grid(self) -> float | None:
        """gCO2 of a kWh: the field, or that of the region."""
        return self.carbon_intensity if self.region is None else carbon_of(self.region)
