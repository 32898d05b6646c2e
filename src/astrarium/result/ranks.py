"""What every rank's time went into, per row of the Outcome."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from types import MappingProxyType

import numpy as np
from msgspec import Struct

from astrarium.arrays import I64
from astrarium.engine.outcome import Outcome
from astrarium.engine.plan import Order
from astrarium.result.intervals import Intervals
from astrarium.result.nodes import Nodes, Work

__all__ = ["Ranks", "ranks_of"]


class Ranks(Struct, frozen=True, eq=False):
    """Times in ps [rows].

    Natively compute + exposed_comm + exposed_memory + exposed_host + bubble = finish, and idle = makespan - finish:
    `compute` is the time with a compute node in flight; `exposed_comm` that with communication in flight and no
    compute (a receive is in flight once its message is); `exposed_memory` and `exposed_host` that with a remote access,
    or a host node, and none of the former; `bubble` that with nothing in flight. Under `compat: astra_sim` `compute` is
    the sum of device compute nodes and `exposed_comm` = finish - compute, as ASTRA-sim prints it.
    """

    finish: I64
    compute: I64
    exposed_comm: I64
    exposed_memory: I64
    exposed_host: I64
    bubble: I64
    idle: I64


def ranks_of(outcome: Outcome, order: Order, nodes: Nodes, begin: I64) -> Ranks:
    """The times of every row; `begin` [nodes] is when each node was really in flight."""
    timed = np.flatnonzero(outcome.end > begin)
    work = nodes.work[timed]
    spans = Intervals(nodes.row[timed], begin[timed], nodes.end[timed], len(outcome.finish))
    kinds = ((Work.COMPUTE,), (Work.COLLECTIVE, Work.MESSAGE), (Work.MEMORY,), (Work.HOST,))
    covered = [np.zeros(len(outcome.finish), np.int64)]
    chosen = np.zeros(work.size, np.bool_)
    for kind in kinds:
        fresh = np.isin(work, kind)
        chosen |= fresh
        covered.append(spans.union(chosen) if fresh.any() else covered[-1])
    compute, comm, memory, host = (after - before for before, after in pairwise(covered))
    compute, comm = _RULES[order](outcome, compute, comm)
    return Ranks(outcome.finish, compute, comm, memory, host, outcome.finish - covered[-1],
                 outcome.makespan - outcome.finish)


def _native(outcome: Outcome, compute: I64, comm: I64) -> tuple[I64, I64]:
    del outcome
    return compute, comm


def _astra(outcome: Outcome, compute: I64, comm: I64) -> tuple[I64, I64]:
    del compute, comm
    return outcome.busy, outcome.finish - outcome.busy


_RULES: Mapping[Order, Callable[[Outcome, I64, I64], tuple[I64, I64]]] = MappingProxyType({
    Order.CANONICAL: _native,
    Order.ASTRA_SIM: _astra,
})
