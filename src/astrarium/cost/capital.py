"""What a design costs to buy, piece by piece: hosts, devices, cards, switches, links with their optics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from astrarium.catalog.market import Part, check_device, part
from astrarium.catalog.technology import link_technology
from astrarium.cost.counts import Counts, counts, needed
from astrarium.cost.figure import Figure, plain_number, refuse_without
from astrarium.design import Design
from astrarium.errors import InputError, UnsupportedError

__all__ = ["CAPITAL_COST", "EMBODIED_CARBON", "Line", "bill", "capital_cost", "dollars", "embodied_carbon"]


class Line(Struct, frozen=True):
    """A number of pieces of a part of the catalog, and the price of each in US dollars."""

    what: str
    part: str
    count: int
    price: float

    @property
    def total(self) -> float:
        """US dollars of all of them."""
        return self.count * self.price


def bill(design: Design) -> tuple[Line, ...]:
    """The pieces that a design is bought as. Raises InputError that names every missing path of the `cost` section, and
    for parts of another device than `compute.device`."""
    _one_type(design)
    for name in ("host", "device"):
        check_device(f"cost.{name}", getattr(design.cost, name), getattr(design.compute, "device", None))
    refuse_without("capital_cost", list(_missing(design)), "parts of the catalog (`astrarium list part`), or a whole "
                   "section (`astrarium list cost`)")
    found = counts(design)
    return tuple(line for line in _lines(design, found) if line.count)


def _one_type(design: Design) -> None:
    other = next((place for place, kind in enumerate(design.npu_types) if kind.compute is not None), None)
    if other is not None:
        raise UnsupportedError(f"npu_types[{other}].compute", "is another device, and hosts of one kind are bought",
                               expected="one type of NPU")


def _missing(design: Design) -> Iterator[str]:
    """Paths that the bill needs and the design does not say."""
    cost = design.cost
    if cost.rental is not None:
        raise InputError("cost.rental", f"{cost.rental} is rented, so nothing is bought", expected="cost.host")
    host = None if cost.host is None else part(cost.host)
    if host is None:
        yield "cost.host"
    elif "device" not in host.includes and cost.device is None:
        yield "cost.device"
    parts = list(needed(design))
    if parts and (host is None or "nic" not in host.includes):
        parts.append("nic")
    yield from (f"cost.{name}" for name in parts if getattr(cost, name) is None)


def _lines(design: Design, found: Counts) -> Sequence[Line]:
    cost = design.cost
    assert cost.host is not None
    host = part(cost.host)
    devices = [] if "device" in host.includes else [_line("devices", cost.device, found.npus)]
    each = sum(line.total for line in devices) / found.hosts
    price = host.price if host.price is not None else (host.share or 0.0) * each
    lines = [*devices, Line("hosts", host.name, found.hosts, price)]
    if "nic" not in host.includes:
        lines.append(_line("cards", cost.nic, found.nics))
    lines.append(_line("switches", cost.switch, found.switches))
    for cables in found.cables:
        if cables.technology:
            price = link_technology(cables.technology).price or 0.0
            lines += [Line("links", cables.technology, cables.links, price),
                      Line("links between switches", cables.technology, cables.trunks, price)]
            continue
        tier = f", {cables.tier.replace('_', '-')}" if cables.tier else ""
        lines += [_line(f"links{tier}", cost.link, cables.links),
                  _line(f"links between switches{tier}", cost.trunk, cables.trunks, "cost.trunk")]
    return lines


def _line(what: str, name: str | None, count: int, path: str = "") -> Line:
    """A line of one part; without pieces no part is needed."""
    if name is None and count:
        raise InputError(path, f"is missing: there are {count:,} {what}", expected="a link of the catalog "
                         "(`astrarium list part`)")
    return Line(what, name or "", count, 0.0 if name is None else _price(part(name)))


def _price(found: Part) -> float:
    return found.price or 0.0


def capital_cost(design: Design) -> float:
    """US dollars of all pieces. Raises InputError where a price is missing, or parts and dims do not fit."""
    return sum(line.total for line in bill(design))


def embodied_carbon(design: Design) -> float:
    """kgCO2 emitted to make the hosts, as far as their part says. Raises InputError where it says nothing."""
    name = design.cost.host
    found = None if name is None else part(name).embodied
    if found is None:
        refuse_without("embodied_carbon", [f"catalog.parts.{name}.embodied" if name else "cost.host"],
                       "a host whose maker publishes its footprint")
    return counts(design).hosts * (found or 0.0)


def dollars(value: float) -> str:
    """US dollars for a person."""
    return f"{value:,.0f} US dollars" if value >= 100 else f"{value:,.4g} US dollars"


CAPITAL_COST = Figure(of_design=capital_cost, over_cases="largest", check=bill, label="price of all that is bought",
                      shown=dollars)
EMBODIED_CARBON = Figure(of_design=embodied_carbon, over_cases="largest", check=embodied_carbon,
                         label="CO2 of making the hosts", shown=lambda value: f"{plain_number(value)} kg CO2")
