"""What a run of profiled traces rests on: when its ranks began, or whose trace represents all."""

from __future__ import annotations

from astrarium.engine.plan import Order
from astrarium.errors import TraceError
from astrarium.lower.work import named_groups
from astrarium.profile.clocks import clocks_of
from astrarium.profile.recorded import world_size
from astrarium.result import Result
from astrarium.trace.columns import Traces
from astrarium.trace.linked import unrecorded_line
from astrarium.workload.config import Trace

__all__ = ["trace_notes"]


def trace_notes(workload: Trace, result: Result) -> tuple[str, ...]:
    """Remarks on a finished run of traces; none on other traces than profiled ones, and under ASTRA-sim's rules."""
    traces = result.traces
    if not isinstance(traces, Traces):
        return ()
    said = unrecorded_line(traces.classes)
    return (*(() if said is None else (said,)), *_replayed(workload, result, traces))


def _replayed(workload: Trace, result: Result, traces: Traces) -> tuple[str, ...]:
    if workload.rank is not None:
        return (_of_one(workload.rank, traces),)
    recorded = result.plan.policy.order == Order.CANONICAL and traces.is_recorded
    if workload.starts != "recorded" or not recorded:
        return ()
    try:
        clocks = clocks_of(traces, named_groups(workload, traces))
    except TraceError as error:
        return (f"collectives of groups take their recorded times and do not wait: {error}",)
    return () if clocks is None else clocks.lines


def _of_one(rank: int, traces: Traces) -> str:
    if traces.ranks > 1:
        return (f"all {traces.ranks} ranks run the trace of rank {rank}: a what-if of equal ranks, where no "
                "rank waits for a slower one")
    job = world_size(traces, 0)
    return (f"rank {rank} alone{f' of {job}' if job else ''}: its collectives take their recorded times, waits for the "
            "others included")
