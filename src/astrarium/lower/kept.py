"""Caches that runs of many designs share: workloads, collectives, what the engine measured.

Whoever runs many designs makes a `Kept` and gives it to every run. Results do not depend on it.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from astrarium.cache import Cache
from astrarium.collective.lower import ScheduleCache, schedule_cache
from astrarium.engine import Measurements
from astrarium.lower.native_work import Work

if TYPE_CHECKING:
    from astrarium.workload.graph import Forms

__all__ = ["Kept"]

WORKS = 128             # workloads, with what is lowered from them: a few MB each
COLLECTIVES = 1 << 13   # settings, choices and plans


class Kept(Struct, frozen=True, eq=False, dict=True):
    """What runs share. Bounded; for several threads at once.

    `works` by (workload, ranks, where tensors are placed).
    `collectives`: settings, choices and plans, each key with its kind in front.
    """

    schedules: ScheduleCache = field(default_factory=schedule_cache)
    works: Cache[Work] = field(default_factory=lambda: Cache(WORKS))
    collectives: Cache[Any] = field(default_factory=lambda: Cache(COLLECTIVES))

    @cached_property
    def forms(self) -> Forms:
        """Blocks of models that layouts have in common."""
        from astrarium.workload.graph import Forms  # traces need no models

        return Forms()

    @cached_property
    def measurements(self) -> Measurements:
        """What the engine measured."""
        return Measurements()
