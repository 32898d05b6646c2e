"""What the ranks of a workload run: classes of equal ranks and the groups that their collectives name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from astrarium.arrays import I32
from astrarium.cache import Budget, Cache, frozen
from astrarium.compute.config import replays_all
from astrarium.design import Design
from astrarium.errors import InputError
from astrarium.lower.generated import check_generated
from astrarium.lower.members import Members, refuse_foreign_groups
from astrarium.lower.node_tables import COMM_TYPE
from astrarium.lower.shared_slots import share_slots
from astrarium.trace.columns import Traces
from astrarium.trace.work import Generated, TraceClass
from astrarium.vocab import CommOp, NodeKind
from astrarium.workload.config import Trace, Workload
from astrarium.workload.single import SingleCollective

__all__ = ["Given", "Work", "from_generated", "named_groups", "own_slots", "rank_count", "replays_everything",
           "work_of"]

LOWERED = 256       # of one Work: programs, shapes of groups, columns of arguments, tuples of collectives


class Work(Struct, frozen=True, eq=False, dict=True):
    """`classes` cover every rank once; `groups[g]` holds the ranks of group g in order; `names[g]` is its name.

    `source` is what it was made from. To run one workload on many designs, make its Work once (`from_generated`) and
    give it to `lower` or `simulate` in place of the source. `lowered` caches what was lowered from it, within `budget`
    where there is one; a key begins with the kind of its value.
    """

    classes: tuple[TraceClass, ...]
    groups: tuple[I32, ...]
    names: tuple[str, ...]
    source: Traces | Generated | None = None
    budget: Budget | None = None

    @cached_property
    def lowered(self) -> Cache[Any]:
        return Cache(LOWERED if self.budget is None else self.budget)

    @cached_property
    def process_groups(self) -> int:
        """The most groups of several ranks that a rank has collectives in (by group and involved dims), of the first
        ranks of all classes."""
        counts = [sum(group < 0 or self.groups[group].size > 1 for group in _groups_of_first(trace))
                  for trace in self.classes]
        return max(counts, default=0)

    @property
    def ranks(self) -> int:
        """How many ranks it is of."""
        return sum(trace.ranks.size for trace in self.classes)


Given: TypeAlias = Traces | Generated | Work
"""What a caller may have in place of a workload's files: traces, what a generator made, or the Work of either."""


def _groups_of_first(trace: TraceClass) -> list[int]:
    """The group of every (group, involved dims) in which the first rank of a class has collectives; -1: all ranks."""
    comm = np.flatnonzero(COMM_TYPE[trace.type])
    collective = trace.type[comm] == NodeKind.COMM_COLL
    slot = np.arange(comm.size) if trace.slot is None else trace.slot
    pairs = zip(trace.slot_b[0][slot[collective]].tolist(), trace.involved[comm[collective]].tolist())
    return [group for group, _ in sorted(set(pairs))]


def own_slots(trace: TraceClass) -> TraceClass:
    """The class with its own slot for every comm node."""
    if trace.slot is None:
        return trace
    return replace(trace, slot_a=trace.slot_a[:, trace.slot], slot_b=trace.slot_b[:, trace.slot], slot=None)


def from_generated(generated: Generated, ranks: int, budget: Budget | None = None) -> Work:
    """The work that a generator made for `ranks` ranks; `budget` is that of its caches. Raises InputError, and
    TraceError with rank, node and name, for what cannot run: see `check_generated`."""
    check_generated(generated, ranks)
    return Work(generated.classes, tuple(map(frozen, generated.groups)), generated.names, generated, budget=budget)


def rank_count(design: Design) -> int:
    """Ranks of a design of one workload: one per entry of its placement, else one per NPU."""
    placement = design.system.placement
    return design.network.npus if isinstance(placement, str) else len(placement)


def work_of(design: Design, given: Given | None) -> Work:
    """The work of a design's ranks, of what was read or made for it. Raises InputError for missing or superfluous
    traces and for groups out of range."""
    if isinstance(given, Work):
        if given.ranks != rank_count(design):
            raise InputError("workload", f"work of {given.ranks} ranks",
                             expected=f"{rank_count(design)}, as the design has")
        return given
    return _WORK.get(type(design.workload), _made)(design, given)


