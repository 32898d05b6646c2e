"""Money, energy and CO2 put on the tokens and requests of inference: the one place that divides them.

NPUs that are fewer than those of their host pay for their share of it: other engines have the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from astrarium.catalog.market import part
from astrarium.config import replace_all
from astrarium.cost.capital import dollars
from astrarium.cost.figure import plain_number
from astrarium.design import Design
from astrarium.system.config import System

__all__ = ["PER", "SHOWN", "on_whole_host", "shares"]

KWH, MEGA = 3.6e6, 1e6     # J; tokens
PER: Mapping[str, float] = MappingProxyType({
    "per_mega_tokens": MEGA, "per_mega_input_tokens": MEGA, "per_request": 1.0})
"""What amounts are put on (tokens are output tokens, unless of the input) -> how many of them."""
SHOWN: Mapping[str, Callable[[float], str]] = MappingProxyType({
    "cost": dollars, "energy": lambda value: f"{plain_number(value)} J",
    "carbon": lambda value: f"{plain_number(value)} kg CO2"})
"""Name of an amount -> how a person reads it."""


def shares(name: str, amount: float, done: Mapping[str, float]) -> dict[str, float]:
    """The share of each unit of work in an amount, all of which is put on each kind of work.

    Args:
        name: `cost`, `energy` or `carbon`.
        amount: US dollars, kWh or kg of CO2 (as `cost.rates` gives them).
        done: Key of PER -> tokens or requests for which the amount was spent; of 0 there is no share.

    Returns:
        Key of PER -> US dollars, J or kg of CO2.
    """
    unit = KWH if name == "energy" else 1.0
    return {key: float(amount * unit / done[key]) * many for key, many in PER.items() if done.get(key)}


def on_whole_host(design: Design) -> tuple[Design, float]:
    """(the machine of an inference design with its one host full, the share of it that the design has). Where the
    design's NPUs fill hosts, are rented one by one, or are not in one dim: (the design, 1)."""
    from astrarium.workload.inference.config import Inference  # runs of anything else start without it

    cost, network = design.cost, design.network
    size = 0 if cost.host is None or cost.rental is not None else part(cost.host).npus
    if network.fabric is not None or len(network.flat) > 1 or design.npu_types or network.npus >= size:
        return design, 1.0
    work: Any = design.workload
    base = Inference(work.model, phase="decode", context=1)
    whole = Design(workload=base, network=replace_all(network, {"dims[0].npus": size}), compute=design.compute,
                   memory=design.memory, system=System(placement=[0]), cost=cost)
    return whole, network.npus / size
