"""Several jobs on one fabric: the `workload` section with `source: jobs`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Annotated, ClassVar

import numpy as np

from astrarium import registry
from astrarium.arrays import I64
from astrarium.config import Config, Knob, Problem, default
from astrarium.errors import InputError
from astrarium.registry import Kind
from astrarium.units import Time
from astrarium.workload.config import Live, Workload

__all__ = ["Job", "Jobs"]

LATEST_NS = 2**62 / 1000    # the clock counts 2^63 ps
FREE = -1
MOST_NPUS = 2**24   # of a network on which jobs are placed: 134 MB say who has which


def _one_source(job: Job) -> Iterator[Problem]:
    if isinstance(job.workload, Jobs):
        yield Problem("workload.source", "jobs inside a job", "a source that is one job, in one list of all jobs")
    if isinstance(job.workload, Live):
        yield Problem("workload.source", f"{job.workload.tag!r} decides as it runs, which jobs cannot",
                      "a source whose work is known before the run")


def _how_many(job: Job) -> Iterator[Problem]:
    needed = job.needed
    if job.npus is None and needed is None and not isinstance(job.workload, (Jobs, Live)):
        yield Problem("npus", f"is missing, and source: {job.workload.tag} is of any number of ranks",
                      "how many NPUs the job has, or a list of them")
    if isinstance(job.npus, int) and job.npus == 0:
        yield Problem("npus", "0 NPUs", "at least one")
    if isinstance(job.npus, int) and needed is not None and needed != job.npus:
        yield Problem("npus", f"is {job.npus}", f"{needed}, the ranks of the job's workload")


def _by_rule(job: Job) -> Iterator[Problem]:
    if job.listed and job.placement is not None:
        yield Problem("placement", f"{job.placement} cannot be combined with a list of NPUs", "one of the two")
    seeded = (job.placement or "") == "random"
    if seeded and job.seed is None:
        yield Problem("seed", "is missing", "a whole number, from which placement: random draws")
    if not seeded and job.seed is not None:
        yield Problem("seed", "has no effect", "placement: random, or no seed")


def _begins(job: Job) -> Iterator[Problem]:
    if float(job.start) >= LATEST_NS:
        yield Problem("start", "is more than 2^62 ps", "at most 53 days")


class Job(Config, frozen=True):
    """One job: its work, its NPUs and when it begins."""

    rules = (_one_source, _how_many, _by_rule, _begins)
    workload: Annotated[Workload, Knob("The job's work: any source but `jobs`.")]
    npus: Annotated[int | str | Sequence[int] | None,
                    Knob("How many NPUs it has, or which: a list (NPU of every rank), or a slice such as 0:64:8; left "
                         "out: as many as its workload has ranks.", ge=0)] = None
    placement: Annotated[str | None, Knob("Which free NPUs it takes; left out: packed.",
                                          choices=Kind("placement"))] = None
    seed: Annotated[int | None, Knob("What placement: random draws from.", ge=0, lt=2**63)] = None
    start: Annotated[Time, Knob("When its ranks begin.", ge=0)] = default("0 ns")
    name: Annotated[str | None, Knob("Its name in results and timelines; left out: job and its number.")] = None

    @property
    def listed(self) -> bool:
        """Whether `npus` lists the NPUs."""
        return self.npus is not None and not isinstance(self.npus, int)

    @property
    def needed(self) -> int | None:
        """Number of ranks of the workload; None: any number."""
        found: int | None = getattr(self.workload, "ranks", None)
        return found

    @property
    def start_ps(self) -> int:
        """`start` on the engine's clock."""
        return round(float(self.start) * 1000)


def _some(jobs: Jobs) -> Iterator[Problem]:
    if not jobs.jobs:
        yield Problem("jobs", "is empty", "at least one job")
    seen: dict[str, int] = {}
    for number, name in enumerate(jobs.names):
        if seen.setdefault(name, number) != number:
            yield Problem(f"jobs[{number}].name", f"{name!r} is that of jobs[{seen[name]}]", "another name")


