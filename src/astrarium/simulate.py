"""The verb: a design in, a Result out."""

from __future__ import annotations

import os
import reprlib
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from astrarium import engine
from astrarium.design import Design
from astrarium.errors import EXPLAINED, InputError, UnsupportedError
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
from astrarium.result import JobRanks, Result
from astrarium.units import format_bytes
from astrarium.workload import Jobs, Live

if TYPE_CHECKING:
    from astrarium.engine.plugins import Plugins
    from astrarium.lower import Given

__all__ = ["TraceCache", "prepare", "simulate", "simulate_many"]

FOLD = {"auto": True, "off": False}
NPU_BYTES = 300     # an NPU takes at least, where equal ones are simulated once


def simulate(design: Design, *, fold: str | None = None, record: bool = True, pure: bool = False,
             traces: Given | None = None, cache: TraceCache | None = None, plugins: Plugins | None = None,
             kept: Kept | None = None, note: Callable[[str], None] | None = None) -> Result:
    """Run a design.

    `fold` (`auto` or `off`) overrides the design's. `record` keeps node times and traffic, which everything but finish
    and makespan needs. `pure` runs the pure-Python engine. `traces` replaces the workload's files (or is what a
    generator made, or the Work of either); else they are read, through `cache` or `kept` where one is given. `plugins`
    take the place of what the design names; plug-ins that the design names are made for this run. `kept` holds caches
    that this run shares with others. `note` is called with a sentence before every rank is simulated because folding
    gave up: why, and about how many events, seconds and bytes. Raises InputError and its kin, and StallError, with
    file, rank and node.
    """
    return prepare(design, fold=fold, record=record, pure=pure, traces=traces, cache=cache, plugins=plugins,
                   kept=kept, note=note)()


def prepare(design: Design, *, fold: str | None = None, record: bool = True, pure: bool = False,
            traces: Given | None = None, cache: TraceCache | None = None, plugins: Plugins | None = None,
            kept: Kept | None = None, note: Callable[[str], None] | None = None) -> Callable[[], Result]:
    """`simulate` in two steps: all that comes before the run, then (called) the run. Prepare several designs, then run
    them: each step finds the machine's caches full of its own code and data. Either step raises what `simulate` does.
    """
    folded, caches = _checked(design, fold), Kept() if kept is None else kept
    if isinstance(design.workload, Live):
        return partial(_live, design, pure, traces, plugins, caches)
    if isinstance(design.workload, Jobs) and traces is not None:
        raise InputError("traces", "jobs bring their traces", expected="no traces")
    _fits(design)
    try:
        work = read_work(design, cache, caches) if traces is None else work_of(design, traces)
        given, source = plugins_of(design, plugins), work.source
        plan = lower(design, work, given, kept=caches)
    except (OverflowError, MemoryError) as error:
        raise _too_large(design, error) from error
    first = _first_ranks(design)

    def run() -> Result:
        try:
            ran, outcome = engine.execute_in_order(plan, record=record, fold=folded, pure=pure, plugins=given,
                                                   note=note, kept=None if kept is None else kept.measurements,
                                                   jobs=first)
        except EXPLAINED as error:
            from astrarium.lower import in_its_terms  # rarely needed

            said = in_its_terms(error, design, source)
            if said is error:
                raise
            raise said from error
        return Result(ran, outcome, source, capacities(design, ran, outcome), first_rank(design),
                      tuple(design.memory.tiers), _job_ranks(design, alone), fabric_names(design))

    def alone(job: engine.Plan) -> engine.Outcome:
        return engine.execute_in_order(job, record=False, fold=folded, pure=pure, plugins=given,
                                       kept=None if kept is None else kept.measurements,
                                       jobs=(0, job.npu_of.size))[1]
    return run


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


def _first_ranks(design: Design) -> Sequence[int]:
    """The first rank of each of several jobs, and how many ranks all have; empty for one workload."""
    if not isinstance(design.workload, Jobs):
        return ()
    from astrarium.lower import first_ranks  # one workload starts without it

    return first_ranks(design)


def _job_ranks(design: Design, alone: Callable[[engine.Plan], engine.Outcome]) -> JobRanks | None:
    """Which ranks are which job of several."""
    if not isinstance(design.workload, Jobs):
        return None
    from astrarium.lower import job_ranks_of

    return job_ranks_of(design, alone)


def _live(design: Design, pure: bool, traces: object, plugins: Plugins | None, caches: Kept) -> Result:
    """A workload that decides as it runs: every rank, every message; the Result's Plan is what was done."""
    if traces is not None:
        raise InputError("traces", f"workload {design.workload.tag} decides as it runs", expected="no traces")
    given = plugins_of(design, plugins)
    source, stage = stage_of(design, given, caches)
    done = engine.run_source(source, stage, given, pure=pure)
    return Result(done.plan, done.outcome, None, capacities(design, done.plan, done.outcome),
                  names=fabric_names(design))


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
    """Run many designs on all cores (`workers` threads; the engine releases the GIL). Results in the order given.

    Traces are read once each, before the threads start. The first error, in that order, is raised.
    """
    from concurrent.futures import ThreadPoolExecutor

    chosen, known, shared = list(designs), {} if cache is None else cache, Kept()
    for design in chosen:
        _checked(design, fold)
        read_files(design, known)
    with ThreadPoolExecutor(workers or os.cpu_count() or 1) as pool:
        return list(pool.map(lambda design: simulate(design, fold=fold, record=record, cache=known, kept=shared),
                             chosen))
