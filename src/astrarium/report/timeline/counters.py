"""Counters of a timeline: the memory that each rank holds, locally and in tiers, and how busy each dim's links are."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from astrarium.engine import Outcome, Plan
from astrarium.report.timeline.run import Counter
from astrarium.result import Result
from astrarium.result.links import dims_of, links_of

__all__ = ["memory_counters", "network_counters", "queue_counters"]

SHOWN = 16      # queues


def memory_counters(result: Result) -> Callable[[int], Sequence[Counter]]:
    """`Recorded.counters` of a result; ranks whose traces name no tensors have none."""
    def of(rank: int) -> Sequence[Counter]:
        row = int(result.outcome.row[rank])
        places = {"memory": None, **{f"memory in {tier.name}": tier.name for tier in result.memory.tiers if tier.used}}
        found = [(name, *result.memory.over_time(row, tier)) for name, tier in places.items()]
        return tuple([Counter(name, "bytes", time, held) for name, time, held in found if time.size])
    return of


def network_counters(plan: Plan, outcome: Outcome) -> tuple[Counter, ...]:
    """`Recorded.network` of a run: a counter per dim, the mean use of its links out of NPUs in percent.

    None for a network that says nothing of its links (a plug-in's).
    """
    dims = dims_of(plan, outcome, links_of(plan, outcome))
    if not dims.busy_over_time.size:
        return ()
    time = np.arange(dims.busy_over_time.shape[1] + 1, dtype=np.int64) * dims.bin
    time[-1] = outcome.makespan
    counters = []
    for number, dim in enumerate(plan.network.dims[:len(dims.size)]):
        percent = np.append(np.round(100 * dims.utilisation_over_time[number], 3), 0.0)
        changes = np.flatnonzero(np.diff(percent, prepend=-1.0))
        name = f"dim {number}: {dim.shape.name.lower()} of {dim.npus:,}, links busy"
        name = name if plan.network.graph is None else "links out of NPUs busy"
        counters.append(Counter(name, "percent", time[changes], percent[changes]))
    return tuple(counters)


def queue_counters(result: Result) -> tuple[Counter, ...]:
    """Counters of a run that recorded queues: one for each of the SHOWN longest, bytes, span by span."""
    queues = result.queues
    if queues is None:
        return ()
    rows = np.argsort(-queues.longest.max(axis=1), kind="stable")[:SHOWN]
    counters = []
    for row in rows.tolist():
        held = np.append(queues.longest[row], 0)
        changes = np.flatnonzero(np.diff(held, prepend=-1))
        counters.append(Counter(f"queue of {queues.name(row)}", "bytes", changes * queues.bin, held[changes]))
    return tuple(counters)