class Jobs(Workload, frozen=True):
    """Several jobs, each on separate NPUs; they share only the fabric."""

    tag: ClassVar[str] = "jobs"
    rules = (_some,)
    jobs: Annotated[Sequence[Job], Knob("The jobs. Lists of NPUs are placed first, then rules in this order.")]

    @property
    def names(self) -> tuple[str, ...]:
        """The name of every job."""
        return tuple([f"job {number}" if job.name is None else job.name for number, job in enumerate(self.jobs)])

    def placed(self, sizes: Sequence[int]) -> tuple[I64, ...]:
        """The NPU of every rank of every job, on dims of `sizes` (innermost first). Raises InputError, whose path
        begins with `jobs`, for NPUs that overlap or do not exist and for a job that finds no room."""
        places = _Places(sizes)
        found: dict[int, I64] = {}
        for number in sorted(range(len(self.jobs)), key=lambda number: not self.jobs[number].listed):
            take = places.listed if self.jobs[number].listed else places.by_rule
            found[number] = take(self.jobs[number], number)
        return tuple([found[number] for number in range(len(self.jobs))])


class _Places:
    """Which NPUs of a machine with dims of `sizes` are taken, while jobs are placed."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self._sizes, self._total = tuple(sizes), math.prod(sizes)
        if self._total > MOST_NPUS:
            raise InputError("jobs", f"are placed NPU by NPU, and there are {self._total:,}",
                             expected=f"a network of at most {MOST_NPUS:,} NPUs")
        self._owner = np.full(self._total, FREE, np.int64)      # [NPUs] the job that has it

    def listed(self, job: Job, number: int) -> I64:
        """The NPUs that a job lists."""
        path, total = f"jobs[{number}].npus", self._total
        npus = np.array(self._slice(job.npus, path) if isinstance(job.npus, str) else job.npus, np.int64)
        if not npus.size:
            raise InputError(path, "means no NPU", expected=f"some of 0 to {total - 1}")
        if job.needed is not None and job.needed != npus.size:
            raise InputError(path, f"{npus.size} NPUs", expected=f"{job.needed}, the ranks of its workload")
        for npu in npus[npus >= total][:1].tolist():
            raise InputError(path, f"there is no NPU {npu}", expected=f"0 to {total - 1}")
        for npu in npus[self._owner[npus] != FREE][:1].tolist():
            raise InputError(path, f"NPU {npu} is also in jobs[{self._owner[npu]}]", expected="one rank per NPU")
        for npu in np.flatnonzero(np.bincount(npus) > 1)[:1].tolist():
            raise InputError(path, f"NPU {npu} is twice in it", expected="one rank per NPU")
        self._owner[npus] = number
        return npus

    def by_rule(self, job: Job, number: int) -> I64:
        """The free NPUs that a job's rule takes."""
        path, rule = f"jobs[{number}]", "packed" if job.placement is None else job.placement
        count = job.npus if isinstance(job.npus, int) else job.needed
        assert count is not None
        where = f"{path}.npus" if isinstance(job.npus, int) else f"{path}.workload"
        if count > self._total:
            raise InputError(where, f"{count} ranks on {self._total} NPUs", expected=f"at most {self._total}")
        free = np.flatnonzero(self._owner == FREE)
        if count > free.size:
            raise InputError(where, f"{count} ranks, and {free.size} of {self._total} NPUs are left",
                             expected=f"at most {free.size}, or fewer NPUs for other jobs")
        npus = registry.load("placement", rule)(free, count, self._sizes, job.seed)
        if npus is None:
            raise InputError(f"{path}.placement", f"{rule}: {free.size} NPUs are free, but not so that it suits "
                             f"{count} ranks", expected="another placement, or this job before others in the list")
        self._owner[npus] = number
        return np.asarray(npus, np.int64)

    def _slice(self, text: str, path: str) -> Sequence[int]:
        parts = [part.strip() for part in text.split(":")]
        known = len(parts) in (2, 3) and all(not part or part.isdecimal() for part in parts)
        if not known or (parts[2:] and parts[2] and int(parts[2]) == 0):
            raise InputError(path, f"{text[:60]!r} is not a slice", expected="a slice such as 0:8 or 0:64:8, or a list")
        if parts[1] and int(parts[1]) > self._total:
            raise InputError(path, f"{text} ends after the last NPU", expected=f"an end of at most {self._total}")
        return range(self._total)[slice(*[int(part) if part else None for part in parts])]
