"""Machines of engines of every size, and what they cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from astrarium.catalog.market import part
from astrarium.errors import InputError
from astrarium.market import Cost
from astrarium.network.config import Network
from astrarium.planner.machine import Machine, machine_of
from astrarium.planner.serving.prices import Price, price_of
from astrarium.planner.serving.service import Service
from astrarium.planner.terms import Terms, cost_of, powers_of

__all__ = ["Machines", "Prices", "prices_of"]

SHARED = "an engine pays for its share of a host; one of several hosts also for the network between them"


class Machines(Struct, frozen=True):
    """Machines of some devices, of `most` NPUs at most; the other arguments are those of `machine_of`."""

    devices: Sequence[str]
    most: int
    network: str | Network | None
    compute: str | None
    collectives: str | None
    stack: str | None
    made: dict[tuple[str, int], Machine] = field(default_factory=dict)

    def of(self, device: str, npus: int) -> Machine:
        """A machine of so many NPUs. Raises InputError."""
        if (device, npus) not in self.made:
            self.made[device, npus] = self.new(device, npus)
        return self.made[device, npus]

    def new(self, device: str, npus: int, **more: Any) -> Machine:
        """A machine with other fields, too."""
        return machine_of(device, npus, self.network, self.compute, self.collectives, self.stack, **more)

    def largest(self, device: str) -> Machine:
        """The machine of the most NPUs that are a power of two."""
        return self.of(device, 1 << self.most.bit_length() - 1)

    @property
    def models(self) -> tuple[str, ...]:
        """Which models say how long things take; where devices have different ones, those of each."""
        found: dict[str, list[str]] = {}
        for device in self.devices:
            found.setdefault(self.largest(device).models, []).append(device)
        return tuple(text if len(found) == 1 else f"{text} ({', '.join(names)})" for text, names in found.items())


class Prices(Struct, frozen=True):
    """Prices of engines of every size. `costs`: device -> what is bought, and what an NPU draws; `needed`: the
    objective that ranks them."""

    machines: Machines
    service: Service
    needed: str
    costs: Mapping[str, tuple[Cost, Mapping[str, Any]]]
    made: dict[tuple[str, int], Price] = field(default_factory=dict)

    def of(self, device: str, npus: int = 1) -> Price | None:
        """The price of an engine: of one host for engines that it holds (they pay for their share of it), else of the
        engine's hosts with the network between them; None if it is not known. Raises InputError."""
        if device not in self.costs:
            return None
        cost, powers = self.costs[device]
        size = max(npus, 0 if cost.host is None else part(cost.host).npus)
        if (device, size) not in self.made:
            machine = self.machines.new(device, size, cost=cost, powers=powers)
            self.made[device, size] = price_of(machine, self.service, self.needed)
        return self.made[device, size]


def prices_of(machines: Machines, service: Service, terms: Terms, assumed: list[str]) -> Prices:
    """The prices of some devices, as far as they are known; adds to `assumed` what the caller left open. Raises
    InputError for prices that the terms ask for and that are not known."""
    costs: dict[str, tuple[Cost, Mapping[str, Any]]] = {}
    for device in machines.devices:
        said: list[str] = []
        try:
            cost = cost_of(terms, device, said)
        except InputError:
            if terms.needed:
                raise
            assumed.append(f"no prices of {device} are in the catalog (--cost)")
            continue
        costs[device] = cost, powers_of(terms, device, said)
        assumed += [*([] if cost.host is None else [SHARED]), *said]
    return Prices(machines, service, terms.objective, costs)
