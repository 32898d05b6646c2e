"""Local memory of every row: the highest use, and whether it fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from astrarium.engine.outcome import Outcome
from astrarium.errors import TraceError
from astrarium.memory.usage import Known, usage
from astrarium.result.nodes import first_ranks
from astrarium.result.source import Source, class_of_rank, tensors
from astrarium.trace.work import Tensors

__all__ = ["MemoryUse", "memory_use"]

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class MemoryUse:
    """`peak` bytes and `capacity` bytes [rows], NaN where the trace names no tensors, or the design no capacity.

    `problem` says why a trace's tensors could not be read, where they could not; its rows have no figures then.
    """

    peak: F64
    capacity: F64
    tensors: tuple[Tensors | None, ...]     # [rows]; rows of one class share one
    outcome: Outcome
    problem: str = ""

    @property
    def out_of_memory(self) -> bool | None:
        """Whether some rank needs more than its NPU has; None where nothing can be said."""
        known = ~np.isnan(self.peak) & ~np.isnan(self.capacity)
        return bool((self.peak[known] > self.capacity[known]).any()) if known.any() else None

    def over_time(self, row: int) -> tuple[I64, I64]:
        """(times in ps, bytes held from each on) of a row; empty where its trace names no tensors."""
        tensors = self.tensors[row]
        if tensors is None:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        part = slice(int(self.outcome.node_ptr[row]), int(self.outcome.node_ptr[row + 1]))
        return usage(tensors, self.outcome.start[part], self.outcome.end[part])


def memory_use(outcome: Outcome, source: Source | None, capacity: Sequence[float | None]) -> MemoryUse:
    """The memory of every row; `capacity` [rows] bytes. `source` names the tensors."""
    known: dict[int, Tensors | None] = {}
    found: list[Tensors | None] = []
    said: Known = {}
    problem = ""
    classes = None if source is None else class_of_rank(source)
    for rank in first_ranks(outcome).tolist():
        if source is None or classes is None:
            break
        number = int(classes[rank])
        if number not in known:
            try:
                known[number] = tensors(source, rank, number, said)
            except TraceError as error:      # the run stands; only this figure is missing, and says why
                known[number], problem = None, problem or str(error)
        found.append(known[number])
    found = found or [None] * len(outcome.finish)
    limits = np.array([np.nan if limit is None else limit for limit in capacity], np.float64)
    use = MemoryUse(np.full(len(found), np.nan), limits, tuple(found), outcome, problem)
    if len(outcome.node_ptr) == len(found) + 1:
        for row in range(len(found)):
            if found[row] is not None:
                use.peak[row] = use.over_time(row)[1].max(initial=0)
    return use
