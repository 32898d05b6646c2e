"""On what terms a plan is made: the `cost` section, what NPUs draw, budgets of money and power, the objective."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct, field

from astrarium import catalog
from astrarium.catalog.market import check_device, part
from astrarium.config.base import ConfigError, decode_into
from astrarium.config.named import LIKE
from astrarium.config.spec import Problem
from astrarium.errors import InputError, nearest
from astrarium.market import Cost
from astrarium.planner.objective import OBJECTIVES
from astrarium.units import EnergyPrice, Lifetime, Money, Power, Quantity

__all__ = ["Terms", "assumptions", "cost_of", "powers_of", "terms_of", "usual_cost"]

POWERS = ("power", "idle_power")
IDLE = 80 / 700     # power of an idle NPU over its limit: an H100's, whose row has the sources of both


class Terms(Struct, frozen=True):
    """`cost`: fields of the section, `like` a row of the catalog among them; `compute`: what an NPU draws, where the
    catalog does not say it. `budget` US dollars of all that is bought, `power` W of the site; None: no limit."""

    objective: str = "time"
    cost: Mapping[str, Any] = field(default_factory=dict)
    compute: Mapping[str, Any] = field(default_factory=dict)
    budget: float | None = None
    power: float | None = None

    @property
    def needed(self) -> bool:
        """Whether figures of cost are asked for."""
        return bool(self.objective != "time" or self.cost or self.budget is not None or self.power is not None)


def terms_of(objective: str, cost: str | Mapping[str, Any] | None, budget: object, power: object) -> Terms:
    """Terms as a caller writes them. Raises InputError, which names the argument."""
    if objective not in OBJECTIVES:
        raise InputError("objective", f"{objective[:60]!r} is not known", expected="one of " + ", ".join(OBJECTIVES),
                         did_you_mean=nearest(objective, OBJECTIVES))
    given = {LIKE: cost} if isinstance(cost, str) else dict(cost or {})
    compute = {name.partition(".")[2]: given.pop(name) for name in list(given) if name.startswith("compute.")}
    unknown = next((name for name in compute if name not in POWERS), None)
    if unknown is not None:
        raise InputError(f"cost: compute.{unknown}", "is no figure of cost", expected="compute.power or "
                         "compute.idle_power")
    return Terms(objective, given, compute, _quantity("budget", Money, budget), _quantity("power", Power, power))


def _quantity(name: str, kind: type[Quantity], value: object) -> float | None:
    if value is None:
        return None
    try:
        found = float(kind(value))
    except InputError as error:
        raise InputError(name, error.message, expected=error.expected, did_you_mean=error.did_you_mean) from None
    if not found > 0:
        raise InputError(name, f"{value!r} buys nothing", expected=f"more than 0: {kind.expected()}")
    return found


def usual_cost(device: str) -> str:
    """The first row of whole `cost` sections whose host or device is of `device`. Raises InputError."""
    for name, row in catalog.load("costs").items():
        parts = [part(row["cost"][key]) for key in ("host", "device") if key in row["cost"]]
        if any(each.device == device for each in parts):
            return name
    priced = [name for name, row in catalog.load("parts").items() if row.get("device") == device]
    raise InputError("cost", f"the catalog has no whole section of prices of {device}"
                     + (f" (its parts: {', '.join(priced)})" if priced else ", and no part of it"),
                     expected="--cost: a row of costs (`astrarium list cost`, or your own in --catalog), or fields, "
                     "such as --cost host=... --cost switch=...")


def cost_of(terms: Terms, device: str, assumed: list[str]) -> Cost:
    """The `cost` section of a device's machines; adds to `assumed` what the caller left open. Raises InputError, also
    for prices of another device."""
    given = dict(terms.cost)
    if not given:
        given = {LIKE: usual_cost(device)}
        assumed.append(f"cost: {given[LIKE]}")
    problems: list[Problem] = []
    found = decode_into(Cost, given, "cost", problems)
    if problems:
        raise ConfigError(problems)
    assert isinstance(found, Cost)
    for name in ("host", "device", "rental"):
        check_device(f"cost.{name}", getattr(found, name), device)
    assumed += assumptions(found)
    return found


def powers_of(terms: Terms, device: str, assumed: list[str]) -> dict[str, Any]:
    """What an NPU draws: what the caller says, else the device's row. A power that neither says is left out; an idle
    power is then assumed."""
    row = catalog.device(device).row
    found = {name: terms.compute.get(name, row.get(name)) for name in POWERS}
    said = [f"{name.replace('_', ' ')} {found[name]}" for name in POWERS if found[name] is not None]
    source = "" if terms.compute else " (catalog: the limit of its data sheet)"
    assumed += [f"an NPU's {' and '.join(said)}{source}"] if said else []
    if found["idle_power"] is None and found["power"] is not None:
        found["idle_power"] = f"{IDLE * float(Power(found['power'])):.4g} W"
        assumed.append(f"an idle {device} draws {found['idle_power']} (not published: {IDLE:.1%} of its limit, as an "
                       "H100; to change: --cost compute.idle_power=...)")
    return {name: value for name, value in found.items() if value is not None}


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
