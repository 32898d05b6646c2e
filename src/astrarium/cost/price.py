"""What a system costs: the prices of the NPUs, of their memory where it is a technology, and of the network."""

from __future__ import annotations

import numpy as np

from astrarium.cost.figure import Figure, refuse_without, without
from astrarium.design import Design, npu_types
from astrarium.memory.config import Memory
from astrarium.network.cost import network_cost

__all__ = ["SYSTEM_COST", "system_cost"]


def system_cost(design: Design) -> float:
    """US dollars of all NPUs and of the network (LIBRA's prices). Raises InputError where a price is missing."""
    _check_prices(design)
    kinds, types = npu_types(design)
    counts = np.bincount(kinds, minlength=len(types))
    return network_cost(design.network) + sum(int(count) * (float(compute.price or 0) + _of_memory(memory))
                                              for count, (compute, memory) in zip(counts, types, strict=True))


def _of_memory(memory: Memory) -> float:
    """US dollars of the local memory of an NPU, where it is a technology: else the NPU's price is with it."""
    return 0.0 if memory.made_of is None else memory.pieces * (memory.made_of.price or 0.0)


def _check_prices(design: Design) -> None:
    missing = list(without(design, "price"))
    made_of = dict.fromkeys(memory.made_of for _, memory in npu_types(design)[1])
    missing += [f"catalog.memories.{each.name}.price" for each in made_of if each is not None and each.price is None]
    refuse_without("system_cost", missing, "US dollars of an NPU, and of its memory where that is a technology")


SYSTEM_COST = Figure(of_design=system_cost, over_cases="largest", check=_check_prices, label="price of the system",
                     shown=lambda value: f"{value:,.0f} US dollars")
