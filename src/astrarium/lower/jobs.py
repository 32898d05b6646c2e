"""Several jobs on one fabric: each is lowered as a separate design, on its NPUs; the engine joins their plans."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, TypeVar, overload

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from astrarium.design import Design
from astrarium.engine.jobs import JobPlan, join_jobs
from astrarium.engine.outcome import Outcome
from astrarium.engine.plan import Plan
from astrarium.errors import AstrariumError, InputError, StallError
from astrarium.lower.deadlock import without_deadlock
from astrarium.lower.in_switch import within_groups
from astrarium.lower.kinds import lower_native
from astrarium.lower.plan import placement_of
from astrarium.lower.source import read_work
from astrarium.lower.work import Work
from astrarium.memory.usage import tensors_of
from astrarium.result.jobs import JobRanks
from astrarium.trace.columns import Traces
from astrarium.trace.work import Generated, Tensors, TraceClass
from astrarium.workload.jobs import Jobs

if TYPE_CHECKING:
    from astrarium.engine.plugins import Plugins
    from astrarium.lower.kept import Kept
    from astrarium.lower.source import TraceCache

__all__ = ["JobsWork", "PlacedWork", "all_npus", "first_ranks", "job_designs", "job_ranks_of", "lower_jobs",
           "read_jobs", "said_of_jobs"]

Made = TypeVar("Made")


class PlacedWork(Struct, frozen=True, eq=False):
    """The work of one job of several, the design that it is by itself (on its NPUs), and when it begins (ps)."""

    design: Design
    work: Work
    start: int


class JobsWork(Struct, frozen=True, eq=False):
    """The work of each of several jobs; `source` names the nodes of all."""

    jobs: tuple[PlacedWork, ...]
    source: Generated


def job_designs(design: Design) -> tuple[Design, ...]:
    """Each job as a separate design: its workload, its NPUs as `system.placement`; the rest is that of all."""
    jobs = design.workload
    assert isinstance(jobs, Jobs)
    placed = jobs.placed([dim.npus for dim in design.network.flat])
    return tuple([replace(design, workload=job.workload, system=replace(design.system, placement=npus.tolist()))
                  for job, npus in zip(jobs.jobs, placed, strict=True)])


def first_ranks(design: Design) -> tuple[int, ...]:
    """[jobs + 1] the number of each job's first rank, and how many ranks all have."""
    assert isinstance(design.workload, Jobs)
    placed = design.workload.placed([dim.npus for dim in design.network.flat])
    return tuple(accumulate([npus.size for npus in placed], initial=0))


def all_npus(design: Design) -> npt.NDArray[np.int32]:
    """NPU of every rank [ranks], whether the design is of one workload or of several jobs."""
    jobs = design.workload
    if not isinstance(jobs, Jobs):
        return placement_of(design)
    return np.concatenate(jobs.placed([dim.npus for dim in design.network.flat])).astype(np.int32)


def job_ranks_of(design: Design, run: Callable[[Plan], Outcome]) -> JobRanks:
    """Which ranks of a design are which job. `run` simulates a job alone."""
    jobs = design.workload
    assert isinstance(jobs, Jobs)
    return JobRanks(jobs.names, first_ranks(design), tuple([job.start_ps for job in jobs.jobs]), run)


def read_jobs(design: Design, cache: TraceCache | None, kept: Kept) -> JobsWork:
    """The work of all jobs. Raises what `read_work` does, with the job in front of the path."""
    jobs = design.workload
    assert isinstance(jobs, Jobs)
    parts = []
    for number, (job, own) in enumerate(zip(jobs.jobs, job_designs(design), strict=True)):
        parts.append(PlacedWork(own, _of_job(number, partial(read_work, own, cache, kept)), job.start_ps))
    return JobsWork(tuple(parts), _named(parts))


def lower_jobs(design: Design, work: JobsWork, plugins: Plugins | None, kept: Kept) -> Plan:
    """One plan of all jobs, which exist under our own rules alone. Raises what lowering one raises, with the job in
    front of the path."""
    groups, plans = max([job.work.process_groups for job in work.jobs], default=0), []
    for number, job in enumerate(work.jobs):
        plan = _of_job(number, partial(lower_native, job.design, job.work, plugins, kept, groups))
        plans.append(JobPlan(plan, plan.npu_of, job.start))
    return without_deadlock(design, within_groups(design, join_jobs(plans).plan))


