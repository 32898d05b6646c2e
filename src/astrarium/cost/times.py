"""Times of a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from astrarium.cost.figure import Figure
from astrarium.design import Design
from astrarium.errors import InputError
from astrarium.result import Result
from astrarium.units import format_time

if TYPE_CHECKING:
    from astrarium.lower.kept import Kept

__all__ = ["COMPUTE_TIME", "EXPOSED_COMM", "MAKESPAN", "TPOT", "TTFT"]


def _phase(name: str) -> Callable[[Result], float]:
    def figure(result: Any) -> float:
        found = [each.per_token for each in result.phases if each.name == name]
        if not found:
            raise InputError("ttft" if name == "prefill" else "tpot", f"is not known: the workload has no {name}",
                             expected="source: inference or disaggregated, with that phase")
        return float(found[0]) / 1000
    return figure


def _least(design: Design, kept: Kept) -> float:
    from astrarium.bounds.training import least_time  # only searches ask

    return least_time(design, kept)


MAKESPAN = Figure(lambda result: result.at_least_ps / 1000, least=0.001, at_least=_least, shown=format_time, of_time=1)
EXPOSED_COMM = Figure(lambda result: float(result.exposed_comm), record=True)
COMPUTE_TIME = Figure(lambda result: float(result.compute), record=True)
TTFT = Figure(_phase("prefill"), record=True)
TPOT = Figure(_phase("decode"), record=True)
