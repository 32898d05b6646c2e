"""Communication nodes with the ranks that they belong to: who met whom, and when.

Folded outcomes hold one row per class; only the ranks that the rows' own ranks meet are written out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.engine.outcome import Outcome
from astrarium.engine.plan import Kind, Plan
from astrarium.result.nodes import first_ranks, gather, refuse_unrecorded, seen

__all__ = ["Comm", "Messages", "comm_of", "messages_of"]

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]


class Comm(Struct, frozen=True, eq=False):
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


class Messages(Struct, frozen=True, eq=False):
    """Sends and the receives that took them [messages]; `send` and `recv` are entries of a Comm."""

    send: I64
    recv: I64


def comm_of(plan: Plan, outcome: Outcome) -> Comm:
    """Communication nodes of every rank; where ranks were folded, of the rows' own ranks and those that they meet.
    Raises InputError where node times were not recorded."""
    refuse_unrecorded(outcome)
    rows = first_ranks(outcome)
    own = _entries(plan, outcome, rows)
    if not outcome.folded:
        return own
    p2p = own.kind != Kind.COLLECTIVE
    ranks = [rows, own.a[p2p].astype(np.int64)]
    for group in seen(own.b[~p2p]).tolist():
        if group >= 0:
            members = plan.groups[group]
            _, first = np.unique(outcome.row[members], return_index=True)
            ranks.append(members[first].astype(np.int64))
    return _entries(plan, outcome, seen(np.concatenate(ranks)))


def _entries(plan: Plan, outcome: Outcome, ranks: I64) -> Comm:
    program = plan.program_of[ranks].astype(np.int64)
    nodes = [np.flatnonzero(p.slot >= 0) for p in plan.programs]
    counts = np.array([len(found) for found in nodes], np.int64)
    owner, number = gather(counts[program])
    at = (np.cumsum(counts) - counts)[program[owner]] + number
    node = np.concatenate(nodes)[at]
    kind = np.concatenate([p.kind[found] for p, found in zip(plan.programs, nodes, strict=True)])[at]
    size = np.concatenate([p.size[found] for p, found in zip(plan.programs, nodes, strict=True)])[at]
    slot = np.concatenate([p.slot[found] for p, found in zip(plan.programs, nodes, strict=True)])[at]
    argument = plan.slot_ptr[ranks][owner] + slot
    place = outcome.node_ptr[outcome.row[ranks]][owner] + node
    return Comm(ranks[owner], node, kind, size, plan.slot_a[argument], plan.slot_b[argument], outcome.start[place],
                outcome.end[place], place)


def messages_of(comm: Comm) -> Messages:
    """The k-th delivered send meets the k-th posted receive of equal source, destination, tag and bytes."""
    chosen = np.flatnonzero((comm.kind == Kind.SEND) | (comm.kind == Kind.RECV))
    part = comm.take(chosen)
    recv = part.kind == Kind.RECV
    key = (part.size, part.b.astype(np.int64), np.where(recv, part.rank, part.a), np.where(recv, part.a, part.rank))
    order = np.lexsort((part.node, np.where(recv, part.start, part.end), recv, *key))
    message = _runs(tuple(column[order] for column in key))
    side = _runs((message, recv[order]))
    first = np.flatnonzero(np.diff(side, prepend=-1))
    turn = np.arange(order.size, dtype=np.int64) - first[side]      # k within the sends, or the receives, of a key
    pairs = np.lexsort((recv[order], turn, message))
    met = np.flatnonzero((np.diff(message[pairs]) == 0) & (np.diff(turn[pairs]) == 0))
    entry = chosen[order[pairs]]
    return Messages(entry[met], entry[met + 1])


def _runs(columns: tuple[npt.NDArray[Any], ...]) -> I64:
    """Number of the run of equal rows that each row is in, from 0; the rows are sorted."""
    fresh = np.zeros(columns[0].size, np.int64)
    for column in columns:
        fresh[1:] |= column[1:] != column[:-1]
    return np.cumsum(fresh)
