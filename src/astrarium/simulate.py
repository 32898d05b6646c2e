"""The verb: a design in, a Result out."""

from __future__ import annotations

import os
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from astrarium import engine
from astrarium.design import Design
from astrarium.errors import EXPLAINED, BeyondError, InputError, UnsupportedError
from astrarium.lower import (
    Kept,
    TraceCache,
    capacities,
    fabric_names,
    first_rank,
    lower,
    plugins_of,
    read_files,
    read_work,
    stage_of,
    work_of,
)
from astrarium.result import Result
from astrarium.units import format_bytes
from astrarium.workload import Jobs, Live, Trace, Workload

if TYPE_CHECKING:
    from astrarium.engine import Measurements, Outcome, Plan, Record
    from astrarium.engine.plugins import Plugins
    from astrarium.lower import Given

__all__ = ["Run", "TraceCache", "prepare", "simulate", "simulate_many"]

FOLD = {"auto": True, "off": False}
NPU_BYTES = 300     # an NPU takes at least, where equal ones are simulated once


def simulate(design: Design, *, fold: str | None = None, record: bool = True, pure: bool = False,
             traces: Given | None = None, cache: TraceCache | None = None, plugins: Plugins | None = None,
             kept: Kept | None = None, note: Callable[[str], None] | None = None) -> Result:
    """Run a design.

    Args:
        design: The system and its workload.
        fold: `auto` or `off`; None: the design's.
        record: Keep node times and traffic, which all of a Result needs except finish and makespan.
        pure: Run the pure-Python engine.
        traces: Traces in place of the workload's files, a generated workload, or the Work of either.
        cache: Traces that were read before, by path.
        plugins: Plug-ins in place of those that the design names.
        kept: Caches that this run shares with others; results do not depend on it.
        note: Called with a sentence before all ranks are simulated because folding gave up: the reason, and the
            expected events, seconds and bytes.

    Returns:
        The result. Its times are floats in ns that print with a unit, and integers in ps.

    Raises:
        InputError: The design, a file or a trace is wrong (with path, or file, rank and node).
        PluginError: A plug-in raised, or broke its contract.
        StallError: The run cannot go on; the error lists who waits for what.
    """
    return prepare(design, fold=fold, record=record, pure=pure, traces=traces, cache=cache, plugins=plugins,
                   kept=kept, note=note)()


def prepare(design: Design, *, fold: str | None = None, record: Record = True, pure: bool = False,
            traces: Given | None = None, cache: TraceCache | None = None, plugins: Plugins | None = None,
            kept: Kept | None = None, note: Callable[[str], None] | None = None) -> Run:
    """Prepare a run: all of `simulate` before the engine starts.

    Prepare several designs, then run them: each step finds the machine's caches full of its own code and data.
    `record="nodes"` keeps node times without traffic.

    Returns:
        A function that runs the design and returns its Result. Its argument `most` (ns) ends a run whose makespan is
        larger.

    Raises:
        InputError: As `simulate`; so does the returned function.
        BeyondError: By the returned function, where the makespan is beyond `most`.
    """
    folded = _checked(design, fold)
    run = _Run(folded, record, pure, traces, cache, plugins_of(design, plugins),
               None if kept is None else kept.measurements, note)
    kind = _live if isinstance(design.workload, Live) else _KINDS.get(type(design.workload), _one)
    return kind(design, run, Kept() if kept is None else kept)


class Run(Protocol):
    """A prepared run."""

    def __call__(self, most: float | None = None) -> Result:
        """Run the design. `most`: ns of the makespan, beyond which the run ends with BeyondError."""


class _Run(Struct, frozen=True):
    """What is asked of a run: the arguments of `simulate`, with the plug-ins that the design names."""

    fold: bool
    record: Record
    pure: bool
    traces: Given | None
    cache: TraceCache | None
    plugins: Plugins | None
    measurements: Measurements | None
    note: Callable[[str], None] | None

    def execute(self, plan: Plan, most: float | None = None) -> tuple[Plan, Outcome]:
        """(what ran, its Outcome); `most` as in `Run`."""
        if self.plugins is not None and self.plugins.in_run:
            return plan, engine.execute(plan, record=self.record, pure=self.pure, plugins=self.plugins)
        return engine.execute_in_order(plan, record=self.record, fold=self.fold, pure=self.pure,
                                       kept=self.measurements, note=self.note, most=_ps(most))

    def alone(self, plan: Plan) -> Outcome:
        """A job without the others."""
        return replace(self, record=False, note=None).execute(plan)[1]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled without what only spares time."""
        return _Run, (self.fold, False, self.pure, None, None, self.plugins, None, None)

    def execute_jobs(self, plan: Plan, first: Sequence[int], most: float | None) -> tuple[Plan, Outcome]:
        """`execute` of several jobs; `first`: the first rank of each, and how many ranks all have."""
        if not self.fold or (self.plugins is not None and self.plugins.in_run):
            return self.execute(plan, most)
        return engine.execute_jobs(plan, first, record=self.record, pure=self.pure, kept=self.measurements,
                                   note=self.note, most=_ps(most))


def _ps(most: float | None) -> int | None:
    return None if most is None or most * 1000 >= 2**62 else round(most * 1000)


def _within(most: float | None, result: Result) -> Result:
    """The result of a run. Raises BeyondError where an engine that cannot stop went beyond `most`."""
    limit = _ps(most)
    if limit is not None and result.makespan_ps > limit:
        raise BeyondError(limit)
    return result


def _one(design: Design, run: _Run, caches: Kept, first: int = 0) -> Run:
    """A run of one workload, whose first rank has the number `first`."""
    with _limits(design):
        work = read_work(design, run.cache, caches) if run.traces is None else work_of(design, run.traces)
        plan, source = lower(design, work, run.plugins, kept=caches), work.source

    def ran(most: float | None = None) -> Result:
        with _words_of(design, source):
            done, outcome = run.execute(plan, most)
        return _within(most, Result(done, outcome, source, capacities(design, done, outcome), first,
                                    tuple(design.memory.tiers), names=fabric_names(design)))
    return ran


def _trace(design: Design, run: _Run, caches: Kept) -> Run:
    """A run of traces."""
    return _one(design, run, caches, first_rank(design))


def _jobs(design: Design, run: _Run, caches: Kept) -> Run:
    """A run of several jobs."""
    from astrarium.lower import first_ranks, job_ranks_of, lower_jobs, read_jobs  # one workload starts without it

    if run.traces is not None:
        raise InputError("traces", "jobs bring their traces", expected="no traces")
    with _limits(design):
        work = read_jobs(design, run.cache, caches)
        plan, first, source = lower_jobs(design, work, run.plugins, caches), first_ranks(design), work.source

    def ran(most: float | None = None) -> Result:
        with _words_of(design, source):
            done, outcome = run.execute_jobs(plan, first, most)
        return _within(most, Result(done, outcome, source, capacities(design, done, outcome),
                                    tiers=tuple(design.memory.tiers), job_ranks=job_ranks_of(design, run.alone),
                                    names=fabric_names(design)))
    return ran


def _live(design: Design, run: _Run, caches: Kept) -> Run:
    """A run of a workload that decides as it runs: every rank, every message; the Result's Plan is what was done."""
    if run.traces is not None:
        raise InputError("traces", f"workload {design.workload.tag} decides as it runs", expected="no traces")

    def ran(most: float | None = None) -> Result:
        source, stage = stage_of(design, run.plugins, caches)
        done = engine.run_source(source, stage, run.plugins, pure=run.pure)
        return _within(most, Result(done.plan, done.outcome, None, capacities(design, done.plan, done.outcome),
                                    names=fabric_names(design)))
    return ran


