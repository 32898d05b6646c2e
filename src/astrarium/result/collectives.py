"""Every collective that ran: who, how much, how long, and its bandwidth in the conventions of nccl-tests."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.arrays import F64, I32, I64
from astrarium.collective.bandwidth import bus_factor, payload
from astrarium.engine.outcome import Outcome
from astrarium.engine.plan import Kind, Plan
from astrarium.result.messages import Comm
from astrarium.result.nodes import seen
from astrarium.vocab import CommOp

__all__ = ["Collectives", "collective_numbers", "collectives_of", "kernel_overlap"]

Text = npt.NDArray[np.str_]


class Collectives(Struct, frozen=True, eq=False):
    """One row per collective, by its first start; times in ps.

    `payload` is S of nccl-tests in bytes. `start` is the first participant's issue, `ready` the last one's, `end` the
    last completion: the time that bandwidths are taken over is end - ready, so that they say what the network did and
    not how long somebody waited; ready - start is that wait. `algbw` and `busbw` are bytes/ns (GB/s), NaN for a
    barrier or where no time passed. `group` is a number in Plan.groups or -1 for all ranks, `number` counts the group's
    collectives from 0. `instances` is how many equal collectives of folded ranks the row represents. `how`:
    composition, algorithms by dim and chunks; empty where there is nothing to say.
    """

    op: I32
    group: I32
    number: I64
    ranks: I64
    payload: I64
    start: I64
    ready: I64
    end: I64
    algbw: F64
    busbw: F64
    instances: I64
    how: Text


def collective_numbers(comm: Comm) -> tuple[I64, I64]:
    """(entries of `comm` that are collectives; the number of each on its group: 0 for the rank's first there)."""
    chosen = np.flatnonzero(comm.kind == Kind.COLLECTIVE)
    rank, group = comm.rank[chosen], comm.b[chosen]
    order = np.lexsort((comm.node[chosen], comm.start[chosen], group, rank))
    fresh = np.ones(order.size, np.bool_)
    fresh[1:] = (rank[order][1:] != rank[order][:-1]) | (group[order][1:] != group[order][:-1])
    first = np.flatnonzero(fresh)
    number = np.empty(order.size, np.int64)
    number[order] = np.arange(order.size) - first[np.cumsum(fresh) - 1] if order.size else 0
    return chosen, number


def collectives_of(plan: Plan, outcome: Outcome, comm: Comm, rows: I64) -> Collectives:
    """The collectives of `comm`; of folded outcomes those that the rows' own ranks (`rows`) take part in."""
    chosen, number = collective_numbers(comm)
    group = comm.b[chosen].astype(np.int64)
    keep = np.isin(group, _listed(plan, outcome, group, rows)) if outcome.folded else np.ones(group.size, np.bool_)
    chosen, number, group = chosen[keep], number[keep], group[keep]
    order = np.lexsort((number, group))
    fresh = np.ones(order.size, np.bool_)
    fresh[1:] = (group[order][1:] != group[order][:-1]) | (number[order][1:] != number[order][:-1])
    first = np.flatnonzero(fresh)
    entry = chosen[order]
    if not first.size:
        none = np.zeros(0, np.int64)
        return _columns(plan, outcome, none, none, none, none, none, none, none)
    start = np.minimum.reduceat(comm.start[entry], first)
    ready = np.maximum.reduceat(comm.start[entry], first)
    end = np.maximum.reduceat(comm.end[entry], first)
    by_time = np.lexsort((number[order][first], group[order][first], start))
    return _columns(plan, outcome, comm.a[entry][first][by_time].astype(np.int64), group[order][first][by_time],
                    number[order][first][by_time], start[by_time], ready[by_time], end[by_time],
                    comm.rank[entry][first][by_time])


def _listed(plan: Plan, outcome: Outcome, group: I64, rows: I64) -> list[int]:
    """One group of each kind of equal groups: that of the first rank of the kind's lowest row."""
    return [g for g in seen(group).tolist()
            if g < 0 or int(rows[outcome.row[plan.groups[g]].min()]) in plan.groups[g]]


def _columns(plan: Plan, outcome: Outcome, which: I64, group: I64, number: I64, start: I64, ready: I64, end: I64,
             rank: I64) -> Collectives:
    ops = np.array([c.op for c in plan.collectives] or [0], np.int64)[which]
    sizes = np.array([c.size for c in plan.collectives] or [0], np.int64)[which]
    members = np.array([len(g) for g in plan.groups] + [len(plan.program_of)], np.int64)[group]
    kinds, kind_of = np.unique(np.stack([ops, sizes, members], axis=1), axis=0, return_inverse=True)
    whole = [payload(CommOp(op), size, n) for op, size, n in kinds.tolist()]
    factor = [bus_factor(CommOp(op), n) if op != CommOp.BARRIER else np.nan for op, _, n in kinds.tolist()]
    total = np.array(whole, np.int64)[kind_of.reshape(-1)]
    bus = np.array(factor, np.float64)[kind_of.reshape(-1)]
    time = (end - ready) / 1000
    rate = np.divide(total, time, out=np.full(time.size, np.nan), where=(time > 0) & ~np.isnan(bus))
    return Collectives(ops.astype(np.int32), group.astype(np.int32), number, members, total, start, ready, end, rate,
                       rate * bus, _instances(plan, outcome, group, rank),
                       np.array([c.how for c in plan.collectives] or [""])[which])


def _instances(plan: Plan, outcome: Outcome, group: I64, rank: I64) -> I64:
    if not outcome.folded:
        return np.ones(group.size, np.int64)
    ranks_of_row = np.bincount(outcome.row, minlength=len(outcome.finish))
    keys = np.stack([group, outcome.row[rank].astype(np.int64)], axis=1)
    pairs, pair_of = np.unique(keys, axis=0, return_inverse=True)
    counts = [int(ranks_of_row[row]) // int((outcome.row[plan.groups[g]] == row).sum()) if g >= 0 else 1
              for g, row in pairs.tolist()]
    return np.array(counts, np.int64)[pair_of.reshape(-1)]


def kernel_overlap(plan: Plan, comm: Comm) -> tuple[int, int, int]:
    """(rank, ps, ps) of the rank on which kernels of different collectives run at the same time for longest: that time,
    and the time in which any of them runs. Each takes the time that it takes alone."""
    lasts = np.array([c.lasts if c.how.startswith("kernel") else 0 for c in plan.collectives] or [0], np.int64)
    chosen = np.flatnonzero(comm.kind == Kind.COLLECTIVE)
    chosen = chosen[lasts[comm.a[chosen]] > 0]
    if not chosen.size:
        return 0, 0, 0
    rank, end = comm.rank[chosen].astype(np.int64), comm.end[chosen]
    start = end - lasts[comm.a[chosen]]
    order = np.lexsort((start, rank))
    rank, start, end = rank[order], start[order], end[order]
    ranks, row = np.unique(rank, return_inverse=True)
    apart = row * (int(end.max()) + 1)      # ranks one behind the other on one axis
    before = np.concatenate([[0], np.maximum.accumulate(end + apart)[:-1]]) - apart
    fresh = np.maximum(0, end - np.maximum(start, before))
    busy, both = np.zeros((2, ranks.size), np.int64)
    np.add.at(busy, row, fresh)
    np.add.at(both, row, end - start - fresh)
    worst = int(np.argmax(both))
    return int(ranks[worst]), int(both[worst]), int(busy[worst])
