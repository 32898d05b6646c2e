"""Between an engine and a workload that decides as it runs: checks what it hands out, and keeps it in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeGuard, TypeVar

import numpy as np

from astrarium.engine.plan import CollectivePlan, Kind
from astrarium.engine.plugins.given import ask
from astrarium.engine.plugins.work import RunContext, Work, WorkSource
from astrarium.errors import PluginError, UnsupportedError

__all__ = ["Feeder", "fits"]

HOLES = 1_000_000
LONGEST = 2**63
WIDE = 2**31        # peers, tags and priorities have 32 bits
KINDS = frozenset(Kind)
MESSAGES = (Kind.SEND, Kind.RECV)
T = TypeVar("T")


def fits(collective: CollectivePlan, members: int) -> bool:
    """Whether a collective can run among this many: the participants of a phase, stride apart, are all members."""
    if collective.custom is not None and collective.custom.program_of.size != members:
        return False
    return all(phase.n == 1 or members % (phase.n * phase.stride) == 0
               for chunk in collective.chunks for phase in chunk.phases)


def _given(function: Callable[..., Sequence[T]], *arguments: object) -> tuple[T, ...]:
    return tuple(function(*arguments))


def _whole(value: object) -> bool:
    return isinstance(value, (int, np.integer))


class Feeder:
    """The source of one run. `works` is everything that it handed out, in that order; `who` is its name in errors."""

    def __init__(self, source: WorkSource, context: RunContext, heaviest: float) -> None:
        self._source, self._context, self._heaviest = source, context, heaviest
        self.who = f"workload plug-in {type(source).__qualname__}"
        self.works: list[Work] = []
        self._of: dict[tuple[int, int], Work] = {}
        self._rows = [0] * len(context.npu_of)
        self._fitting: set[tuple[int, int]] = set()

    def start(self) -> Sequence[Work]:
        """What is ready at 0 ps."""
        return self._taken(ask(self.who, _given, self._source.start, 0))

    def completed(self, rank: int, number: int, now: int) -> Sequence[Work]:
        """What is ready because work `number` of `rank` ended at `now` ps."""
        return self._taken(ask(self.who, _given, self._source.completed, self._of[rank, number], now))

    def unfinished(self) -> Sequence[str]:
        """What the source says that it could not do."""
        return ask(self.who, _given, self._source.unfinished)

    def _taken(self, works: Sequence[Work]) -> Sequence[Work]:
        for work in works:
            if not self._fine(work):
                self._refuse(work)
            self._of[work.rank, work.id] = work
            self.works.append(work)
            self._rows[work.rank] = max(self._rows[work.rank], work.id + 1)
        return works

    def _fine(self, work: object) -> TypeGuard[Work]:
        """The short way: a collective that fits, or anything whose figures are in range."""
        if not isinstance(work, Work) or not 0 <= work.rank < len(self._rows):
            return False
        if not all(map(_whole, (work.id, work.rank, work.duration, work.size, work.tag, work.priority))):
            return False
        own = (0 <= work.id <= self._rows[work.rank] + HOLES and (work.rank, work.id) not in self._of
               and work.kind in KINDS and -1 <= work.lane < len(self._context.lanes)
               and 0 <= work.duration < LONGEST and 0 <= work.size < LONGEST
               and -WIDE <= work.priority < WIDE)
        if work.kind in MESSAGES:
            return own and (0 <= work.peer < len(self._rows) and work.peer != work.rank and 0 <= work.tag < WIDE
                            and work.size <= self._heaviest)
        if work.kind == Kind.COLLECTIVE:
            return own and ((work.collective, work.group) in self._fitting or not self._misfit(work))
        return own

    def _misfit(self, work: Work) -> str:
        """What is wrong with a collective; nothing: it is remembered."""
        context = self._context
        if not 0 <= work.collective < len(context.collectives):
            return f"there is no collective {work.collective}"
        if not -1 <= work.group < len(context.groups):
            return f"there is no group {work.group}"
        if context.group_of is not None and context.group_of[work.collective] != work.group:
            return f"collective {work.collective} belongs to group {context.group_of[work.collective]}"
        members = len(context.npu_of) if work.group < 0 else len(context.groups[work.group])
        if not fits(context.collectives[work.collective], members):
            return f"collective {work.collective} does not fit a group of {members}"
        self._fitting.add((work.collective, work.group))
        return ""

    def _refuse(self, work: object) -> None:
        """Say what would break the run later, in the source's name."""
        if not isinstance(work, Work):
            raise PluginError(self.who, f"handed out {work!r}, which is no Work")
        known = self._rows[work.rank] if 0 <= work.rank < len(self._rows) else 0
        message = work.kind in MESSAGES
        if message and self._heaviest < work.size < LONGEST:
            raise UnsupportedError("workload", "a delay of more than 2^63 ps (106 days)")
        numbers = (work.id, work.rank, work.duration, work.size, work.tag, work.priority)
        faults = [
            (not all(map(_whole, numbers)), "a figure that is not a whole number"),
            (not 0 <= work.rank < len(self._rows), f"there is no rank {work.rank}"),
            ((work.rank, work.id) in self._of, f"rank {work.rank} has had a work {work.id}"),
            (not 0 <= work.id <= known + HOLES, f"id {work.id} of rank {work.rank} is not a small number from 0"),
            (work.kind not in KINDS, f"there is no kind {work.kind}"),
            (not -1 <= work.lane < len(self._context.lanes), f"there is no lane {work.lane}"),
            (work.duration < 0 or work.size < 0, "a negative duration or size"),
            (work.duration >= LONGEST or work.size >= LONGEST, "a duration or size of more than 63 bits"),
            (not -WIDE <= work.priority < WIDE, "a priority of more than 32 bits"),
            (message and work.peer == work.rank, "its peer is the rank itself"),
            (message and not 0 <= work.peer < len(self._rows), f"there is no rank {work.peer}"),
            (message and not 0 <= work.tag < WIDE, f"tag {work.tag} is not of 31 bits"),
        ]
        for wrong, what in faults:
            if wrong:
                raise PluginError(self.who, f"handed out {work}: {what}")
        raise PluginError(self.who, f"handed out {work}: {self._misfit(work)}")
