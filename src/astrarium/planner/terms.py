"""On what terms a plan is made: the `cost` section, what NPUs draw, budgets of money and power, the objective."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from astrarium.catalog.market import check_device
from astrarium.config.base import ConfigError, decode_into
from astrarium.config.named import LIKE
from astrarium.config.spec import Problem
from astrarium.cost.assumed import POWERS, assumptions, catalog_powers, rents, usual_cost
from astrarium.errors import InputError, nearest
from astrarium.market import Cost
from astrarium.planner.objective import OBJECTIVES
from astrarium.units import Money, Power, Quantity

__all__ = ["Terms", "cost_of", "powers_of", "terms_of"]

WHOLE = frozenset({LIKE, "host", "device", "rental"})
"""Fields that price a system; without one of them, the others change the usual row."""


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


def cost_of(terms: Terms, device: str, assumed: list[str]) -> Cost:
    """The `cost` section of a device's machines; adds to `assumed` what the caller left open. Raises InputError, also
    for prices of another device."""
    given = dict(terms.cost)
    if not given.keys() & WHOLE:
        try:
            given = {LIKE: usual_cost(device), **given}
        except InputError:
            if not given:
                raise
        else:
            others = [f"{name} ({rent})" for name, rent in rents(device).items() if name != given[LIKE]]
            several = f"{others[0]} to {others[-1]}, see astrarium list part" if len(others) > 2 else ", ".join(others)
            assumed.append(f"cost: {given[LIKE]}" + (f" (or rents, with --cost NAME: {several})" if others else ""))
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
    """What an NPU draws: what the caller says, else the device's row. What neither says is left out."""
    return catalog_powers(device, terms.compute, assumed)