def _of_job(number: int, make: Callable[[], Made]) -> Made:
    """What `make` makes; an error about it says in which job."""
    try:
        return make()
    except InputError as error:
        raise type(error)(_path(number, error.path), error.message, expected=error.expected,
                          did_you_mean=error.did_you_mean) from error


def _path(number: int, path: str) -> str:
    """A path of a job's own design as one of the design of all."""
    own = f"workload.jobs[{number}]"
    return f"{own}.{path}" if path.startswith("workload") else f"{own}: {path}" if path else own


# ------------------------------------------------------------ names of nodes and tensors
def _named(jobs: Sequence[PlacedWork]) -> Generated:
    """What names the nodes and tensors of all ranks; it holds no arguments of communication."""
    classes: list[TraceClass] = []
    tensors: list[Callable[[], Tensors | None]] = []
    first = 0
    for job in jobs:
        lead = int(job.start > 0)       # the wait in front of the job's nodes
        classes += [_shifted(each, first, lead) for each in job.work.classes]
        tensors += [partial(_tensors, job.work, number, lead) for number in range(len(job.work.classes))]
        first += job.work.ranks
    return Generated(tuple(classes), (), (), _Lazy(tensors))


def _shifted(trace: TraceClass, first: int, lead: int) -> TraceClass:
    names, kernel, operators = trace.names, trace.kernel, trace.operators
    none = np.zeros((trace.ranks.size, 0), np.int32)
    if lead and names is not None:
        names = partial(_name, names)
    if lead and kernel is not None:
        kernel = np.append(np.int32(-1), kernel)
    return replace(trace, ranks=trace.ranks + np.int32(first), slot_a=none, slot_b=none, sources=(), names=names,
                   kernel=kernel, operators=None if lead else operators)


def _name(names: Callable[[int], str], node: int) -> str:
    return names(node - 1) if node else ""


def _tensors(work: Work, number: int, lead: int) -> Tensors | None:
    """The tensors of a class of a job."""
    if isinstance(work.source, Generated):
        found = work.source.tensors[number]
    elif isinstance(work.source, Traces):
        found = tensors_of(work.source, int(work.classes[number].ranks[0]))
    else:
        found = None
    if found is None or not lead:
        return found
    return replace(found, reader=found.reader + np.int32(lead),
                   writer=np.where(found.writer < 0, found.writer, found.writer + np.int32(lead)))


class _Lazy(Sequence[Tensors | None]):
    """Tensors that are made when somebody asks."""

    def __init__(self, make: Sequence[Callable[[], Tensors | None]]) -> None:
        self._make = make

    def __len__(self) -> int:
        return len(self._make)

    @overload
    def __getitem__(self, index: int) -> Tensors | None: ...
    @overload
    def __getitem__(self, index: slice) -> list[Tensors | None]: ...
    def __getitem__(self, index: int | slice) -> Tensors | list[Tensors | None] | None:
        if isinstance(index, slice):
            return [make() for make in self._make[index]]
        return self._make[index]()


# ------------------------------------------------------------ errors of a run
def said_of_jobs(error: AstrariumError, design: Design) -> AstrariumError:
    """Rewrite "rank r" in an error as the rank of a job."""
    assert isinstance(design.workload, Jobs)
    first, names = first_ranks(design), design.workload.names

    def rank(found: re.Match[str]) -> str:
        job = bisect_right(first, int(found[1])) - 1
        return f"{names[job]}, rank {int(found[1]) - first[job]}"

    def peer(found: re.Match[str]) -> str:
        return f"{found[1]} {int(found[2]) - first[bisect_right(first, int(found[2])) - 1]}"

    def said(sentence: str) -> str:
        return re.sub(r"\b(recv from|send to) (\d+)\b", peer, re.sub(r"\brank (\d+)\b", rank, sentence))
    if isinstance(error, StallError):
        return StallError([wait._replace(text=said(wait.text)) for wait in error.waits])
    if isinstance(error, InputError):
        return type(error)(error.path, said(error.message), expected=error.expected, did_you_mean=error.did_you_mean)
    return error
