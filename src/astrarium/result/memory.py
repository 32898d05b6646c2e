"""Memory of every row, local and in tiers: the highest use, and whether it fits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from astrarium.arrays import F64, I64
from astrarium.engine.outcome import Outcome
from astrarium.errors import InputError, TraceError, nearest
from astrarium.memory.config import Tier
from astrarium.memory.tiers import HERE
from astrarium.memory.usage import Known, held_by, usage
from astrarium.result.nodes import first_ranks
from astrarium.result.source import Source, class_of_rank, tensors
from astrarium.trace.work import Tensors

__all__ = ["MemoryUse", "TierUse", "memory_use"]


class TierUse(Struct, frozen=True, eq=False):
    """A tier of memory: `peak` bytes of each row [rows], NaN where the trace names no tensors, and the `capacity` in
    bytes that an NPU has of it."""

    name: str
    capacity: float
    peak: F64

    @property
    def used(self) -> bool:
        """Whether some rank has anything there."""
        return bool((self.peak > 0).any())

    @property
    def overflows(self) -> bool:
        """Whether some rank puts more there than its NPU's part."""
        return bool((self.peak > self.capacity).any())


class MemoryUse(Struct, frozen=True, eq=False):
    """`peak` bytes and `capacity` bytes of the local memory [rows], NaN where the trace names no tensors, or the design
    no capacity. `tiers`: the same of those behind it, by `Memory.tiers`.

    `problem` says why a trace's tensors could not be read, where they could not; its rows have no figures then.
    """

    peak: F64
    capacity: F64
    tensors: tuple[Tensors | None, ...]     # [rows]; rows of one class share one
    outcome: Outcome
    problem: str = ""
    tiers: tuple[TierUse, ...] = ()
    behind: tuple[Tier, ...] = ()

    @property
    def out_of_memory(self) -> bool | None:
        """Whether some rank needs more than its NPU has, locally or of a tier; None where nothing can be said."""
        if self.overflowing:
            return True
        known = ~np.isnan(self.peak) & ~np.isnan(self.capacity)
        return bool((self.peak[known] > self.capacity[known]).any()) if known.any() else None

    @property
    def overflowing(self) -> tuple[str, ...]:
        """Names of the tiers in which some rank puts more than its NPU's part."""
        return tuple([tier.name for tier in self.tiers if tier.overflows])

    def over_time(self, row: int, tier: str | None = None) -> tuple[I64, I64]:
        """(times in ps, bytes held from each on) of a row, in the local memory or in a tier; empty where its trace
        names no tensors. Raises InputError for a tier that the design does not have."""
        tensors, names = self.tensors[row], [each.name for each in self.behind]
        if tier is not None and tier not in names:
            raise InputError("tier", f"there is no tier {tier!r}", expected="one of " + ", ".join(names),
                             did_you_mean=nearest(tier, names))
        if tensors is None:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        tensors = held_by(tensors, self.behind, HERE if tier is None else names.index(tier))
        part = slice(int(self.outcome.node_ptr[row]), int(self.outcome.node_ptr[row + 1]))
        return usage(tensors, self.outcome.start[part], self.outcome.end[part])


def memory_use(outcome: Outcome, source: Source | None, capacity: Sequence[float | None],
               tiers: Sequence[Tier] = ()) -> MemoryUse:
    """The memory of every row; `capacity` [rows] bytes, `tiers` behind it. `source` names the tensors."""
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
            except TraceError as error:      # the run is valid; only this figure is missing, and says why
                known[number], problem = None, problem or str(error)
        found.append(known[number])
    found = found or [None] * len(outcome.finish)
    limits = np.array([np.nan if limit is None else limit for limit in capacity], np.float64)
    behind = tuple([TierUse(tier.name, tier.share, np.full(len(found), np.nan)) for tier in tiers])
    use = MemoryUse(np.full(len(found), np.nan), limits, tuple(found), outcome, problem, behind, tuple(tiers))
    if len(outcome.node_ptr) == len(found) + 1:
        for row in [row for row, tensors in enumerate(found) if tensors is not None]:
            if _local(found[row]):
                use.peak[row] = use.over_time(row)[1].max(initial=0)
            for tier in behind:
                tier.peak[row] = use.over_time(row, tier.name)[1].max(initial=0)
    return use


def _local(tensors: Tensors | None) -> bool:
    """Whether anything is known of the local memory: nodes may say what tiers hold alone."""
    return tensors is not None and (tensors.tier is None or held_by(tensors, (), HERE).size.size > 0)
