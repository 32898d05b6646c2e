"""Activities: progress at a rate, re-timed whenever a share changes.

An activity is an amount of work (bytes of a message, flop of a kernel) that draws on some resources at once (a port
out and a port in, a compute unit, HBM). Rates are max-min fair: no activity can go faster without a slower one going
slower still. Capacities may change while activities run (stragglers, failing links). Whole numbers throughout, so
results do not depend on the order of arithmetic; nothing ever exceeds a capacity, because shares are rounded down.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

from msgspec import Struct

from astrarium.errors import InputError

__all__ = ["NEVER", "UNIT", "Activities"]

NEVER = 2**63 - 1
UNIT = 2520 << 30
"""Work is counted in parts of its unit. Shares among up to ten are exact; rounding others down ends them a ps late."""

Resource = TypeVar("Resource", bound=Hashable)


class _Activity(Struct, Generic[Resource], eq=False):
    left: int       # at `since`
    resources: tuple[Resource, ...]
    ended: Callable[[], None]
    since: int
    rate: int = 0
    ends: int = NEVER


class Activities(Generic[Resource]):
    """What is under way on shared resources. Times in ps; `capacity` is work per ps.

    `spent(resources, begin, end, rate)` hears what an activity did at one rate (parts per ps) when that is over.
    """

    def __init__(self, spent: Callable[[tuple[Resource, ...], int, int, int], None] | None = None) -> None:
        self.now, self._spent, self._stale = 0, spent, False
        self._capacity: dict[Resource, int] = {}
        self._running: dict[int, _Activity[Resource]] = {}
        self._serial = 0

    def set_capacity(self, resource: Resource, capacity: float) -> None:
        """Give `resource` a capacity from now on (work per ps, above 0); what draws on it is re-timed."""
        units = round(capacity * UNIT)
        if units < 1:
            raise InputError("capacity", repr(capacity), expected=f"at least {1 / UNIT:g} per ps")
        self.set_parts(resource, units)

    def set_parts(self, resource: Resource, parts: int) -> None:
        """Set the capacity of `resource` in parts per ps (UNIT parts are a unit of work). 0: its activities stop."""
        self._capacity[resource] = parts
        self._stale = True

    def drawn(self) -> set[Resource]:
        """The resources of all that is under way."""
        return {resource for activity in self._running.values() for resource in activity.resources}

    def start(self, work: float, resources: Iterable[Resource], ended: Callable[[], None]) -> None:
        """Begin an activity now; `ended()` runs when its work is done. Without work it ends at once."""
        drawn = tuple(dict.fromkeys(resources))
        unknown = [resource for resource in drawn if resource not in self._capacity]
        if unknown or not drawn:
            raise InputError("resources", repr(unknown or drawn), expected="resources with a capacity, at least one")
        self._serial += 1
        self._running[self._serial] = _Activity(round(work * UNIT), drawn, ended, self.now)
        self._stale = True

    def next_time(self) -> int:
        """When the next activity ends as things stand, or NEVER."""
        if self._stale:
            self._stale = False
            self._share()
        return min((activity.ends for activity in self._running.values()), default=NEVER)

    def advance(self, to: int) -> None:
        """Go on to time `to`; whatever ends on the way ends in order of time, then of start."""
        while (end := self.next_time()) <= to:
            self.now, self._stale = end, True
            done = [self._running.pop(number) for number, activity in list(self._running.items())
                    if activity.ends <= end]
            for activity in done:
                self._account(activity)
                activity.ended()
        self.now = to

    def _account(self, activity: _Activity[Resource]) -> None:
        """What it did at the rate that it has had."""
        if self._spent is not None:
            self._spent(activity.resources, activity.since, self.now, activity.rate)
        activity.left -= activity.rate * (self.now - activity.since)
        activity.since = self.now

    def _give(self, activity: _Activity[Resource], rate: int) -> None:
        if activity.rate != rate:
            self._account(activity)
            activity.rate, activity.ends = rate, self.now - -max(activity.left, 0) // rate if rate else NEVER

    def _share(self) -> None:
        """Max-min fair rates by progressive filling; ties by order of start."""
        spare = dict(self._capacity)
        users: dict[Resource, list[_Activity[Resource]]] = {}
        for activity in self._running.values():
            for resource in activity.resources:
                users.setdefault(resource, []).append(activity)
        stopped = [resource for resource in users if not self._capacity[resource]]
        while users:
            tightest = stopped.pop() if stopped else min(users, key=lambda each: spare[each] // len(users[each]))
            rate = max(spare[tightest] // len(users[tightest]), 1) if self._capacity[tightest] else 0
            for activity in tuple(users[tightest]):
                self._give(activity, rate)
                for resource in activity.resources:
                    spare[resource] -= rate
                    users[resource].remove(activity)
            users = {resource: left for resource, left in users.items() if left or resource in stopped}
