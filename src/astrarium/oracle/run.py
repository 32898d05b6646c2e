"""The entries of the pure-Python engine: a Plan to its end, or a workload that decides as it runs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from astrarium.engine import core_only
from astrarium.engine.attached import run_attached
from astrarium.engine.media import medium_kind
from astrarium.engine.outcome import EVERY_MESSAGE, Outcome
from astrarium.engine.plan import Backend, Changing, Kind, Lane, Order, Plan
from astrarium.engine.plugins.feeder import Feeder
from astrarium.engine.plugins.given import Team
from astrarium.engine.plugins.work import Work
from astrarium.errors import StallError, UnsupportedError, Wait
from astrarium.oracle.engine import Engine, Rank
from astrarium.oracle.record import Record, no_record, no_traffic

__all__ = ["execute", "feed"]

COMM = (Kind.COLLECTIVE, Kind.SEND, Kind.RECV)


def execute(plan: Plan, *, record: bool = False, team: Team | None = None) -> Outcome:
    """Run `plan`, every rank and every message.

    The Plan is taken to fit itself (the compiled core checks that): `lower` makes no other.

    Args:
        plan: what to do, under our own rules.
        record: keep every node's issue and completion and every link's traffic; else those columns are empty.
        team: plug-ins that take part.

    Returns:
        One row per rank.

    Raises:
        StallError: ranks wait for what never comes.
        TraceError: members of a group issue different collectives.
        UnsupportedError: ASTRA-sim's rules, or something that the medium of `plan.network` does not have.
    """
    if plan.attached:
        return run_attached(plan, partial(execute, record=record, team=team))
    _refuse(plan)
    sizes = [len(program.node_id) for program in plan.programs]
    kept = Record([sizes[c] for c in plan.program_of.tolist()]) if record else None
    engine = Engine(plan, kept, team)
    engine.run()
    if waits := _stall(engine):
        raise StallError([*engine.waits(), *waits])
    return Outcome(row=np.arange(len(engine.ranks), dtype=np.int32), folded=False, packets=engine.network.counts(),
                   **_columns(engine), **(kept.columns() if kept else no_record()))


def _columns(engine: Engine) -> dict[str, Any]:
    """The columns of an Outcome that every run has."""
    finish = np.array([rank.nodes.finish for rank in engine.ranks], np.int64)
    traffic = engine.traffic.columns(int(finish.max(initial=0))) if engine.traffic else no_traffic()
    return {"finish": finish, "busy": np.array([rank.nodes.busy for rank in engine.ranks], np.int64),
            "events": engine.clock.events, "how": (EVERY_MESSAGE,), **traffic}


def _refuse(plan: Plan) -> None:
    """Refuse what would be left out without a word."""
    if plan.policy.order == Order.ASTRA_SIM:
        raise core_only("compat")
    if plan.network.backend == Backend.FOREIGN:
        return
    kind, changes = medium_kind(plan.network.backend), plan.changes
    if not kind.takes_graph and (plan.network.graph is not None
                                 or (changes is not None and Changing.LINK in changes.what)):
        raise UnsupportedError("network.backend", f"{plan.network.backend} has no links of a graph, nor links that "
                               "change", expected="contention, fluid or packets")


def _stall(engine: Engine) -> list[Wait]:
    """What unfinished ranks wait for, one sentence a node, by rank."""
    found = []
    for rank in engine.ranks:
        nodes = rank.nodes
        found += [_wait(rank, node, _in_flight(engine, rank, node)) for node in sorted(nodes.flying)]
        if nodes.left and not nodes.flying:
            found.append(_wait(rank, *_blocked(rank)))
    return found


def _wait(rank: Rank, node: int, text: str) -> Wait:
    number = rank.rows.node_id[node]
    return Wait(f"rank {rank.rank}: node {number} {text}", rank.rank, number)


def _in_flight(engine: Engine, rank: Rank, node: int) -> str:
    kind, size = rank.rows.kind[node], rank.rows.size[node]
    if kind == Kind.COLLECTIVE:
        return f"({engine.meetings.sentence(rank.rank, rank.meetings[node])})"
    if kind in (Kind.SEND, Kind.RECV):
        peer, tag, _ = rank.argument(node)
        if kind == Kind.RECV:
            return f"(recv from {peer}, tag {tag}, {size} bytes) waits for a send that never comes"
        return f"(send to {peer}, tag {tag}, {size} bytes) waits for a receive that never comes"
    return "never ends"


def _blocked(rank: Rank) -> tuple[int, str]:
    """The first node of a rank on which nothing is in flight, and why it is not."""
    rows, nodes = rank.rows, rank.nodes
    ready = [node for heap in nodes.ready for node in heap]
    if ready:
        node = min(ready)
        return node, f"is ready, but its lane ({rows.lane[node]}) has no room"
    node = next(i for i, parents in enumerate(nodes.parents) if parents > 0)
    parents = [i for i, children in enumerate(rows.children) if node in children and nodes.parents[i] > 0]
    parent = rows.node_id[parents[0]] if parents else "?"
    return node, f"waits for node {parent}, which never starts (a cycle?)"


def feed(plan: Plan, feeder: Feeder, team: Team) -> dict[str, Any]:
    """Run a source on a Plan of empty programs, one per rank: columns of an Outcome, but times in order of hand-out.

    Raises StallError when what was handed out waits for what never comes.
    """
    _refuse(plan)
    return _Feed(plan, feeder, team).run()


class _Feed:
    """Appends what the source hands out to the ranks' tables, and tells it what ended."""

    def __init__(self, plan: Plan, feeder: Feeder, team: Team) -> None:
        self._feeder, self._record = feeder, Record([0] * plan.program_of.size)
        self._engine = Engine(plan, self._record, team)

    def run(self) -> dict[str, Any]:
        """Start the source, and run the engine dry."""
        engine = self._engine
        for rank in engine.ranks:
            rank.nodes.ended = partial(self._ended, rank.rank)
        self._take(self._feeder.start())
        engine.run()
        waits: list[str | Wait] = [*engine.foreign.waits()] if engine.foreign is not None else []
        if stalled := _stall(engine):
            waits = [*engine.waits(), *stalled]
        if waits:
            raise StallError(waits)
        rows = [self._record.rows(rank.rank) for rank in engine.ranks]
        start, end = (np.array([rows[w.rank][side][w.id] for w in self._feeder.works], np.int64) for side in (0, 1))
        return {**_columns(engine), "start": start, "end": end}

    def _ended(self, rank: int, node: int) -> None:
        self._take(self._feeder.completed(rank, node, self._engine.clock.now))

    def _take(self, works: Sequence[Work]) -> None:
        for work in works:
            rank = self._engine.ranks[work.rank]
            self._append(rank, work)
            rank.nodes.add(work.id)

    def _append(self, rank: Rank, work: Work) -> None:
        """Write the row of a work; rows of ids that have not come yet are holes."""
        rows, times = rank.rows, self._record.rows(work.rank)
        while len(rows) <= work.id:
            for column in (rows.kind, rows.duration, rows.busy, rows.size, rank.nodes.parents):
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
            rank.given[at] = ((work.collective, work.group, work.priority) if collective
                                 else (work.peer, work.tag, 0))
