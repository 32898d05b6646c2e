"""Communication nodes with the ranks that they belong to: who met whom, and when.

Folded outcomes hold one row per class; only the ranks that the rows' own ranks meet are written out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.arrays import I32, I64, U8
from astrarium.engine.outcome import Outcome
from astrarium.engine.plan import Kind, Plan
from astrarium.result.nodes import first_ranks, gather, refuse_unrecorded, seen

__all__ = ["Comm", "Messages", "comm_of", "messages_of"]


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


def comm_of(plan: Plan, outcome: Outcome, rows: I64 | None = None) -> Comm:
    """Communication nodes of every rank; where ranks were folded, of the rows' own ranks and those that they meet.
    `rows`: of these alone, with what their nodes meet of other ranks. Raises InputError where node times were not
    recorded."""
    refuse_unrecorded(outcome)
    own = first_ranks(outcome) if rows is None else first_ranks(outcome)[rows]
    if rows is None and not outcome.folded:
        return _entries(plan, outcome, own)
    slots, peers, groups = _slots(plan, own)
    ranks = [own, peers]
    for group in groups[groups >= 0].tolist():
        members = plan.groups[group]
        _, first = np.unique(outcome.row[members], return_index=True)
        ranks.append(members[first].astype(np.int64))
    return _entries(plan, outcome, seen(np.concatenate(ranks)), None if rows is None else slots)


def _slots(plan: Plan, own: I64) -> tuple[npt.NDArray[np.bool_], I64, I64]:
    """(which slots of all ranks meet these: theirs, messages to them, collectives of their groups; the ranks that they
    send to or receive from; their groups)."""
    collective = [np.zeros(0, np.bool_)] * len(plan.programs)
    for number, program in enumerate(plan.programs):
        there = program.slot >= 0
        collective[number] = np.zeros(int(program.slot.max(initial=-1)) + 1, np.bool_)
        collective[number][program.slot[there & (program.kind == Kind.COLLECTIVE)]] = True
    every = np.concatenate([collective[number] for number in plan.program_of.tolist()])
    mine, members = np.zeros(plan.slot_a.size, np.bool_), np.zeros(len(plan.program_of), np.bool_)
    for rank in own.tolist():
        mine[plan.slot_ptr[rank]:plan.slot_ptr[rank + 1]] = True
    members[own] = True
    peers, groups = seen(plan.slot_a[mine & ~every]), seen(plan.slot_b[mine & every])
    theirs = np.zeros(len(plan.groups) + 1, np.bool_)
    theirs[groups] = True                   # -1, all ranks, is the last
    met = np.zeros(plan.slot_a.size, np.bool_)
    met[~every], met[every] = members[plan.slot_a[~every]], theirs[plan.slot_b[every]]
    return mine | met, peers, groups


def _entries(plan: Plan, outcome: Outcome, ranks: I64, slots: npt.NDArray[np.bool_] | None = None) -> Comm:
    """Communication nodes of ranks; `slots`: those of these slots alone."""
    program = plan.program_of[ranks].astype(np.int64)
    nodes = [np.flatnonzero(p.slot >= 0) for p in plan.programs]
    counts = np.array([len(found) for found in nodes], np.int64)
    owner, number = gather(counts[program])
    at = (np.cumsum(counts) - counts)[program[owner]] + number
    slot = np.concatenate([p.slot[found] for p, found in zip(plan.programs, nodes, strict=True)])[at]
    argument = plan.slot_ptr[ranks][owner] + slot
    if slots is not None:
        chosen = np.flatnonzero(slots[argument])
        owner, at, argument = owner[chosen], at[chosen], argument[chosen]
    node = np.concatenate(nodes)[at]
    kind = np.concatenate([p.kind[found] for p, found in zip(plan.programs, nodes, strict=True)])[at]
    size = np.concatenate([p.size[found] for p, found in zip(plan.programs, nodes, strict=True)])[at]
    place = outcome.node_ptr[outcome.row[ranks]][owner] + node
    return Comm(ranks[owner], node, kind, size, plan.slot_a[argument], plan.slot_b[argument], outcome.start[place],
                outcome.end[place], place)


def messages_of(comm: Comm) -> Messages:
    """The k-th delivered send meets the k-th posted receive of equal source, destination, tag and bytes."""
    chosen = np.flatnonzero((comm.kind == Kind.SEND) | (comm.kind == Kind.RECV))
    part = comm.take(chosen)
    recv = part.kind == Kind.RECV
    ranks = np.int64(max(int(part.rank.max(initial=0)), int(part.a.max(initial=0))) + 1)
    pair = np.where(recv, part.rank, part.a) * ranks + np.where(recv, part.a, part.rank)
    key = (part.size, part.b.astype(np.int64), pair)
    when = np.where(recv, part.start, part.end)
    order = _ordered(*key, recv, when)
    if order is None:
        order = np.lexsort((part.node, when, recv, *key))
    taken = recv[order]
    message = _runs(tuple(column[order] for column in key))
    first = np.flatnonzero(np.diff(message, prepend=-1))
    sends = np.bincount(message, ~taken).astype(np.int64)       # of every message; they precede its receives
    at = np.flatnonzero(taken)
    turn = at - (first + sends)[message[at]]      # k within the receives
    met = turn < sends[message[at]]
    at, turn = at[met], turn[met]
    return Messages(chosen[order[first[message[at]] + turn]], chosen[order[at]])


def _ordered(size: I64, tag: I64, pair: I64, recv: npt.NDArray[np.bool_], when: I64) -> I64 | None:
    """The order by pair, tag, side and time of entries whose times ascend, and whose tags say their
    sizes; None where they do not (one sort of numbers takes a fifth of sorting all columns)."""
    tags = int(tag.max(initial=0)) + 2
    if int(pair.max(initial=0)) > 2**61 // tags:
        return None
    key = (pair * tags + tag + 1) * 2 + recv
    order = np.argsort(key, kind="stable")
    key, when, size = key[order], when[order], size[order]
    alike = key[1:] == key[:-1]
    paired = key[1:] // 2 == key[:-1] // 2
    usual = (~alike | (when[1:] >= when[:-1])) & (~paired | (size[1:] == size[:-1]))
    return order if bool(usual.all()) else None


def _runs(columns: tuple[npt.NDArray[Any], ...]) -> I64:
    """Number of the run of equal rows that each row is in, from 0; the rows are sorted."""
    fresh = np.zeros(columns[0].size, np.int64)
    for column in columns:
        fresh[1:] |= column[1:] != column[:-1]
    return np.cumsum(fresh)
