"""Activities: progress at a rate, re-timed whenever a share changes.

An activity is an amount of work (bytes of a message, flop of a kernel) that draws on some resources at once (a port
out and a port in, a compute unit, HBM). Rates are max-min fair: no activity can go faster without a slower one going
slower still. Capacities may change while activities run (stragglers, failing links). Whole numbers throughout, so
results do not depend on the order of arithmetic; nothing ever exceeds a capacity, because shares are rounded down.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field

from astrarium.errors import InputError

__all__ = ["NEVER", "UNIT", "Activities"]

NEVER = 2**63 - 1
UNIT = 2520 << 30
"""Work is counted in parts of its unit. Shares among up to ten are exact; rounding others down ends them a ps late."""

Resource = Hashable


@dataclass(eq=False)
class _Activity:
    left: int
    resources: tuple[Resource, ...]
    ended: Callable[[], None]
    rate: int = field(default=0)


class Activities:
    """What is under way on shared resources. Times in ps; `capacity` is work per ps."""

    def __init__(self) -> None:
        self.now = 0
        self._capacity: dict[Resource, int] = {}
        self._running: dict[int, _Activity] = {}
        self._serial = 0

    def set_capacity(self, resource: Resource, capacity: float) -> None:
        """Give `resource` a capacity from now on (work per ps, above 0); what draws on it is re-timed."""
        units = round(capacity * UNIT)
        if units < 1:
            raise InputError("capacity", repr(capacity), expected=f"at least {1 / UNIT:g} per ps")
        self._capacity[resource] = units
        self._share()

    def start(self, work: float, resources: Iterable[Resource], ended: Callable[[], None]) -> None:
        """Begin an activity now; `ended()` runs when its work is done. Without work it ends at once."""
        drawn = tuple(dict.fromkeys(resources))
        unknown = [resource for resource in drawn if resource not in self._capacity]
        if unknown or not drawn:
            raise InputError("resources", repr(unknown or drawn), expected="resources with a capacity, at least one")
        self._serial += 1
        self._running[self._serial] = _Activity(round(work * UNIT), drawn, ended)
        self._share()

    def next_time(self) -> int:
        """When the next activity ends as things stand, or NEVER."""
        return min((self.now - -activity.left // activity.rate for activity in self._running.values()), default=NEVER)

    def advance(self, to: int) -> None:
        """Go on to time `to`; whatever ends on the way ends in order of time, then of start."""
        while (end := self.next_time()) <= to:
            self._progress(end)
            done = [number for number, activity in self._running.items() if activity.left <= 0]
            ended = [self._running.pop(number).ended for number in done]
            self._share()
            for callback in ended:
                callback()
        self._progress(to)

    def _progress(self, to: int) -> None:
        for activity in self._running.values():
            activity.left -= activity.rate * (to - self.now)
        self.now = to

    def _share(self) -> None:
        """Max-min fair rates by progressive filling; ties by order of start."""
        spare = dict(self._capacity)
        users: dict[Resource, list[_Activity]] = {}
        for activity in self._running.values():
            for resource in activity.resources:
                users.setdefault(resource, []).append(activity)
        while users:
            tightest = min(users, key=lambda resource: spare[resource] // len(users[resource]))
            rate = max(spare[tightest] // len(users[tightest]), 1)
            for activity in tuple(users[tightest]):
                activity.rate = rate
                for resource in activity.resources:
                    spare[resource] -= rate
                    users[resource].remove(activity)
            users = {resource: left for resource, left in users.items() if left}
