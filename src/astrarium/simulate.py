"""The verb: a design in, a Result out."""

from __future__ import annotations

import os
import reprlib
from collections.abc import Callable, Iterable, MutableMapping
from functools import partial
from typing import TYPE_CHECKING

from astrarium.design import Design, npu_types
from astrarium.engine import Outcome, Plan, execute
from astrarium.engine.program_order import run_in_order
from astrarium.errors import EXPLAINED, AstrariumError, InputError
from astrarium.lower import lower
from astrarium.lower.alone import replays_everything
from astrarium.lower.native_plugins import plugins_of
from astrarium.lower.native_work import Work, from_generated, named_groups, rank_count
from astrarium.result import Result
from astrarium.result.nodes import first_ranks
from astrarium.trace.columns import Traces
from astrarium.trace.read import read_traces, refuse_more, trace_of_rank
from astrarium.trace.work import Generated
from astrarium.workload.config import Live, Trace
from astrarium.workload.generate import generate
from astrarium.workload.single import SingleCollective

if TYPE_CHECKING:
    from astrarium.collective.lower import ScheduleCache
    from astrarium.engine.plugins import Plugins
    from astrarium.lower.kept import Kept

__all__ = ["TraceCache", "prepare", "simulate", "simulate_many"]

TraceCache = MutableMapping[tuple[str, int], Traces]
"""Traces by (path, number of ranks); give one dict to several runs, and files are read once."""

FOLD = {"auto": True, "off": False}


def simulate(design: Design, *, fold: str | None = None, record: bool = True, pure: bool = False,
             traces: Traces | Generated | Work | None = None, cache: TraceCache | None = None,
             plugins: Plugins | None = None, kept: Kept | None = None,
             note: Callable[[str], None] | None = None) -> Result:
    """Run a design.

    `fold` (`auto` or `off`) overrides the design's. `record` keeps node times and traffic, which everything but finish
    and makespan needs. `pure` runs the pure-Python engine. `traces` stands for the workload's files (or is what a
    generator made, or the Work of either); else they are read, through `cache` where one is given. `plugins` take the
    place of what the design names; plug-ins that the design names are made for this run. `kept` holds what this
    run has in common with others. `note` is called with a sentence before every rank is simulated because folding gave
    up: why, and about how many events, seconds and bytes. Raises InputError and its kin, and StallError, with file,
    rank and node.
    """
    return prepare(design, fold=fold, record=record, pure=pure, traces=traces, cache=cache, plugins=plugins,
                   kept=kept, note=note)()


def prepare(design: Design, *, fold: str | None = None, record: bool = True, pure: bool = False,
            traces: Traces | Generated | Work | None = None, cache: TraceCache | None = None,
            plugins: Plugins | None = None, kept: Kept | None = None,
            note: Callable[[str], None] | None = None) -> Callable[[], Result]:
    """`simulate` in two steps: all that comes before the run, then (called) the run. Whoever has many designs prepares
    several and then runs them: each step finds the machine's caches full of its own code and data. Either step raises
    what `simulate` does."""
    folded = _checked(design, fold)
    if isinstance(design.workload, Live):
        return partial(_live, design, pure, traces, plugins, None if kept is None else kept.schedules)
    work = _work(design, {} if cache is None else cache, kept) if traces is None else traces
    given = plugins_of(design, plugins)
    plan = lower(design, work, given, kept=kept)
    found = work.source if isinstance(work, Work) else work
    alone = given is None or not given.in_run       # a plug-in sees one run

    def execute_it(plan: Plan, hurried: bool) -> Outcome:
        return execute(plan, record=record, fold=folded, pure=pure, plugins=given, hurried=hurried,
                       kept=None if kept is None else kept.measurements, note=note)

    def run() -> Result:
        try:
            ran, outcome = run_in_order(plan, execute_it) if alone else (plan, execute_it(plan, False))
        except EXPLAINED as error:
            said = _in_its_terms(error, design, found)
            if said is error:
                raise
            raise said from error
        return Result(ran, outcome, found, _capacity(design, ran, outcome), _first_rank(design))
    return run


