"""Memory of a run."""

from __future__ import annotations

from astrarium.cost.figure import Figure
from astrarium.errors import InputError
from astrarium.result import Result

__all__ = ["PEAK_MEMORY"]


def _memory(result: Result) -> float:
    peak = result.peak_memory
    if peak is None:
        why = result.memory.problem or "the trace names no tensors"
        raise InputError("peak_memory", f"is not known ({why})", expected="a workload that says what it keeps")
    return float(peak)


PEAK_MEMORY = Figure(_memory, record=True, over_cases="largest")
