"""The one entry of the reference engine."""

from __future__ import annotations

import numpy as np

from astrarium.engine.outcome import Outcome
from astrarium.engine.plan import Order, Plan
from astrarium.engine.reference.astra_engine import AstraEngine
from astrarium.engine.reference.record import Record
from astrarium.engine.reference.stall import stall_sentences
from astrarium.errors import StallError

__all__ = ["execute"]


def execute(plan: Plan, *, record: bool = False) -> Outcome:
    """Run `plan`, every rank on its own; with `record` every node's issue and completion are kept.

    Raises StallError when ranks wait for what never comes, UnsupportedError for what the rule book does not have.
    """
    sizes = [len(program.node_id) for program in plan.programs]
    kept = Record([sizes[c] for c in plan.program_of.tolist()]) if record else None
    engine = AstraEngine(plan, kept) if plan.policy.order == Order.ASTRA_SIM else None
    assert engine is not None
    engine.run()
    stalled = [(r.rank, r.rows, r.nodes, r.meetings) for r in engine.ranks if r.nodes.finish < 0]
    if stalled:
        raise StallError(stall_sentences(stalled, engine.meetings, lambda rank, node: engine.ranks[rank].argument(node)))
    empty = np.zeros(0, dtype=np.int64)
    nodes = kept.columns() if kept else {"node_ptr": np.zeros(len(engine.ranks) + 1, np.int64), "start": empty, "end": empty}
    return Outcome(row=np.arange(len(engine.ranks), dtype=np.int32),
                   finish=np.array([r.nodes.finish for r in engine.ranks], dtype=np.int64),
                   busy=np.array([r.nodes.busy for r in engine.ranks], dtype=np.int64),
                   events=engine.clock.events, folded=False, **nodes, **engine.traffic.columns())
