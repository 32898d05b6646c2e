"""Several jobs on one machine: one Plan of all their plans, and the way back from its ranks to jobs.

Natively only. Jobs share nothing but the machine: each has its own groups, and peers are ranks of the same job, so
tags need no renumbering. A job's ranks and its collectives keep their order among each other. So a job that meets no
other one at a port, a link or a remote memory ends each node at the same ps as it does alone.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from astrarium.arrays import I32, I64
from astrarium.engine.outcome import Outcome
from astrarium.engine.plan import CollectivePlan, Kind, Order, Plan, Program
from astrarium.engine.shared import Shared
from astrarium.errors import InputError, UnsupportedError

__all__ = ["JobPlan", "JoinedJobs", "join_jobs", "of_collectives", "part_of"]

NO_ID = 2**64 - 1      # of a node that is in no trace


class JobPlan(Struct, frozen=True, eq=False):
    """A workload lowered on the machine's network, and the NPU of each of its ranks [ranks].

    Lowering composes collectives of the NPUs in the plan's `npu_of`: a phase runs in one dim. `npus` may differ from
    `npu_of` by the coordinates in each dim: ranks with equal coordinates there have equal ones here, and others have
    others. A job may so be moved along dims; for any other placement it is lowered again (system.placement), else a
    phase would cross other dims, and folded runs would not be exact. Durations stay those of the NPUs in `npu_of`.

    The ranks begin at `start` (ps). Above 0 each has one more node, its first: a wait on no lane, of id 2^64 - 1.
    """

    plan: Plan
    npus: I32
    start: int = 0


class JoinedJobs(Struct, frozen=True, eq=False):
    """One Plan of all jobs. Ranks are numbered job after job: job j has `first[j]` to `first[j + 1] - 1`."""

    plan: Plan
    first: tuple[int, ...]

    def ranks(self, job: int) -> range:
        """The plan's ranks of a job."""
        return range(self.first[job], self.first[job + 1])

    def npu(self, job: int, rank: int) -> int:
        """Where a rank of a job runs."""
        return int(self.plan.npu_of[self.ranks(job)[rank]])

    def job_of(self, rank: int) -> tuple[int, int]:
        """(job, rank in it) of a rank of the plan."""
        job = bisect_right(self.first, rank) - 1
        return job, rank - self.first[job]

    def of_row(self, outcome: Outcome, row: int) -> list[tuple[int, int]]:
        """(job, rank in it) of all ranks that a row of an Outcome represents."""
        return [self.job_of(rank) for rank in np.flatnonzero(outcome.row == row).tolist()]

    def alone(self, job: int) -> Plan:
        """The plan of a job without the others, on the same NPUs."""
        return part_of(self.plan, self.ranks(job))

    def makespan(self, outcome: Outcome, job: int) -> int:
        """When the last rank of a job ends, ps."""
        ranks = self.ranks(job)
        return int(outcome.finish[outcome.row[ranks.start:ranks.stop]].max(initial=0))


def join_jobs(jobs: Sequence[JobPlan]) -> JoinedJobs:
    """One Plan of several jobs; equal programs, collectives and schedules are stored once.

    Raises InputError for plans of different machines, and for placements that overlap, name NPUs that do not exist, or
    do not suit their plan; UnsupportedError under ASTRA-sim's rule book.
    """
    _check_machine(jobs)
    _check_placements(jobs)
    joined = _Joined()
    for number, job in enumerate(jobs):
        joined.add(job, f"jobs[{number}].plan")
    return JoinedJobs(joined.plan(jobs), tuple(joined.first))


def _check_machine(jobs: Sequence[JobPlan]) -> None:
    if not jobs:
        raise InputError("jobs", "none", expected="at least one job")
    machine = _machine(jobs[0].plan)
    for number, job in enumerate(jobs):
        if job.plan.policy.order != Order.CANONICAL:
            raise UnsupportedError(f"jobs[{number}].plan", "lowered under ASTRA-sim's rule book, which has one job",
                                   expected="compat: none")
        for name, value in _machine(job.plan).items():
            if not np.array_equal(value, machine[name]):
                raise InputError(f"jobs[{number}].plan", f"{name} is {value}, and in jobs[0] {machine[name]}",
                                 expected="jobs lowered on one machine")
        if job.start < 0:
            raise InputError(f"jobs[{number}].start", f"{job.start} ps", expected="0 or more")


