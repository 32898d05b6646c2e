"""What a run of profiled traces rests on: when its ranks began, whose trace represents all, what was not recorded."""

from __future__ import annotations

import numpy as np

from astrarium.design import Design
from astrarium.engine.plan import Order
from astrarium.errors import TraceError
from astrarium.lower.work import named_groups, replays_everything
from astrarium.profile.clocks import clocks_of
from astrarium.profile.recorded import world_size
from astrarium.result import Result
from astrarium.trace.columns import Traces
from astrarium.trace.groups import group_key
from astrarium.trace.linked import unrecorded_line
from astrarium.vocab import CommOp, NodeKind
from astrarium.workload.config import Trace

__all__ = ["trace_notes"]


def trace_notes(design: Design, result: Result) -> tuple[str, ...]:
    """Remarks on a finished run of traces; none on other traces than profiled ones, and under ASTRA-sim's rules."""
    workload, traces = design.workload, result.traces
    if not isinstance(workload, Trace) or not isinstance(traces, Traces):
        return ()
    said = unrecorded_line(traces.classes)
    return (*(() if said is None else (said,)), *_replayed(workload, result, traces),
            *_not_recorded(design, workload, traces))


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


def _not_recorded(design: Design, workload: Trace, traces: Traces) -> tuple[str, ...]:
    """Remarks on simulated collectives of profiled traces: ranks without a trace, collectives without bytes."""
    if not traces.is_recorded or replays_everything(design):
        return ()
    job, world, every, empty = world_size(traces, 0), 0, 0, 0
    everyone = [-1, *(number for number, text in enumerate(traces.texts) if group_key(text) in ("", "0"))]
    for number, columns in enumerate(traces.classes):
        chosen = columns.type[columns.comm_node] == NodeKind.COMM_COLL
        nodes, ranks = columns.comm_node[chosen], len(traces.members(number))
        world += int(np.isin(columns.group[:, chosen], everyone).sum())
        every += ranks * len(nodes)
        empty += ranks * int(((columns.comm_size[nodes] == 0) & (columns.comm_type[nodes] != CommOp.BARRIER)).sum())
    found = []
    if workload.rank is None and world and job is not None and job > traces.ranks:
        sent = (1 - 1 / traces.ranks) / (1 - 1 / job)       # of an all_reduce, by its bus bandwidth
        found.append(f"{traces.ranks} of the job's {job} ranks have a trace, and collectives of all ranks run among "
                     f"these {traces.ranks}, where each sends {100 * sent:.0f} % of what it sends among {job}, "
                     f"so what a slower network costs comes out too low; to simulate {job}, add the other traces, or "
                     f"give a design of {job} NPUs and --rank R")
    if empty:
        found.append(f"{empty:,} of {every:,} collectives have no recorded bytes and are simulated with 0 bytes: "
                     "bandwidth does not matter to them; a host trace has the bytes (astrarium trace link)")
    return tuple(found)
