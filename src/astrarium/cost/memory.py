"""Memory of a run."""

from __future__ import annotations

import numpy as np

from astrarium.cost.figure import Figure
from astrarium.errors import InputError
from astrarium.result import Result

__all__ = ["PEAK_MEMORY", "TIER_USE"]


def _memory(result: Result) -> float:
    peak = result.peak_memory
    if peak is None:
        why = result.memory.problem or "the trace names no tensors"
        raise InputError("peak_memory", f"is not known ({why})", expected="a workload that says what it keeps")
    return float(peak)


def _tiers(result: Result) -> float:
    """The largest share of its part of a tier that any rank fills."""
    if not result.tiers:
        raise InputError("tier_use", "has no effect without tiers", expected="memory.tiers")
    shares = [float(np.nanmax(tier.peak)) / tier.capacity for tier in result.memory.tiers
              if not np.isnan(tier.peak).all()]
    if not shares:
        raise InputError("tier_use", "is not known (the trace names no tensors)",
                         expected="a workload that says what it keeps")
    return max(shares)


PEAK_MEMORY = Figure(_memory, record=True, over_cases="largest")
TIER_USE = Figure(_tiers, record=True, over_cases="largest")
