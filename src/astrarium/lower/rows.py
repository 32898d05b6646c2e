"""What only a design knows of the rows of its result: capacities, and the number of the first rank."""

from __future__ import annotations

from typing import TYPE_CHECKING

from astrarium.engine import Outcome, Plan

if TYPE_CHECKING:
    from astrarium.design import Design

__all__ = ["capacities", "first_rank"]


def first_rank(design: Design) -> int:
    """The number of the first rank: another than 0 where one rank of a larger job runs alone."""
    from astrarium.lower.native_work import rank_count
    from astrarium.workload.config import Trace

    workload = design.workload
    return workload.rank or 0 if isinstance(workload, Trace) and rank_count(design) == 1 else 0


def capacities(design: Design, plan: Plan, outcome: Outcome) -> tuple[float | None, ...]:
    """[rows] bytes of each row's NPU, None where the design does not say; empty where it never does."""
    if not design.npu_types:
        most = design.memory.capacity
        return (float(most),) * len(outcome.finish) if most else ()
    from astrarium.design import npu_types
    from astrarium.result.nodes import first_ranks

    limits = [None if memory.capacity is None else float(memory.capacity) for _, memory in npu_types(design)[1]]
    if not any(limits):
        return ()
    kinds = npu_types(design)[0][plan.npu_of[first_ranks(outcome)]]
    return tuple(limits[kind] for kind in kinds.tolist())
