"""What a stream costs, draws and emits: US dollars, J and kg of CO2 of tokens and of requests.

They are those of all NPUs of the design while it serves, at the rates of `cost.rates`. An NPU computes for as long as
its server is at a step, communication and launches included, so energy is an upper bound there. Each figure puts all of
it on one kind of token: it is not divided between prompts and answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from msgspec import Struct

from astrarium.catalog.market import part
from astrarium.cost.assumed import with_prices
from astrarium.cost.capital import dollars
from astrarium.cost.rates import RATES, Rate
from astrarium.design import Design
from astrarium.errors import InputError
from astrarium.serving.outcome import Served

__all__ = ["PER", "SHOWN", "Prices", "amounts", "prices_of"]

SECOND, KWH, MEGA = 1e9, 3.6e6, 1e6     # ns; J; tokens
PER: Mapping[str, str] = MappingProxyType({
    "per_mega_tokens": "output_tokens_per_s", "per_mega_input_tokens": "prompt_tokens_per_s",
    "per_request": "requests_per_s"})
"""What amounts are put on -> its rate in `Served.rates`."""
SHOWN: Mapping[str, Callable[[float], str]] = MappingProxyType({
    "cost": dollars, "energy": lambda value: f"{value:,.4g} J", "carbon": lambda value: f"{value:,.4g} kg CO2"})


class Prices(Struct, frozen=True):
    """`amounts`: name (`cost`, `energy`, `carbon`) -> key of PER -> amount; `assumed`: what they rest on, in words;
    `unknown`: name -> what it would need."""

    amounts: Mapping[str, Mapping[str, float]]
    assumed: tuple[str, ...]
    unknown: Mapping[str, str]

    @property
    def plain(self) -> dict[str, float]:
        """Name of each figure -> value."""
        return {f"{name}_{key}": value for name, each in self.amounts.items() for key, value in each.items()}


def amounts(name: str, rate: Rate, served: Served) -> Mapping[str, float]:
    """US dollars, J or kg of CO2 of 10^6 output tokens, of 10^6 tokens of prompts, of a request."""
    second = rate.value(SECOND, SECOND * min(1.0, served.busy_share)) * (KWH if name == "energy" else 1.0)
    rates = served.rates(served.window)
    return {key: float(second / rates[each]) * (MEGA if "mega" in key else 1.0)
            for key, each in PER.items() if rates[each]}


def prices_of(design: Design, served: Served) -> Prices:
    """The amounts that are known, with the catalog's prices where the design has none."""
    priced, assumed = with_prices(design)
    found, unknown = dict[str, Mapping[str, float]](), dict[str, str]()
    for name, rate_of in RATES.items():
        try:
            found[name] = amounts(name, rate_of(priced, name), served)
        except InputError as error:
            unknown[name] = str(error)
    host = priced.cost.host if "cost" in found else None
    if host is not None and part(host).npus > priced.network.npus:
        assumed = (*assumed, f"a whole {host}: {priced.network.npus} of its {part(host).npus} NPUs serve")
    return Prices(found, assumed if found else (), unknown)
