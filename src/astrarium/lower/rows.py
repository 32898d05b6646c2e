"""What only a design knows of its result: capacities, names of a fabric's links, the number of the first rank."""

from __future__ import annotations

from typing import TYPE_CHECKING

from astrarium.engine import Outcome, Plan

if TYPE_CHECKING:
    from astrarium.design import Design
    from astrarium.result.links import LinkNames

__all__ = ["capacities", "fabric_names", "first_rank"]


def first_rank(design: Design) -> int:
    """The number of the first rank: another than 0 where one rank of a larger job runs alone."""
    from astrarium.lower.work import rank_count
    from astrarium.workload.config import Trace

    workload = design.workload
    return workload.rank or 0 if isinstance(workload, Trace) and rank_count(design) == 1 else 0


def fabric_names(design: Design) -> LinkNames | None:
    """What nodes and links of the graph are called that a design runs on; None where it runs on dims."""
    if design.network.fabric is None:
        return None
    from astrarium.network.planned import built_of, on_graph

    return built_of(design.network) if on_graph(design.network) else None


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
