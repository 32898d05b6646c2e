"""Figures that objectives and requirements may name beside design paths."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from astrarium.design import Design
from astrarium.errors import InputError
from astrarium.network.cost import network_bandwidth, network_cost
from astrarium.result import Result
from astrarium.search.energy import check_powers, check_prices, energy, system_cost

__all__ = ["FIGURES", "NAMED", "Figure"]


@dataclass(frozen=True)
class Figure:
    """One figure. `of` a result (`record`: node times must be kept), of a design and its result, or of a design; over
    several cases it is `added` with their weights, or the `largest` counts. `least` is its smallest possible value;
    `check` refuses designs that do not say what it needs."""

    sentence: str
    of_result: Callable[[Result], float] | None = None
    of_both: Callable[[Design, Result], float] | None = None
    of_design: Callable[[Design], float] | None = None
    record: bool = False
    over_cases: Literal["added", "largest"] = "added"
    least: float = 0.0
    check: Callable[[Design], object] | None = None

    def measure(self, design: Design, result: Result) -> float:
        """The figure of a run; NaN for one of designs alone."""
        if self.of_both is not None:
            return self.of_both(design, result)
        return math.nan if self.of_result is None else self.of_result(result)


def _memory(result: Result) -> float:
    peak = result.peak_memory
    if peak is None:
        why = result.memory.problem or "the trace names no tensors"
        raise InputError("peak_memory", f"is not known ({why})", expected="a workload that says what it keeps")
    return float(peak)


def _phase(name: str) -> Callable[[Result], float]:
    def figure(result: Any) -> float:
        found = [each.per_token for each in result.phases if each.name == name]
        if not found:
            raise InputError("ttft" if name == "prefill" else "tpot", f"is not known: the workload has no {name}",
                             expected="source: inference or disaggregated, with that phase")
        return float(found[0]) / 1000
    return figure


def _of(name: str) -> Callable[[Result], float]:
    def figure(result: Any) -> float:
        return float(getattr(result, name))
    return figure


FIGURES: Mapping[str, Figure] = MappingProxyType({
    "makespan": Figure("Finish of the last rank, ns.", lambda result: result.makespan_ps / 1000, least=0.001),
    "exposed_comm": Figure("Exposed communication of the rank that finishes last, ns.", _of("exposed_comm"),
                           record=True),
    "compute_time": Figure("Compute time of the rank that finishes last, ns.", _of("compute"), record=True),
    "peak_memory": Figure("Highest use of local memory on any rank, bytes.", _memory, record=True,
                          over_cases="largest"),
    "ttft": Figure("Time to the first token of an inference workload, ns.", _phase("prefill"), record=True),
    "tpot": Figure("Time of each further token, ns.", _phase("decode"), record=True),
    "network_cost": Figure("US dollars of the network (LIBRA's prices).",
                           of_design=lambda design: network_cost(design.network), over_cases="largest"),
    "network_bandwidth": Figure("Byte/ns out of one NPU over all its links.",
                                of_design=lambda design: network_bandwidth(design.network), over_cases="largest",
                                least=1e-300),
    "energy": Figure("Joules of all NPUs and their network, from `power`, `idle_power` and the dims' `energy`.",
                     of_both=lambda design, result: energy(design, result).total, record=True, check=check_powers),
    "system_cost": Figure("US dollars of all NPUs (`compute.price`) and the network.", of_design=system_cost,
                          over_cases="largest", check=check_prices),
})
"""Every figure by its name. Times are ns, sizes bytes, bandwidths byte/ns."""

NAMED: Mapping[str, str] = MappingProxyType({
    "runtime_x_bandwidth": "makespan * network_bandwidth",
    "runtime_x_cost": "makespan * network_cost",
    "performance_per_bandwidth": "1e9 / (makespan * network_bandwidth)",
    "performance_per_cost": "1e9 / max(1, makespan * network_cost)",
    "throughput_per_dollar": "1e9 / max(1, makespan * system_cost)",
    "energy_x_delay": "energy * makespan",
})
"""Short names of objectives that papers use (COSMIC: runtime x bandwidth per NPU, runtime x network cost)."""
