"""Counters of a timeline: the local memory that each rank holds over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from astrarium.report.timeline import Counter
from astrarium.result import Result

__all__ = ["memory_counters"]


def memory_counters(result: Result) -> Callable[[int], Sequence[Counter]]:
    """`Recorded.counters` of a result; ranks whose traces name no tensors have none."""
    def of(rank: int) -> Sequence[Counter]:
        time, held = result.memory.over_time(int(result.outcome.row[rank]))
        return (Counter("memory", "bytes", time, held),) if time.size else ()
    return of
