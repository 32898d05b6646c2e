"""Caches that runs of many designs share: workloads, traces, collectives, what the engine measured.

To run many designs, make a `Kept` and give it to every run. Results do not depend on it.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from astrarium.cache import Budget, Cache
from astrarium.collective.lower import ScheduleCache
from astrarium.engine import Measurements
from astrarium.lower.work import Work

if TYPE_CHECKING:
    from astrarium.trace.columns import Traces
    from astrarium.workload.graph import Forms

__all__ = ["BYTES", "Kept"]

BYTES = 1 << 29     # of all caches together
ENGINE = 5          # the part of it that the engine's measurements take


class Kept(Struct, frozen=True, eq=False, dict=True):
    """What runs share: about `most` bytes, of which the engine has a fifth. For several threads at once."""

    most: int = BYTES

    def __post_init__(self) -> None:
        _ = self.budget     # one for all threads

    @cached_property
    def budget(self) -> Budget:
        """The bound of all caches but the engine's."""
        return Budget(self.most - self.most // ENGINE)

    @cached_property
    def works(self) -> Cache[Work]:
        """Generated workloads by (workload, ranks, where tensors are placed)."""
        return Cache(self.budget)

    @cached_property
    def memory(self) -> Cache[float]:
        """Lower bounds of the memory of workloads by (workload, where tensors are placed), bytes."""
        return Cache(self.budget)

    @cached_property
    def traces(self) -> Cache[Traces]:
        """Traces that were read, by (path, ranks)."""
        return Cache(self.budget)

    @cached_property
    def collectives(self) -> Cache[Any]:
        """Settings, choices and plans of collectives, each key with its kind in front."""
        return Cache(self.budget)

    @cached_property
    def schedules(self) -> ScheduleCache:
        """Schedules of algorithms."""
        return Cache(self.budget)

    @cached_property
    def forms(self) -> Forms:
        """Blocks of models that layouts have in common."""
        from astrarium.workload.graph import Forms  # traces need no models

        return Forms(Cache(self.budget))

    @cached_property
    def measurements(self) -> Measurements:
        """What the engine measured."""
        return Measurements(self.most // ENGINE)
