"""What it costs to run: energy, an hour, a training run, 10^12 tokens; in money and in CO2.

    an hour of work = (capital / lifetime + price (u P + (1 - u) P_waiting)) / u      (bought)
                    = NPUs x rent                                                     (rented; energy is in the rent)

with the mean power P of the site during the run, its power P_waiting while nothing runs, the price of energy, and the
utilisation u: the hours in which the cluster works pay for those in which it waits. A training run takes as many hours
as its tokens do at the simulated rate, without failures, restarts and evaluations. CO2 is that of the energy of the
run, by the mean intensity of the grid.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from astrarium.cost.capital import capital_cost, dollars
from astrarium.cost.figure import Figure, plain_number, refuse_without, without
from astrarium.cost.power import check_site, mean_power, missing_site, site_energy, site_power
from astrarium.cost.rent import rent_per_hour
from astrarium.cost.tokens import TERA, seconds_of, tokens_of
from astrarium.design import Design
from astrarium.errors import InputError
from astrarium.result import Result

__all__ = ["CARBON", "CARBON_PER_TERA_TOKENS", "COST_PER_HOUR", "ENERGY_COST", "ENERGY_PER_TERA_TOKENS",
           "OWNED_COST_PER_TERA_TOKENS", "TRAINING_COST", "carbon_of_run", "check_carbon", "check_hourly",
           "cost_of_run", "cost_per_hour"]

HOUR, KWH = 3600.0, 3.6e6


def _missing(design: Design, names: Sequence[str]) -> list[str]:
    said = {"cost.electricity (or cost.tariff)": design.cost.energy_price, "cost.lifetime": design.cost.lifetime,
            "cost.carbon_intensity (or cost.region)": design.cost.grid}
    return [path for path, value in said.items() if value is None and any(name in path for name in names)]


def _check_energy(figure: str, *names: str) -> Callable[[Design], None]:
    def check(design: Design) -> None:
        if design.cost.rental is None:
            refuse_without(figure, [*missing_site(design), *_missing(design, names)],
                           "the `cost` section of the design, and what its NPUs draw")
        check_site(design, figure)
    return check


def check_hourly(design: Design, figure: str = "cost_per_hour") -> None:
    """Raises InputError that names all that an hour's price needs."""
    if rent_per_hour(design) is not None:
        return
    if design.cost.host is None:
        refuse_without(figure, list(without(design, "hourly_price")), "US dollars of an NPU for an hour; cost.rental; "
                       "or cost.host and what else buying needs")
    _check_energy(figure, "electricity", "lifetime")(design)


def cost_per_hour(design: Design, result: Result) -> float:
    """US dollars of an hour of work. Raises InputError for what is missing."""
    check_hourly(design)
    rent = rent_per_hour(design)
    if rent is not None:
        return rent
    cost, power = design.cost, site_power(design)
    watts = cost.utilisation * mean_power(design, result) + (1 - cost.utilisation) * power.waiting
    energy = watts * HOUR / KWH * (cost.energy_price or 0.0)
    return (capital_cost(design) / (cost.lifetime or 1.0) + energy) / cost.utilisation


def _energy_cost(design: Design, result: Result) -> float:
    return site_energy(design, result) / KWH * (design.cost.energy_price or 0.0)


def check_carbon(design: Design, figure: str = "carbon") -> None:
    """Raises InputError that names all that the CO2 of the energy needs."""
    _check_energy(figure, "carbon_intensity")(design)


def carbon_of_run(design: Design, result: Result) -> float:
    """kgCO2 of the energy of a run."""
    return site_energy(design, result) / KWH * (design.cost.grid or 0.0) / 1000


def _per_tera(amount: Callable[[Design, Result], float], figure: str) -> Callable[[Design, Result], float]:
    return lambda design, result: amount(design, result) / tokens_of(figure, design) * TERA


def cost_of_run(design: Design, result: Result) -> float:
    """US dollars of the time that a run takes."""
    return cost_per_hour(design, result) / HOUR * seconds_of(result)


def _check_tokens(figure: str, check: Callable[[Design], object]) -> Callable[[Design], None]:
    def both(design: Design) -> None:
        tokens_of(figure, design)
        check(design)
    return both


def _check_training(design: Design) -> None:
    tokens_of("training_cost", design)
    if design.cost.tokens is None:
        raise InputError("training_cost", "is not known without cost.tokens", expected="tokens of the training run")
    check_hourly(design, "training_cost")


def _check_owned(design: Design) -> None:
    tokens_of("owned_cost_per_tera_tokens", design)
    if rent_per_hour(design) is not None:
        raise InputError("owned_cost_per_tera_tokens", "is not known of rented NPUs", expected="cost_per_tera_tokens, "
                         "or cost.host and what else buying needs")
    check_hourly(design, "owned_cost_per_tera_tokens")


ENERGY_COST = Figure(of_both=_energy_cost, record=True, check=_check_energy("energy_cost", "electricity"),
                     label="price of the energy", shown=dollars)
COST_PER_HOUR = Figure(of_both=cost_per_hour, record=True, over_cases="mean", check=check_hourly,
                       label="price of an hour", shown=dollars)
TRAINING_COST = Figure(
    of_both=lambda design, result: _per_tera(cost_of_run, "training_cost")(design, result) / TERA
    * (design.cost.tokens or 0.0), record=True, check=_check_training, label="price of the training run", shown=dollars,
    of_time=1)
OWNED_COST_PER_TERA_TOKENS = Figure(
    of_both=_per_tera(cost_of_run, "owned_cost_per_tera_tokens"), record=True, over_cases="mean", check=_check_owned,
    label="price of 10^12 tokens, bought", shown=dollars, of_time=1)
ENERGY_PER_TERA_TOKENS = Figure(
    of_both=_per_tera(lambda design, result: site_energy(design, result) / KWH, "energy_per_tera_tokens"), record=True,
    over_cases="mean", check=_check_tokens("energy_per_tera_tokens", _check_energy("energy_per_tera_tokens")),
    label="energy of 10^12 tokens", shown=lambda value: f"{plain_number(value)} kWh", of_time=1)
CARBON = Figure(of_both=carbon_of_run, record=True, check=check_carbon,
                label="CO2 of the energy", shown=lambda value: f"{plain_number(value)} kg CO2")
CARBON_PER_TERA_TOKENS = Figure(
    of_both=_per_tera(carbon_of_run, "carbon_per_tera_tokens"), record=True, over_cases="mean",
    check=_check_tokens("carbon_per_tera_tokens", _check_energy("carbon_per_tera_tokens", "carbon_intensity")),
    label="CO2 of 10^12 tokens", shown=lambda value: f"{plain_number(value)} kg CO2", of_time=1)
