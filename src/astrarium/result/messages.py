"""Communication nodes with the ranks that they belong to: who met whom, and when.

Folded outcomes hold one row per class; only the ranks that the rows' own ranks meet are written out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from astrarium.engine.outcome import Outcome
from astrarium.engine.plan import Kind, Plan
from astrarium.result.nodes import first_ranks, gather

__all__ = ["Comm", "Messages", "comm_of", "messages_of"]

I32, I64, U8 = npt.NDArray[np.int32], npt.NDArray[np.int64], npt.NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class Comm:
    """Communication nodes of some ranks [entries]: slots as in a Plan, times in ps, `place` in the Outcome's arrays."""

    rank: I64
    node: I64
    kind: U8
    size: I64
    a: I32
    b: I32
    start: I64
    end: I64
    place: I64

    def take(self, chosen: npt.NDArray[np.integer] | npt.NDArray[np.bool_]) -> Comm:
        """Some of the entries."""
        return Comm(self.rank[chosen], self.node[chosen], self.kind[chosen], self.size[chosen], self.a[chosen],
                    self.b[chosen], self.start[chosen], self.end[chosen], self.place[chosen])


@dataclass(frozen=True, eq=False)
class Messages:
    """Sends and the receives that took them [messages]; `send` and `recv` are entries of a Comm."""

    send: I64
    recv: I64


def comm_of(plan: Plan, outcome: Outcome) -> Comm:
    """Communication nodes of every rank, or, where ranks were folded, of the rows' own ranks and those that they meet."""
    rows = first_ranks(outcome)
    own = _entries(plan, outcome, rows)
    if not outcome.folded:
        return own
    p2p = own.kind != Kind.COLLECTIVE
    ranks = [rows, own.a[p2p].astype(np.int64)]
    for group in np.unique(own.b[~p2p]).tolist():
        if group >= 0:
            members = plan.groups[group]
            _, first = np.unique(outcome.row[members], return_index=True)
            ranks.append(members[first].astype(np.int64))
    return _entries(plan, outcome, np.unique(np.concatenate(ranks)))


def _entries(plan: Plan, outcome: Outcome, ranks: I64) -> Comm:
    program = plan.program_of[ranks].astype(np.int64)
    nodes = [np.flatnonzero(p.slot >= 0) for p in plan.programs]
    counts = np.array([len(found) for found in nodes], np.int64)
    owner, slot = gather(counts[program])
    at = (np.cumsum(counts) - counts)[program[owner]] + slot
    node = np.concatenate(nodes)[at]
    kind = np.concatenate([p.kind[found] for p, found in zip(plan.programs, nodes, strict=True)])[at]
    size = np.concatenate([p.size[found] for p, found in zip(plan.programs, nodes, strict=True)])[at]
    argument = plan.slot_ptr[ranks][owner] + slot
    place = outcome.node_ptr[outcome.row[ranks]][owner] + node
    return Comm(ranks[owner], node, kind, size, plan.slot_a[argument], plan.slot_b[argument], outcome.start[place],
                outcome.end[place], place)


def messages_of(comm: Comm) -> Messages:
    """The k-th delivered send meets the k-th posted receive of equal source, destination, tag and bytes."""
    chosen = np.flatnonzero((comm.kind == Kind.SEND) | (comm.kind == Kind.RECV))
    part = comm.take(chosen)
    sends = part.kind == Kind.SEND
    source, target = np.where(sends, part.rank, part.a), np.where(sends, part.a, part.rank)
    turn = np.where(sends, part.end, part.start)
    keys = (part.size, part.b.astype(np.int64), target, source)
    order = np.lexsort((part.node, turn, ~sends, *keys))
    same = np.ones(order.size, np.bool_)
    same[:1] = False
    for key in keys:
        same[1:] &= key[order][1:] == key[order][:-1]
    kind = sends[order]
    run = np.cumsum(~same | np.concatenate([[True], kind[1:] != kind[:-1]])) - 1 if order.size else np.zeros(0, np.int64)
    first = np.flatnonzero(np.concatenate([[True], run[1:] != run[:-1]])) if order.size else np.zeros(0, np.int64)
    turn_of = np.arange(order.size, dtype=np.int64) - first[run]
    key_run = np.cumsum(~same) - 1
    pair = np.lexsort((~kind, turn_of, key_run))
    hit = np.flatnonzero((key_run[pair][1:] == key_run[pair][:-1]) & (turn_of[pair][1:] == turn_of[pair][:-1]))
    ordered = chosen[order[pair]]
    return Messages(ordered[hit], ordered[hit + 1])