def _first_rank(design: Design) -> int:
    """The number of the first rank: another than 0 where one rank of a larger job runs alone."""
    workload = design.workload
    return workload.rank or 0 if isinstance(workload, Trace) and rank_count(design) == 1 else 0


def _in_its_terms(error: AstrariumError, design: Design, found: Traces | Generated | None) -> AstrariumError:
    """The engine's error, with what it says about ranks and node numbers in the words of the workload."""
    from astrarium.lower.explain import explained, explained_generated

    if isinstance(found, Generated):
        return explained_generated(error, found)
    if found is None or not isinstance(design.workload, Trace):
        return error
    return explained(error, found, named_groups(design.workload, found), design.workload.dependencies)


def _live(design: Design, pure: bool, traces: object, plugins: Plugins | None,
          schedules: ScheduleCache | None) -> Result:
    """A workload that decides as it runs: every rank, every message; the Result's Plan is what was done."""
    from astrarium.engine.source import run_source
    from astrarium.lower.rule_books import stage_of

    if traces is not None:
        raise InputError("traces", f"workload {design.workload.tag} decides as it runs", expected="no traces")
    given = plugins_of(design, plugins)
    source, stage = stage_of(design, given, schedules)
    done = run_source(source, stage, given, pure=pure)
    return Result(done.plan, done.outcome, None, _capacity(design, done.plan, done.outcome))


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

    from astrarium.lower.kept import Kept

    chosen, known, shared = list(designs), {} if cache is None else cache, Kept()
    for design in chosen:
        _checked(design, fold)
        if isinstance(design.workload, Trace):
            traces_of(design, known)
    with ThreadPoolExecutor(workers or os.cpu_count() or 1) as pool:
        return list(pool.map(lambda design: simulate(design, fold=fold, record=record, cache=known, kept=shared),
                             chosen))


def _work(design: Design, cache: TraceCache, kept: Kept | None) -> Traces | Generated | Work | None:
    """The same, or the work that was made of it before."""
    if kept is None or isinstance(design.workload, (Trace, SingleCollective)):
        return traces_of(design, cache)
    ranks = rank_count(design)
    return kept.works.get((design.workload, ranks),
                          lambda: from_generated(generate(design.workload, ranks, kept.forms), ranks))


def traces_of(design: Design, cache: TraceCache) -> Traces | Generated | None:
    """The traces that the workload names, or what its generator makes; None where there is neither."""
    if not isinstance(design.workload, Trace):
        return None if isinstance(design.workload, SingleCollective) else generate(design.workload, rank_count(design))
    if design.workload.rank is not None:
        return _one_rank(design, design.workload, design.workload.rank, cache)
    key = (design.workload.path, rank_count(design))
    if key not in cache:
        refuse_more(*key)
        cache[key] = read_traces(*key)
    return cache[key]


def _one_rank(design: Design, workload: Trace, rank: int, cache: TraceCache) -> Traces:
    """The trace of one rank, alone by its recorded times or on all NPUs."""
    from astrarium.profile.equal_ranks import equal_ranks
    from astrarium.profile.recorded import world_size

    ranks = rank_count(design)
    key = (trace_of_rank(workload.path, rank), 1)
    if key not in cache:
        cache[key] = read_traces(*key)
    job = world_size(cache[key], 0) or 1
    if ranks == 1 < job and not replays_everything(design):
        raise InputError("workload.rank", f"rank {rank} of a job of {job} ranks on one NPU: nobody to communicate with",
                         expected=f"a network of {job} NPUs (equal ranks), or its recorded times (run --trace --rank)")
    return cache[key] if ranks == 1 else equal_ranks(cache[key], rank, ranks)


def _capacity(design: Design, plan: Plan, outcome: Outcome) -> tuple[float | None, ...]:
    """Bytes of each row's NPU."""
    if not design.npu_types:
        most = design.memory.capacity
        return (float(most),) * len(outcome.finish) if most else ()
    limits = [None if memory.capacity is None else float(memory.capacity) for _, memory in npu_types(design)[1]]
    if not any(limits):
        return ()
    kinds = npu_types(design)[0][plan.npu_of[first_ranks(outcome)]]
    return tuple(limits[kind] for kind in kinds.tolist())
