"""Runs of a workload that decides as it goes (plugins.work.WorkSource), on the pure-Python engine.

Some 60 thousand nodes a second: enough for control loops such as serving. Traces, which are known beforehand, run in
the compiled core.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from astrarium.engine.plan import CollectivePlan, Kind, Lane, NetworkPlan, Order, Plan, Policy, Program, Remote
from astrarium.engine.plugins.given import Plugins, Team, ask
from astrarium.engine.plugins.work import Work, WorkSource
from astrarium.engine.reference.native_engine import NativeEngine, NativeRuntime
from astrarium.engine.reference.record import Record
from astrarium.engine.reference.stall import stall_sentences
from astrarium.errors import PluginError, StallError, UnsupportedError

__all__ = ["SourceOutcome", "Stage", "run_source"]

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]
COMM = (Kind.COLLECTIVE, Kind.SEND, Kind.RECV)
HOLES = 1_000_000


@dataclass(frozen=True, eq=False)
class Stage:
    """Where a source runs: rank r on NPU `npu_of[r]` of `network`; what its collectives and groups may be."""

    npu_of: I32
    network: NetworkPlan
    groups: tuple[I32, ...] = ()
    collectives: tuple[CollectivePlan, ...] = ()
    policy: Policy = field(default_factory=Policy)
    remote: Remote = field(default_factory=Remote)
    lanes: tuple[int, ...] = (1, 1, 1, 1, 1)
    reduce_bandwidth: F64 = field(default_factory=lambda: np.zeros(0))     # as in a Plan

    @staticmethod
    def of(plan: Plan) -> Stage:
        """A Plan's stage, without its programs."""
        return Stage(plan.npu_of, plan.network, plan.groups, plan.collectives, plan.policy, plan.remote, plan.lanes,
                     plan.reduce_bandwidth)


@dataclass(frozen=True, eq=False)
class SourceOutcome:
    """What was done, in order of hand-out: `work` and, of each, issue `start` and `end` in ps [works]."""

    work: tuple[Work, ...]
    start: I64
    end: I64
    events: int

    @property
    def makespan(self) -> int:
        """The end of the last work, ps."""
        return int(self.end.max(initial=0))


def run_source(source: WorkSource, stage: Stage, plugins: Plugins | None = None) -> SourceOutcome:
    """Run `source` on `stage` under the native rule book until nothing is under way.

    Raises StallError when work is left, PluginError when the source raises or hands out work that cannot be,
    UnsupportedError under ASTRA-sim's order.
    """
    if stage.policy.order != Order.CANONICAL:
        raise UnsupportedError("compat", "ASTRA-sim's rule book runs traces", expected="compat: none")
    feeder = _Feeder(source, stage, (plugins or Plugins()).team(stage.network))
    return feeder.run()


def _no_program() -> Program:
    i64, i32 = np.zeros(0, np.int64), np.zeros(0, np.int32)
    return Program(np.zeros(0, np.uint64), np.zeros(0, np.uint8), np.zeros(0, np.int16), i64, i64, i64, i32, i32,
                   np.zeros(1, np.int32), i32)


def _plan(stage: Stage) -> Plan:
    """A Plan of ranks without nodes, each with a program of its own to grow."""
    ranks, none = len(stage.npu_of), np.zeros(0, np.int32)
    npus = 1
    for dim in stage.network.dims:
        npus *= dim.npus
    return Plan(npus=npus, programs=tuple(_no_program() for _ in range(ranks)),
                program_of=np.arange(ranks, dtype=np.int32), npu_of=stage.npu_of,
                slot_ptr=np.zeros(ranks + 1, np.int64), slot_a=none, slot_b=none, slot_c=none, groups=stage.groups,
                collectives=stage.collectives, network=stage.network, policy=stage.policy, remote=stage.remote,
                lanes=stage.lanes, reduce_bandwidth=stage.reduce_bandwidth)


