"""The one entry of the reference engine."""

from __future__ import annotations

from functools import partial

import numpy as np

from astrarium.engine.attached import run_attached
from astrarium.engine.outcome import EVERY_MESSAGE, Outcome
from astrarium.engine.plan import Order, Plan
from astrarium.engine.plugins.given import Team
from astrarium.engine.reference.astra_engine import AstraEngine
from astrarium.engine.reference.check import check_plan
from astrarium.engine.reference.native_engine import NativeEngine
from astrarium.engine.reference.record import Record, no_record
from astrarium.engine.reference.stall import stall_waits
from astrarium.engine.reference.traffic import no_traffic
from astrarium.errors import StallError

__all__ = ["execute"]


def execute(plan: Plan, *, record: bool = False, team: Team | None = None) -> Outcome:
    """Run `plan`, every rank on its own row. With `record` every node's issue and completion and every link's traffic
    are kept; without it those columns are empty.

    Raises StallError when ranks wait for what never comes, UnsupportedError for what the rule book does not have,
    TraceError when members of a group issue different collectives, InternalError for a Plan that does not fit itself.
    """
    if plan.attached:
        return run_attached(plan, partial(execute, record=record, team=team))
    check_plan(plan)
    sizes = [len(program.node_id) for program in plan.programs]
    kept = Record([sizes[c] for c in plan.program_of.tolist()]) if record else None
    packets = None
    kept_by: list[str] = []       # what keeps ranks for ever, as far as it is known
    engine: AstraEngine | NativeEngine
    if plan.policy.order == Order.ASTRA_SIM:
        engine = AstraEngine(plan, kept)
        engine.run()
    else:
        engine = NativeEngine(plan, kept, team)
        engine.run()
        kept_by, packets = engine.waits(), engine.packets()
    ranks = engine.ranks
    stalled = [(r.rank, r.rows, r.nodes, r.meetings) for r in ranks if r.nodes.left]
    if stalled:
        waits = stall_waits(stalled, engine.meetings, lambda rank, node: ranks[rank].argument(node))
        raise StallError([*kept_by, *waits])
    finish = np.array([r.nodes.finish for r in ranks], dtype=np.int64)
    return Outcome(row=np.arange(len(ranks), dtype=np.int32), finish=finish,
                   busy=np.array([r.nodes.busy for r in ranks], dtype=np.int64),
                   events=engine.clock.events, folded=False, packets=packets,
                   how=(EVERY_MESSAGE,),
                   **(kept.columns() if kept else no_record()),
                   **(engine.traffic.columns(int(finish.max(initial=0))) if engine.traffic else no_traffic()))
