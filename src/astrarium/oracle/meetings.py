"""Who meets whom: collectives of a group, messages between two ranks.

The k-th collective that each rank issues on a group is one meeting. The k-th message of a key ends the k-th receive.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable

from astrarium.engine.plan import CollectivePlan, Plan
from astrarium.errors import TraceError
from astrarium.oracle.clock import Event
from astrarium.vocab import CommOp

__all__ = ["Meeting", "Meetings", "Post"]


def _op_name(op: int) -> str:
    """The lower-case name of an operation, or its number."""
    return CommOp(op).name.lower() if op in CommOp._value2member_map_ else f"operation {op}"


class Meeting:
    """One collective: its number (unique in a run) and who has come, with which plan; `collective`: which of the plan's
    its first member issued, for those who ask."""

    __slots__ = ("collective", "count", "group", "number", "plans")

    def __init__(self, number: int, group: int, count: int) -> None:
        self.number, self.group, self.count, self.collective = number, group, count, -1
        self.plans: dict[int, CollectivePlan] = {}


class Meetings:
    """Groups, positions in them, and the meetings on them. Group -1 is all ranks."""

    def __init__(self, plan: Plan) -> None:
        self._members: dict[int, list[int]] = {-1: list(range(len(plan.program_of)))}
        self._members.update((g, group.tolist()) for g, group in enumerate(plan.groups))
        self._positions = {g: {rank: place for place, rank in enumerate(members)}
                           for g, members in self._members.items()}
        self._issued: dict[tuple[int, int], int] = {}
        self._open: dict[tuple[int, int], Meeting] = {}
        self._number = 0

    def members(self, group: int) -> list[int]:
        """The ranks of a group in list order."""
        return self._members[group]

    def position(self, group: int, rank: int) -> int:
        """The place of a member in a group's list."""
        return self._positions[group][rank]

    def join(self, rank: int, group: int, plan: CollectivePlan, node: int) -> Meeting:
        """The meeting that this rank's next collective on `group` belongs to; `node` is its id, for the error."""
        if rank not in self._positions[group]:
            raise TraceError("workload", f"a collective on group {group}, of which the rank is not a member", rank=rank,
                             node=node, expected="a rank of " + ", ".join(map(str, self._members[group][:8])))
        count = self._issued.get((group, rank), 0)
        self._issued[group, rank] = count + 1
        meeting = self._open.get((group, count))
        if meeting is None:
            meeting = self._open[group, count] = Meeting(self._number, group, count)
            self._number += 1
        for other, first in meeting.plans.items():
            if (plan.op, plan.size) != (first.op, first.size):
                text = (f"{_op_name(plan.op)} of {plan.size} bytes is number {count + 1} on its group, but rank "
                        f"{other} issued {_op_name(first.op)} of {first.size} bytes there")
                raise TraceError("workload", text, rank=rank, node=node,
                                 expected="one order of a group's collectives on all its ranks: each waits for the one "
                                          "before it (dependencies of the trace), or collective.scheduling: fifo")
            break
        meeting.plans[rank] = plan
        if len(meeting.plans) == len(self._members[group]):
            del self._open[group, count]
        return meeting

    def sentence(self, rank: int, meeting: Meeting) -> str:
        """What a collective of `rank` that has not ended waits for."""
        own = meeting.plans[rank]
        where = "all ranks" if meeting.group < 0 else f"group {meeting.group}"
        what = f"{_op_name(own.op)} of {own.size} bytes, number {meeting.count + 1} on {where}"
        missing = [str(m) for m in self._members[meeting.group] if m not in meeting.plans]
        if not missing:
            return f"{what}; every member has issued it, but not all its messages can move"
        shown = ", ".join(missing[:8]) + (f" and {len(missing) - 8} more" if len(missing) > 8 else "")
        return f"{what}; waits for rank{'s' if len(missing) > 1 else ''} {shown}"


class Post:
    """Receives that wait for a message, and messages that wait for a receive, by key."""

    def __init__(self) -> None:
        self._wanted: dict[Hashable, deque[Event]] = {}
        self._there: dict[Hashable, int] = {}

    def delivered(self, key: Hashable) -> Event | None:
        """A message is there: the receive that it ends, if one waits."""
        wanted = self._wanted.get(key)
        if not wanted:
            self._there[key] = self._there.get(key, 0) + 1
            return None
        event = wanted.popleft()
        if not wanted:
            del self._wanted[key]
        return event

    def wants(self, key: Hashable, done: Event) -> bool:
        """A receive is posted: True when its message is there already, else `done` is kept for it."""
        there = self._there.get(key, 0)
        if there:
            self._there[key] = there - 1
            return True
        self._wanted.setdefault(key, deque()).append(done)
        return False
