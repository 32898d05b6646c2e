"""What each of several jobs on one fabric took, and how much longer than alone."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from functools import cached_property

import numpy as np
from msgspec import Struct

from astrarium.arrays import I32, I64
from astrarium.engine.jobs import part_of
from astrarium.engine.outcome import Outcome
from astrarium.engine.plan import Plan
from astrarium.result.shown import Duration, duration

__all__ = ["JobRanks", "JobResult", "jobs_of"]


class JobRanks(Struct, frozen=True, eq=False):
    """Which ranks of a run are which job: `first` [jobs + 1] numbers each one's first rank, `start` [jobs] is when it
    begins (ps); `run` simulates a plan as the run was."""

    names: tuple[str, ...]
    first: tuple[int, ...]
    start: tuple[int, ...]
    run: Callable[[Plan], Outcome]

    def ranks(self, job: int) -> range:
        """The ranks of a job."""
        return range(self.first[job], self.first[job + 1])

    def label(self, rank: int) -> str:
        """The name of a rank: its job, and its number there."""
        job = bisect_right(self.first, rank) - 1
        return f"{self.names[job]}, rank {rank - self.first[job]}"


class JobResult(Struct, frozen=True, eq=False, dict=True):
    """One job of a run. `makespan` and `alone` count from its start: among the others, and without them on the same
    NPUs. `exposed_comm` is that of its rank that finishes last (None: node times were not recorded)."""

    name: str
    ranks: range
    npus: I32
    start_ps: int
    makespan_ps: int
    exposed_comm_ps: int | None
    _alone: Callable[[], int]

    @cached_property
    def alone_ps(self) -> int:
        """Makespan of the job without the others, ps. It is simulated when first asked for."""
        return self._alone()

    @property
    def makespan(self) -> Duration:
        """From its start to the finish of its last rank."""
        return duration(self.makespan_ps)

    @property
    def alone(self) -> Duration:
        """Makespan of the job when it runs without the others."""
        return duration(self.alone_ps)

    @property
    def start(self) -> Duration:
        """When its ranks begin."""
        return duration(self.start_ps)

    @property
    def exposed_comm(self) -> Duration | None:
        """Exposed communication of its rank that finishes last."""
        return None if self.exposed_comm_ps is None else duration(self.exposed_comm_ps)

    @property
    def slowdown(self) -> float:
        """makespan / alone; 1 for a job that takes no time."""
        return self.makespan_ps / self.alone_ps if self.alone_ps else 1.0


def jobs_of(plan: Plan, outcome: Outcome, exposed_comm: I64 | None, among: JobRanks) -> tuple[JobResult, ...]:
    """Every job of a run, in the order of the design; `exposed_comm` [rows] in ps, None where it is not known."""
    found = []
    for number, (name, start) in enumerate(zip(among.names, among.start, strict=True)):
        ranks = among.ranks(number)
        rows = outcome.row[ranks.start:ranks.stop]
        last = int(rows[np.argmax(outcome.finish[rows])])
        exposed = None if exposed_comm is None else int(exposed_comm[last])
        found.append(JobResult(name, ranks, plan.npu_of[ranks.start:ranks.stop], start,
                               int(outcome.finish[last]) - start, exposed, _Alone(plan, among, number)))
    return tuple(found)


class _Alone(Struct, frozen=True, eq=False):
    """Simulates one job without the others."""

    plan: Plan
    among: JobRanks
    job: int

    def __call__(self) -> int:
        return self.among.run(part_of(self.plan, self.among.ranks(self.job))).makespan - self.among.start[self.job]