class _Feeder:
    """Appends what the source hands out to the ranks' tables, and tells it what ended."""

    def __init__(self, source: WorkSource, stage: Stage, team: Team) -> None:
        self._source, self._stage = source, stage
        self._who = f"workload plug-in {type(source).__qualname__}"
        self._record = Record([0] * len(stage.npu_of))
        self._engine = NativeEngine(_plan(stage), self._record, team)
        self._works: list[Work] = []
        self._of: dict[tuple[int, int], Work] = {}

    def run(self) -> SourceOutcome:
        """Start the source, run the engine dry, and see that nothing is left."""
        engine = self._engine
        for rank, runtime in enumerate(engine.ranks):
            runtime.nodes.ended = lambda node, rank=rank: self._ended(rank, node)
        self._take(ask(self._who, self._source.start, 0))
        engine.run()
        waits = engine.foreign.waits() if engine.foreign is not None else []
        stalled = [(r.rank, r.rows, r.nodes, r.meetings) for r in engine.ranks if r.nodes.left]
        if stalled:
            waits += stall_sentences(stalled, engine.meetings, lambda rank, node: engine.ranks[rank].argument(node))
        waits += ask(self._who, self._source.unfinished)
        if waits:
            raise StallError(waits)
        rows = [self._record.rows(rank) for rank in range(len(engine.ranks))]
        columns = [np.array([rows[w.rank][side][w.id] for w in self._works], np.int64) for side in (0, 1)]
        return SourceOutcome(tuple(self._works), columns[0], columns[1], engine.clock.events)

    def _ended(self, rank: int, node: int) -> None:
        self._take(ask(self._who, self._source.completed, self._of[rank, node], self._engine.clock.now))

    def _take(self, works: Sequence[Work]) -> None:
        for work in works:
            self._check(work)
            self._of[work.rank, work.id] = work
            self._works.append(work)
            runtime = self._engine.ranks[work.rank]
            self._append(runtime, work)
            runtime.nodes.add(work.id)

    def _append(self, runtime: NativeRuntime, work: Work) -> None:
        """Write the row of a work; rows of ids that have not come yet are holes."""
        rows, times = runtime.rows, self._record.rows(work.rank)
        while len(rows) <= work.id:
            for column in (rows.kind, rows.duration, rows.busy, rows.size, runtime.nodes.parents):
                column.append(0)
            rows.node_id.append(len(rows.node_id))
            rows.lane.append(-1)
            rows.slot.append(-1)
            rows.children.append([])
            for column in times:
                column.append(-1)
        at = work.id
        rows.kind[at], rows.lane[at], rows.duration[at], rows.size[at] = work.kind, work.lane, work.duration, work.size
        rows.busy[at] = work.duration if work.lane == Lane.COMPUTE else 0
        if work.kind in COMM:
            collective = work.kind == Kind.COLLECTIVE
            runtime.given[at] = ((work.collective, work.group, work.priority) if collective
                                 else (work.peer, work.tag, 0))

    def _check(self, work: Work) -> None:
        """Refuse what would break the run later, in the source's name."""
        stage, lanes = self._stage, len(self._stage.lanes)
        if not isinstance(work, Work):
            raise PluginError(self._who, f"handed out {work!r}, which is no Work")
        known = len(self._engine.ranks[work.rank].rows) if 0 <= work.rank < len(stage.npu_of) else 0
        faults = [
            (not 0 <= work.rank < len(stage.npu_of), f"there is no rank {work.rank}"),
            ((work.rank, work.id) in self._of, f"rank {work.rank} has had a work {work.id}"),
            (not 0 <= work.id <= known + HOLES, f"id {work.id} of rank {work.rank} is not a small number from 0"),
            (not -1 <= work.lane < lanes, f"there is no lane {work.lane}"),
            (work.duration < 0 or work.size < 0, "a negative duration or size"),
            (work.kind == Kind.COLLECTIVE and not 0 <= work.collective < len(stage.collectives),
             f"there is no collective {work.collective}"),
            (work.kind == Kind.COLLECTIVE and not -1 <= work.group < len(stage.groups),
             f"there is no group {work.group}"),
        ]
        for wrong, what in faults:
            if wrong:
                raise PluginError(self._who, f"handed out {work}: {what}")
