"""Runs of a workload that decides as it goes (plugins.work.WorkSource), in either engine to the same integers."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from astrarium.arrays import I64
from astrarium.engine._native import HAVE_CORE
from astrarium.engine._oracle import oracle
from astrarium.engine.outcome import Outcome, outcome_of
from astrarium.engine.plan import Backend, Kind, Lane, NetworkPlan, Order, Plan, Program
from astrarium.engine.plugins.feeder import Feeder
from astrarium.engine.plugins.given import Plugins, Team
from astrarium.engine.plugins.work import RunContext, Work, WorkSource
from astrarium.errors import StallError, UnsupportedError

__all__ = ["RunContext", "SourceOutcome", "run_source"]

COMM = (Kind.COLLECTIVE, Kind.SEND, Kind.RECV)
LONGEST_NS = 9.2e15     # 2^63 ps


class SourceOutcome(Struct, frozen=True, eq=False, dict=True):
    """What was done, in order of hand-out: `work` and, of each, issue `start` and `end` in ps [works]."""

    work: tuple[Work, ...]
    start: I64
    end: I64
    events: int
    context: RunContext
    columns: dict[str, Any]     # what else the engine measured, as in an Outcome

    @property
    def makespan(self) -> int:
        """The end of the last work, ps."""
        return int(self.end.max(initial=0))

    @cached_property
    def plan(self) -> Plan:
        """What was done as a Plan: a program per rank, nodes by id, without dependencies. It replays nothing: nodes
        started when the source handed them out."""
        ranks = len(self.context.npu_of)
        rows = [self._rows(rank) for rank in range(ranks)]
        pointer = np.cumsum([0, *(int((program.slot >= 0).sum()) for program, _ in rows)])
        slots = np.array([each for _, given in rows for each in given], np.int32).reshape(-1, 3)
        empty = _plan(self.context)
        return replace(empty, programs=tuple(program for program, _ in rows), slot_ptr=pointer.astype(np.int64),
                       slot_a=slots[:, 0].copy(), slot_b=slots[:, 1].copy(), slot_c=slots[:, 2].copy())

    @cached_property
    def outcome(self) -> Outcome:
        """The times of `plan`'s nodes, and the traffic."""
        ranks = len(self.context.npu_of)
        order = [place for rank in range(ranks) for place in self._places[rank]]
        sizes = [0, *(len(self._places[rank]) for rank in range(ranks))]
        return outcome_of({**self.columns, "row": np.arange(ranks, dtype=np.int32), "folded": False,
                          "node_ptr": np.cumsum(sizes).astype(np.int64), "start": self.start[order],
                          "end": self.end[order], "events": self.events})

    @cached_property
    def _places(self) -> list[list[int]]:
        """Per rank the places of its works, by id."""
        found: list[list[int]] = [[] for _ in self.context.npu_of]
        for place, work in enumerate(self.work):
            found[work.rank].append(place)
        for places in found:
            places.sort(key=lambda place: self.work[place].id)
        return found

    def _rows(self, rank: int) -> tuple[Program, list[tuple[int, int, int]]]:
        works = [self.work[place] for place in self._places[rank]]
        given = [(w.collective, w.group, w.priority) if w.kind == Kind.COLLECTIVE else (w.peer, w.tag, 0)
                 for w in works if w.kind in COMM]
        comm = np.array([w.kind in COMM for w in works], np.bool_)
        duration, lane = np.array([w.duration for w in works], np.int64), np.array([w.lane for w in works], np.int16)
        return Program(
            node_id=np.array([w.id for w in works], np.uint64), kind=np.array([w.kind for w in works], np.uint8),
            lane=lane, duration=duration, busy=np.where(lane == Lane.COMPUTE, duration, 0),
            size=np.array([w.size for w in works], np.int64),
            slot=np.where(comm, np.cumsum(comm) - 1, -1).astype(np.int32), parents=np.zeros(len(works), np.int32),
            child_ptr=np.zeros(len(works) + 1, np.int32), child=np.zeros(0, np.int32)), given


def run_source(source: WorkSource, context: RunContext, plugins: Plugins | None = None, *,
               pure: bool = False) -> SourceOutcome:
    """Run `source` on `context` under the native rule book until nothing is under way; `pure`: in the pure-Python
    engine, which also runs where there is no compiled core.

    Raises StallError when work is left, PluginError when the source raises or hands out work that cannot be,
    UnsupportedError under ASTRA-sim's order.
    """
    if context.policy.order != Order.CANONICAL:
        raise UnsupportedError("compat", "ASTRA-sim's rule book runs traces", expected="compat: none")
    given = plugins or Plugins()
    if given.network is not None:
        context = replace(context, network=replace(context.network, backend=Backend.FOREIGN))
    elif context.network.backend == Backend.FOREIGN:
        raise UnsupportedError("network.backend", "a plug-in's, and the run has none", expected="a network plug-in")
    plan = _plan(context)
    feeder = Feeder(source, context, _heaviest(context.network))
    try:
        columns = _run(plan, feeder, given.team(context.network), pure)
    except StallError as stall:
        raise StallError([*stall.waits, *feeder.unfinished()]) from None
    waits = feeder.unfinished()
    if waits:
        raise StallError(list(waits))
    start, end, events = columns.pop("start"), columns.pop("end"), columns.pop("events")
    return SourceOutcome(tuple(feeder.works), start, end, events, context, columns)


def _run(plan: Plan, feeder: Feeder, team: Team, pure: bool) -> dict[str, Any]:
    if HAVE_CORE and not pure:
        from astrarium.engine._native import run_fed

        return run_fed(plan, feeder, team)
    return oracle().feed(plan, feeder, team)


def _heaviest(network: NetworkPlan) -> float:
    """Bytes of a message that every link can carry in 2^63 ps."""
    if network.graph is not None:
        return LONGEST_NS / network.graph.nodes * float(network.graph.bandwidth.min())
    return min([9.2e18, *(LONGEST_NS / dim.npus * dim.bandwidth for dim in network.dims)])


def _no_program() -> Program:
    i64, i32 = np.zeros(0, np.int64), np.zeros(0, np.int32)
    return Program(np.zeros(0, np.uint64), np.zeros(0, np.uint8), np.zeros(0, np.int16), i64, i64, i64, i32, i32,
                   np.zeros(1, np.int32), i32)


def _plan(context: RunContext) -> Plan:
    """A Plan of ranks without nodes, each with its own program to grow."""
    ranks, none = len(context.npu_of), np.zeros(0, np.int32)
    npus = 1
    for dim in context.network.dims:
        npus *= dim.npus
    return Plan(npus=npus, programs=tuple(_no_program() for _ in range(ranks)),
                program_of=np.arange(ranks, dtype=np.int32), npu_of=context.npu_of,
                slot_ptr=np.zeros(ranks + 1, np.int64), slot_a=none, slot_b=none, slot_c=none, groups=context.groups,
                collectives=context.collectives, network=context.network, policy=context.policy, remote=context.remote,
                lanes=context.lanes, reduce_bandwidth=context.reduce_bandwidth)
