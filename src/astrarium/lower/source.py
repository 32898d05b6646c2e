"""The work of a design from its source: trace files that are read, a generator that is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from types import MappingProxyType

from astrarium.design import Design
from astrarium.errors import InputError
from astrarium.lower.kept import Kept
from astrarium.lower.placement import placed_of
from astrarium.lower.work import Work, from_generated, rank_count, replays_everything, work_of
from astrarium.trace.columns import Traces
from astrarium.workload.config import Trace, Workload
from astrarium.workload.generate import generate
from astrarium.workload.single import SingleCollective

__all__ = ["TraceCache", "read_files", "read_work"]

TraceCache = MutableMapping[tuple[str, int], Traces]
"""Traces by (path, number of ranks); give one dict to several runs, and files are read once."""

Reader = Callable[[tuple[str, int], Callable[[], Traces]], Traces]
"""From (path, number of ranks) and a function that reads them to the traces, through a cache."""


def read_work(design: Design, cache: TraceCache | None, kept: Kept) -> Work:
    """The work of a design of one workload: of the files that this names, through `cache` where there is one, or of its
    generator; else through `kept`. Raises what reading, generating and `work_of` do."""
    return _READ.get(type(design.workload), _generated)(design, cache, kept)


def _generated(design: Design, cache: TraceCache | None, kept: Kept) -> Work:
    del cache       # of files
    workload, ranks, placed = design.workload, rank_count(design), placed_of(design, kept)
    return kept.works.get((workload, ranks, placed),
                          lambda: from_generated(generate(workload, ranks, kept.forms, placed), ranks, kept.budget))


def _single(design: Design, cache: TraceCache | None, kept: Kept) -> Work:
    del cache, kept     # it is made at once
    return work_of(design, None)


def _of_files(design: Design, cache: TraceCache | None, kept: Kept) -> Work:
    workload = design.workload
    assert isinstance(workload, Trace)
    return work_of(design, _traces(design, workload, kept.traces.get if cache is None else _through(cache)))


_READ: Mapping[type[Workload], Callable[[Design, TraceCache | None, Kept], Work]] = MappingProxyType({
    Trace: _of_files, SingleCollective: _single})
"""How the work of a kind of workload is read; every other kind has a generator."""


def read_files(design: Design, cache: TraceCache) -> None:
    """Read what `read_work` would, where that is files."""
    if isinstance(design.workload, Trace):
        _traces(design, design.workload, _through(cache))


def _through(cache: TraceCache) -> Reader:
    def read(key: tuple[str, int], make: Callable[[], Traces]) -> Traces:
        if key not in cache:
            cache[key] = make()
        return cache[key]
    return read


def _traces(design: Design, workload: Trace, held: Reader) -> Traces:
    from astrarium.trace.read import read_traces, refuse_more  # generated workloads start without it: 12 ms

    if workload.rank is not None:
        return _one_rank(design, workload, workload.rank, held)
    key = (workload.path, rank_count(design))

    def read() -> Traces:
        refuse_more(*key)
        return read_traces(*key)
    return held(key, read)


def _one_rank(design: Design, workload: Trace, rank: int, held: Reader) -> Traces:
    """The trace of one rank, alone by its recorded times or on all NPUs."""
    from astrarium.profile.equal_ranks import equal_ranks
    from astrarium.profile.recorded import world_size
    from astrarium.trace.groups import read_groups
    from astrarium.trace.read import read_traces, trace_of_rank

    ranks = rank_count(design)
    key = (trace_of_rank(workload.path, rank), 1)
    traces = held(key, lambda: read_traces(*key))
    job = world_size(traces, 0) or 1
    if ranks == 1 < job and not replays_everything(design):
        raise InputError("workload.rank", f"rank {rank} of a job of {job} ranks on one NPU: no other rank to "
                                          "communicate with",
                         expected=f"a network of {job} NPUs (equal ranks), or its recorded times (run --trace --rank)")
    if ranks == 1:
        return traces
    return equal_ranks(traces, rank, ranks, None if workload.groups is None else read_groups(workload.groups))