def _machine(plan: Plan) -> dict[str, Any]:
    """What all jobs have in common, by name."""
    parts = {f"{name}.{field}": getattr(getattr(plan, name), field)
             for name in ("network", "policy", "remote") for field in getattr(plan, name).__struct_fields__}
    dims = {f"network.dims[{d}]": dim for d, dim in enumerate(parts.pop("network.dims"))}
    return {"npus": plan.npus, "dims": len(dims), **dims, **parts, "lanes": plan.lanes,
            "attached": plan.attached, "reduce_bandwidth": plan.reduce_bandwidth}


def _check_placements(jobs: Sequence[JobPlan]) -> None:
    taken: dict[int, int] = {}
    for number, job in enumerate(jobs):
        path, ranks = f"jobs[{number}].npus", job.plan.npu_of.size
        if job.npus.shape != (ranks,) or job.npus.dtype.kind not in "iu":
            raise InputError(path, f"shape {job.npus.shape} of {job.npus.dtype}",
                             expected=f"whole numbers of shape ({ranks},), the NPU of each rank")
        for npu in job.npus.tolist():
            if not 0 <= npu < job.plan.npus:
                raise InputError(path, f"NPU {npu}", expected=f"one of 0 to {job.plan.npus - 1}")
            if npu in taken:
                other = "twice in it" if taken[npu] == number else f"also in jobs[{taken[npu]}]"
                raise InputError(path, f"NPU {npu} is {other}", expected="one rank per NPU")
            taken[npu] = number
        _check_moved(job, path)


def _check_moved(job: JobPlan, path: str) -> None:
    """Refuse ranks that share a coordinate of a dim here and not where they were lowered, or the other way round."""
    before, after = job.plan.npu_of.astype(np.int64), job.npus.astype(np.int64)
    for number, dim in enumerate(job.plan.network.dims):
        before, old = np.divmod(before, dim.npus)
        after, new = np.divmod(after, dim.npus)
        if len({np.unique(each).size for each in (old, new, old * dim.npus + new)}) > 1:
            raise InputError(path, f"ranks at one coordinate of dims[{number}] are not those at one coordinate where "
                             "the job was lowered", expected="a job lowered for this placement (system.placement)")


class _Joined:
    """What the jobs so far add up to."""

    def __init__(self) -> None:
        self.first = [0]
        self._shared = Shared()
        self._programs: list[Program] = []
        self._collectives: list[CollectivePlan] = []
        self._groups: list[I32] = []
        self._program_of: list[I32] = []
        self._slots: list[tuple[I32, I32, I32]] = []
        self._program_number: dict[tuple[int, int], int] = {}
        self._places: dict[int, list[int]] = {}     # id of a collective -> its numbers

    def add(self, job: JobPlan, path: str) -> None:
        """Append a job, whose plan `path` names."""
        plan = job.plan
        numbers = np.array([self._program(program, job.start) for program in plan.programs], np.int32)
        self._program_of.append(numbers[plan.program_of])
        self._slots.append(self._arguments(plan, path))
        self.first.append(self.first[-1] + plan.npu_of.size)

    def plan(self, jobs: Sequence[JobPlan]) -> Plan:
        """The Plan of all that was added."""
        a, b, c = (np.concatenate(columns) for columns in zip(*self._slots, strict=True))
        widths = np.concatenate([np.zeros(1, np.int64), *[np.diff(job.plan.slot_ptr) for job in jobs]])
        return replace(jobs[0].plan, programs=tuple(self._programs), program_of=np.concatenate(self._program_of),
                       npu_of=np.concatenate([job.npus for job in jobs]).astype(np.int32),
                       slot_ptr=np.cumsum(widths), slot_a=a, slot_b=b, slot_c=c, groups=tuple(self._groups),
                       collectives=tuple(self._collectives))

    def _program(self, program: Program, start: int) -> int:
        shared = self._shared.first(program)
        number = self._program_number.setdefault((id(shared), start), len(self._programs))
        if number == len(self._programs):
            self._programs.append(_delayed(shared, start) if start else shared)
        return number

    def _arguments(self, plan: Plan, path: str) -> tuple[I32, I32, I32]:
        """The slots with peers, groups and collectives renumbered; the job's groups are appended."""
        a, b, base, ranks = plan.slot_a.copy(), plan.slot_b.copy(), self.first[-1], plan.npu_of.size
        meet = of_collectives(plan)
        strange = ~meet & ((a < 0) | (a >= ranks))      # it may be a rank of another job
        if strange.any():
            raise InputError(path, f"a message's peer is rank {a[strange][0]}", expected=f"one of its {ranks} ranks")
        a[~meet] += base
        a[meet] = self._numbers(plan.collectives)[a[meet]]
        world = meet & (b < 0)
        b[meet] += len(self._groups)
        self._groups += [group + np.int32(base) for group in plan.groups]
        if world.any():
            b[world] = len(self._groups)
            self._groups.append(np.arange(base, base + ranks, dtype=np.int32))
        return a, b, plan.slot_c

    def _numbers(self, collectives: Sequence[CollectivePlan]) -> I32:
        """The number of each: that of the next equal one, else a new one. They ascend, as messages that arrive in one
        instant go by them."""
        numbers, last = [], -1
        for each in map(self._shared.first, collectives):
            places = self._places.setdefault(id(each), [])
            at = bisect_right(places, last)
            if at == len(places):
                places.append(len(self._collectives))
                self._collectives.append(each)
            last = places[at]
            numbers.append(last)
        return np.array(numbers, np.int32)