_KINDS: Mapping[type[Workload], Callable[[Design, _Run, Kept], Run]] = MappingProxyType({
    Jobs: _jobs, Trace: _trace})
"""How a kind of workload runs; every other kind is one workload."""


@contextmanager
def _limits(design: Design) -> Iterator[None]:
    """Refuses a design that this machine or the engine has no room for."""
    _fits(design)
    try:
        yield
    except (OverflowError, MemoryError) as error:
        raise _too_large(design, error) from error


@contextmanager
def _words_of(design: Design, source: Any) -> Iterator[None]:
    """Puts errors of the engine in the words of the design; `source`: that of its Work."""
    try:
        yield
    except EXPLAINED as error:
        from astrarium.lower import in_its_terms  # rarely needed

        said = in_its_terms(error, design, source)
        if said is error:
            raise
        raise said from error


def _fits(design: Design) -> None:
    """Refuse more NPUs than this machine has memory for."""
    have = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if design.network.npus * NPU_BYTES > have:
        raise UnsupportedError("network.npus", f"{design.network.npus:,} NPUs take {format_bytes(NPU_BYTES)} each or "
                               f"more, and this machine has {format_bytes(have)}", expected="fewer NPUs")


def _too_large(design: Design, error: Exception) -> UnsupportedError:
    """What to say of a workload whose numbers go beyond those of the engine, or whose nodes beyond the memory: its
    largest number is the likely one."""
    from astrarium.config import numbers  # rarely needed

    path, most = max(numbers(design.workload, "workload"), key=lambda each: each[1], default=("workload", 0))
    what = "more than fits into the memory of this machine" if isinstance(error, MemoryError) else \
        "a size or a time beyond 2^63"
    return UnsupportedError(path, f"{most:,.6g} makes {what}",
                            expected="a smaller workload: this is its largest number")


def _checked(design: object, fold: object) -> bool:
    """Whether to fold, after a look at what a caller may mistake."""
    if not isinstance(design, Design):
        raise InputError("simulate", f"{reprlib.repr(design)} is not a design",
                         expected="a Design; load_design(path) reads one from a file")
    if fold is not None and fold not in tuple(FOLD):
        raise InputError("fold", f"{reprlib.repr(fold)} is not known", expected="one of auto, off")
    return FOLD[design.fold if fold is None else str(fold)]


def simulate_many(designs: Iterable[Design], *, workers: int | None = None, fold: str | None = None,
                  record: bool = False, cache: TraceCache | None = None) -> list[Result]:
    """Run many designs on all cores. Traces are read once, before the threads start.

    Args:
        designs: The designs.
        workers: Number of threads; None: one per core. The engine releases Python's lock.
        fold: `auto` or `off`; None: that of each design.
        record: Keep node times and traffic.
        cache: Traces that were read before, by path; share it between calls.

    Returns:
        The results, in the order of the designs.

    Raises:
        InputError, StallError: The first error, in the order of the designs.
    """
    from concurrent.futures import ThreadPoolExecutor

    chosen, known, shared = list(designs), {} if cache is None else cache, Kept()
    for design in chosen:
        _checked(design, fold)
        for one in _workloads(design):
            read_files(one, known)
    with ThreadPoolExecutor(workers or os.cpu_count() or 1) as pool:
        return list(pool.map(lambda design: simulate(design, fold=fold, record=record, cache=known, kept=shared),
                             chosen))


def _workloads(design: Design) -> Sequence[Design]:
    """The design of one workload, or those of its jobs."""
    if not isinstance(design.workload, Jobs):
        return (design,)
    from astrarium.lower import job_designs

    return job_designs(design)
