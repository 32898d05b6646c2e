"""Memory of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from astrarium.cost.figure import Figure
from astrarium.design import Design
from astrarium.errors import InputError
from astrarium.result import Result
from astrarium.units import format_bytes

if TYPE_CHECKING:
    from astrarium.lower.kept import Kept

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


def _least(design: Design, kept: Kept) -> float:
    """Of a training step; 0 for other workloads."""
    from astrarium.lower.placement import placed_of  # only searches ask
    from astrarium.workload.least_memory import least_memory
    from astrarium.workload.training import recipe_of
    from astrarium.workload.transformer import Transformer

    work = design.workload
    if not isinstance(work, Transformer):
        return 0.0
    placed = placed_of(design, kept)
    return kept.memory.get((work, placed), lambda: least_memory(recipe_of(work, kept.forms, placed)))


PEAK_MEMORY = Figure(_memory, record="nodes", over_cases="largest", at_least=_least, shown=format_bytes)
TIER_USE = Figure(_tiers, record="nodes", over_cases="largest")
