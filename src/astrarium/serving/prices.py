"""What a stream costs, draws and emits: US dollars, J and kg of CO2 of tokens and of requests.

They are those of all NPUs of the design while it serves, at the rates of `cost.rates`; of a host that the design does
not fill, its share (`cost.shares`), as in `plan --for serving`. An NPU computes for as long as its server is at a step,
communication and launches included, so energy is an upper bound there. Each figure puts all of it on one kind of token:
it is not divided between prompts and answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from msgspec import Struct

from astrarium.cost.assumed import with_prices
from astrarium.cost.rates import RATES
from astrarium.cost.shares import on_whole_host, shares
from astrarium.design import Design
from astrarium.errors import InputError
from astrarium.serving.outcome import PS, Served

__all__ = ["Prices", "amounts", "prices_of"]

SECOND = 1e9     # ns
DONE: Mapping[str, str] = MappingProxyType({
    "per_mega_tokens": "output_tokens_per_s", "per_mega_input_tokens": "prompt_tokens_per_s",
    "per_request": "requests_per_s"})
"""What amounts are put on (`cost.shares.PER`) -> its rate in `Served.rates`."""


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


class Valued(Protocol):
    """What grows with time: `cost.rates.Rate`, or an objective of a plan."""

    def value(self, time: float, busy: float) -> float:
        """The amount of `time` ns, of which NPUs compute `busy` ns in the mean."""
        ...


def amounts(name: str, rates: Sequence[tuple[Valued, float]], served: Served) -> Mapping[str, float]:
    """US dollars, J or kg of CO2 of 10^6 output tokens, of 10^6 tokens of prompts, of a request. `rates` of each entry
    of the fleet, each with the share of it that the entry pays for: its instances count for the whole time, those that
    are down or not there yet as idle ones."""
    busy = [part.busy / PS / served.span / part.servers for part in served.parts]
    second = sum(rates[part.member][0].value(SECOND, SECOND * min(1.0, share)) * rates[part.member][1]
                 for part, share in zip(served.parts, busy, strict=True))
    per = served.rates(served.window)
    return shares(name, second, {key: per[each] for key, each in DONE.items()})


def prices_of(designs: Sequence[Design], served: Served) -> Prices:
    """The amounts that are known, with the catalog's prices where a design has none. `designs`: of each entry of the
    fleet."""
    priced = [with_prices(design, shared=True) for design in designs]
    bought = [on_whole_host(design) for design, _ in priced]
    assumed = [text for _, texts in priced for text in texts]
    found, unknown = dict[str, Mapping[str, float]](), dict[str, str]()
    for name, rate_of in RATES.items():
        try:
            found[name] = amounts(name, [(rate_of(design, name), share) for design, share in bought], served)
        except InputError as error:
            unknown[name] = str(error)
    return Prices(found, tuple(dict.fromkeys(assumed)) if found else (), unknown)