def replays_everything(design: Design) -> bool:
    """Whether every node of every NPU takes its recorded time."""
    models = [design.compute, *(kind.compute for kind in design.npu_types if kind.compute is not None)]
    return all(map(replays_all, models))


def named_groups(workload: Trace, traces: Traces) -> Mapping[str, tuple[int, ...]]:
    """Name -> ranks of the groups: of the workload's file, else those that the traces define. Where one rank stands for
    all, its traces hold the groups of each."""
    from astrarium.trace.groups import groups_of, read_groups

    whole = workload.rank is not None and traces.groups is not None
    return groups_of(traces) if workload.groups is None or whole else read_groups(workload.groups)


def _from_traces(design: Design, traces: Traces | Generated | None) -> Work:
    from astrarium.lower.classes import trace_classes  # nothing else needs it: 4 ms of every other command

    workload, ranks = design.workload, rank_count(design)
    assert isinstance(workload, Trace)
    if isinstance(traces, Generated):
        if workload.groups is not None:
            raise InputError("workload.groups", "a generated workload defines its groups", expected="no file")
        return from_generated(traces, ranks)
    if traces is None:
        raise InputError("workload", "the traces are missing", expected="the traces that workload.path names")
    if traces.ranks != ranks:
        raise InputError("workload", f"traces of {traces.ranks} ranks", expected=f"{ranks}, one per rank of the design")
    if replays_everything(design):
        alone = trace_classes(_without_peers(traces), (), dependencies=workload.dependencies)
        return Work(tuple(alone), (), (), traces)
    groups = named_groups(workload, traces)
    where = "the traces' process groups" if workload.groups is None else workload.groups
    for name, members in groups.items():
        if max(members) >= ranks:
            raise InputError(where, f"group {name}: there is no rank {max(members)}",
                             expected=f"ranks 0 to {ranks - 1}")
    names = tuple(groups)
    classes = trace_classes(traces, names, dependencies=workload.dependencies)
    grouped = tuple(np.array(each, np.int32) for each in groups.values())
    refuse_foreign_groups(classes, Members.of(grouped), ranks)
    return Work(tuple(map(share_slots, classes)), grouped, names, traces)


def _without_peers(traces: Traces) -> Traces:
    """Make every collective one of all ranks and every message one to its own rank, so that one rank of a larger job
    runs without the others."""
    classes = []
    for number, columns in enumerate(traces.classes):
        rank = np.broadcast_to(traces.members(number).astype(np.int64)[:, None], columns.group.shape)
        classes.append(replace(columns, group=np.full_like(columns.group, -1), source=rank, destination=rank,
                               tag=np.zeros_like(columns.tag)))
    return replace(traces, classes=tuple(classes))


def _single(design: Design, traces: Traces | Generated | None) -> Work:
    """One collective of all ranks, as one class of one node."""
    workload, ranks = design.workload, rank_count(design)
    assert isinstance(workload, SingleCollective)
    if traces is not None:
        raise InputError("workload", "a single collective takes no traces")
    op, one = CommOp[workload.op.upper()], np.ones(1, np.int64)
    size = workload.shard(ranks)
    trace = TraceClass(
        ranks=np.arange(ranks, dtype=np.int32), node_id=np.zeros(1, np.uint64),
        type=np.full(1, NodeKind.COMM_COLL, np.uint8), is_cpu=np.zeros(1, np.bool_), duration_us=np.zeros(1, np.uint64),
        num_ops=np.full(1, np.nan), tensor_size=np.zeros(1, np.uint64), comm_type=np.full(1, op, np.int32),
        comm_size=one * size, involved=np.full(1, -1, np.int32), priority=np.zeros(1, np.int32),
        parent_ptr=np.zeros(2, np.int64), parent=np.zeros(0, np.int32),
        slot_a=np.full((ranks, 1), -1, np.int32), slot_b=np.full((ranks, 1), -1, np.int32))
    return Work((trace,), (), ())


def _made(design: Design, source: Traces | Generated | None) -> Work:
    """A workload that a generator makes."""
    if not isinstance(source, Generated):
        raise InputError("workload", f"source: {design.workload.tag} is generated", expected="what its generator made")
    return from_generated(source, rank_count(design))


_WORK: Mapping[type[Workload], Callable[[Design, Traces | Generated | None], Work]] = MappingProxyType({
    Trace: _from_traces,
    SingleCollective: _single,
})
