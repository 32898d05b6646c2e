"""What runs of many designs have in common, made once: workloads, programs, columns of arguments, collectives.

A cache is an argument: whoever runs many designs makes a `Kept` and gives it to every run. Results do not depend on it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from astrarium.engine import Measurements
from astrarium.workload.graph import Forms

if TYPE_CHECKING:
    from astrarium.collective.lower import ScheduleCache
    from astrarium.lower.native_work import Work

__all__ = ["Kept", "Latest"]

V = TypeVar("V")
WORKS = 128         # workloads, with what is lowered from them: a few MB each
EACH = 64           # of one workload: programs, or columns of arguments
PLANS = 4096        # collectives


class Latest(Generic[V]):
    """A mapping that holds so many values, those last asked for; for several threads at once."""

    def __init__(self, most: int) -> None:
        self._most, self._lock = most, Lock()
        self._held: OrderedDict[Hashable, V] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], V]) -> V:
        """The value of `key`, made where it is not held (twice, where two threads ask at once; the first one stays)."""
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
                return self._held[key]
        made = make()
        with self._lock:
            found = self._held.setdefault(key, made)
            while len(self._held) > self._most:
                self._held.popitem(last=False)
        return found

    def __len__(self) -> int:
        return len(self._held)


@dataclass(frozen=True, eq=False)
class KeptWork:
    """A workload, and what was lowered from it."""

    work: Work
    programs: Latest[Any] = field(default_factory=lambda: Latest(EACH))
    columns: Latest[Any] = field(default_factory=lambda: Latest(EACH))
    collectives: Latest[Any] = field(default_factory=lambda: Latest(EACH))


@dataclass(frozen=True, eq=False)
class Kept:
    """What runs share. Bounded; for several threads at once."""

    schedules: ScheduleCache = field(default_factory=dict)
    measurements: Measurements = field(default_factory=Measurements)
    forms: Forms = field(default_factory=Forms)
    works: Latest[Work] = field(default_factory=lambda: Latest(WORKS))
    plans: Latest[Any] = field(default_factory=lambda: Latest(PLANS))
    settings: Latest[dict[Any, Any]] = field(default_factory=lambda: Latest(PLANS))
    _lowered: Latest[KeptWork] = field(default_factory=lambda: Latest(WORKS))

    def lowered(self, work: Work) -> KeptWork:
        """What is kept of a workload: of this very object, which is held as long."""
        found = self._lowered.get(id(work), lambda: KeptWork(work))
        return found if found.work is work else KeptWork(work)