def of_collectives(plan: Plan) -> npt.NDArray[np.bool_]:
    """[slots] whether a slot is a collective's."""
    widths = np.array([int(program.slot.max(initial=-1)) + 1 for program in plan.programs] + [0])
    start = np.cumsum(widths) - widths
    meets = np.zeros(int(widths.sum()), np.bool_)
    for program, begin in zip(plan.programs, start.tolist()):
        meets[begin + program.slot[program.kind == Kind.COLLECTIVE]] = True
    shift = np.repeat(start[plan.program_of] - plan.slot_ptr[:-1], np.diff(plan.slot_ptr))
    return meets[shift + np.arange(shift.size)]


def part_of(plan: Plan, ranks: range | I64) -> Plan:
    """The plan of some ranks (ascending) that meet no others in messages or groups: jobs of a joined plan, alone."""
    own = np.asarray(ranks, np.int64)
    number = np.full(plan.npu_of.size, -1, np.int32)        # [ranks of the plan] in the part
    number[own] = np.arange(own.size, dtype=np.int32)
    kinds, program_of = np.unique(plan.program_of[own], return_inverse=True)
    widths = np.diff(plan.slot_ptr)
    slots = np.repeat(number >= 0, widths)
    groups = [at for at, group in enumerate(plan.groups) if group.size and number[group[0]] >= 0]
    place = np.full(len(plan.groups) + 1, -1, np.int32)     # the last: group -1
    place[groups] = np.arange(len(groups), dtype=np.int32)
    found = replace(plan, programs=tuple([plan.programs[kind] for kind in kinds.tolist()]),
                    program_of=program_of.reshape(-1).astype(np.int32), npu_of=plan.npu_of[own],
                    slot_ptr=np.concatenate([np.zeros(1, np.int64), np.cumsum(widths[own])]),
                    slot_c=plan.slot_c[slots], groups=tuple([number[plan.groups[at]] for at in groups]))
    a, b = plan.slot_a[slots].copy(), plan.slot_b[slots].copy()
    meets = of_collectives(found)
    a[~meets] = number[a[~meets]]
    b[meets] = place[b[meets]]
    return replace(found, slot_a=a, slot_b=b)


def _delayed(program: Program, start: int) -> Program:
    """The program behind a wait, its first node, for which the nodes without parents wait."""
    roots = np.flatnonzero(program.parents == 0)
    first = {"node_id": NO_ID, "kind": Kind.SKIP, "lane": -1, "duration": start, "busy": 0, "size": 0, "slot": -1,
             "parents": 0}
    columns = {name: np.concatenate([np.array([value], getattr(program, name).dtype), getattr(program, name)])
               for name, value in first.items()}
    columns["parents"][1:] = np.maximum(program.parents, 1)
    child = np.concatenate([roots, program.child]).astype(np.int32) + np.int32(1)
    return Program(**columns, child=child, child_ptr=np.append(0, program.child_ptr + roots.size).astype(np.int32))
