"""A workload that decides as it runs, on the pure-Python engine: ranks' tables grow with what it hands out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from astrarium.engine.outcome import EVERY_MESSAGE
from astrarium.engine.plan import Kind, Lane, Plan
from astrarium.engine.plugins.feeder import Feeder
from astrarium.engine.plugins.given import Team
from astrarium.engine.plugins.work import Work
from astrarium.engine.reference.native_engine import NativeEngine, NativeRuntime
from astrarium.engine.reference.record import Record
from astrarium.engine.reference.stall import stall_waits
from astrarium.engine.reference.traffic import no_traffic
from astrarium.errors import StallError, Wait

__all__ = ["feed"]

COMM = (Kind.COLLECTIVE, Kind.SEND, Kind.RECV)


def feed(plan: Plan, feeder: Feeder, team: Team) -> dict[str, Any]:
    """Run a source on a Plan of empty programs, one per rank: columns of an Outcome, but times in order of hand-out.

    Raises StallError when what was handed out waits for what never comes.
    """
    run = _Feed(plan, feeder, team)
    return run.run()


class _Feed:
    """Appends what the source hands out to the ranks' tables, and tells it what ended."""

    def __init__(self, plan: Plan, feeder: Feeder, team: Team) -> None:
        self._feeder, self._record = feeder, Record([0] * plan.program_of.size)
        self._engine = NativeEngine(plan, self._record, team)

    def run(self) -> dict[str, Any]:
        """Start the source, and run the engine dry."""
        engine = self._engine
        for rank, runtime in enumerate(engine.ranks):
            runtime.nodes.ended = lambda node, rank=rank: self._take(
                self._feeder.completed(rank, node, engine.clock.now))
        self._take(self._feeder.start())
        engine.run()
        waits: list[str | Wait] = [*engine.foreign.waits()] if engine.foreign is not None else []
        stalled = [(r.rank, r.rows, r.nodes, r.meetings) for r in engine.ranks if r.nodes.left]
        if stalled:
            waits = [*engine.waits(), *stall_waits(stalled, engine.meetings,
                                                   lambda rank, node: engine.ranks[rank].argument(node))]
        if waits:
            raise StallError(waits)
        rows = [self._record.rows(rank) for rank in range(len(engine.ranks))]
        start, end = (np.array([rows[w.rank][side][w.id] for w in self._feeder.works], np.int64) for side in (0, 1))
        finish = np.array([r.nodes.finish for r in engine.ranks], np.int64)
        traffic = engine.traffic.columns(int(finish.max(initial=0))) if engine.traffic else no_traffic()
        return {"finish": finish, "busy": np.array([r.nodes.busy for r in engine.ranks], np.int64), "start": start,
                "end": end, "events": engine.clock.events, "how": (EVERY_MESSAGE,), **traffic}

    def _take(self, works: Sequence[Work]) -> None:
        for work in works:
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
