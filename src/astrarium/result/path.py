"""The critical path: from the last completion back to time 0, always to what made the next thing wait."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
from msgspec import Struct

from astrarium.arrays import I32, I64, U8
from astrarium.engine.outcome import Outcome
from astrarium.engine.plan import Plan
from astrarium.result.collectives import collective_numbers
from astrarium.result.messages import Comm, Messages
from astrarium.result.nodes import Nodes, Work, first_ranks

__all__ = ["Path", "critical_path"]


class Path(Struct, frozen=True, eq=False):
    """The segments of the path in time order [segments]; ps. They follow each other without gaps and add up to the
    makespan. `rank` is the lowest rank of its row, `node` an index in its program (of a WAIT: the node that waited)."""

    rank: I64
    node: I32
    work: U8        # Work
    start: I64
    end: I64

    def shares(self) -> dict[str, float]:
        """Share of the path's length by kind of work, largest first; kinds without any are left out."""
        length = np.zeros(len(Work), np.float64)
        np.add.at(length, self.work, (self.end - self.start).astype(np.float64))
        total = float(length.sum())
        found = [(work.name.lower(), float(length[work]) / total) for work in Work if length[work] > 0]
        return dict(sorted(found, key=lambda pair: -pair[1]))


def critical_path(plan: Plan, outcome: Outcome, nodes: Nodes, comm: Comm, messages: Messages) -> Path:
    """Walk back from the node that ended last.

    A node waited for the parent, or else the node of its lane, that ended when it was issued. A receive waited for its
    send where that was issued later, a collective for the participant that came last.
    """
    return _Walk(plan, outcome, nodes, comm, messages).path()


class _Walk:
    """Columns as memory views: one entry of such costs half of one of an array."""

    def __init__(self, plan: Plan, outcome: Outcome, nodes: Nodes, comm: Comm, messages: Messages) -> None:
        self.plan = plan
        self.rows, self.pointer = first_ranks(outcome).data, outcome.node_ptr.data
        self.program_of = plan.program_of.data
        self.row, self.node, self.work, self.lane, self.start, self.end = (
            each.data for each in (nodes.row, nodes.node, nodes.work, nodes.lane, nodes.start, nodes.end))
        self.last = int(np.argmax(nodes.end)) if nodes.end.size else -1
        self.width = int(nodes.node.max(initial=0)) + 1
        self.keys = (comm.rank * self.width + comm.node).data      # ascending: ranks, and nodes within
        self.place, self.begins = comm.place.data, comm.start.data
        self.cause = _causes(comm, messages).data
        self.parents: dict[int, tuple[memoryview, memoryview]] = {}
        self.by_end: dict[int, tuple[memoryview, memoryview]] = {}

    def path(self) -> Path:
        """The segments, first to last."""
        found: list[tuple[int, int, int, int, int]] = []
        at = self.last
        seen: set[int] = set()
        until = self.end[at] if at >= 0 else 0
        while at >= 0:
            seen.add(at)
            cause, begin = self._begin(at)
            found.append((self.rows[self.row[at]], self.node[at], self.work[at], begin, until))
            seen.add(cause)
            until = begin
            at = self._before(cause, seen)
            ended = self.end[at] if at >= 0 else 0
            if ended < until:
                found.append((self.rows[self.row[cause]], self.node[cause], int(Work.WAIT), ended, until))
                until = ended
        columns = np.array(found[::-1], np.int64).reshape(-1, 5)
        return Path(columns[:, 0], columns[:, 1].astype(np.int32), columns[:, 2].astype(np.uint8), columns[:, 3],
                    columns[:, 4])

    def _begin(self, at: int) -> tuple[int, int]:
        """(node whose issue set this one going, that time): itself, a later participant, or the send of a receive."""
        begin = self.start[at]
        key = self.rows[self.row[at]] * self.width + self.node[at]
        entry = bisect_left(self.keys, key)
        if entry == len(self.keys) or self.keys[entry] != key:
            return at, begin
        cause = self.cause[entry]
        return (self.place[cause], self.begins[cause]) if self.begins[cause] > begin else (at, begin)

    def _before(self, at: int, seen: set[int]) -> int:
        """The node that `at` waited for: a parent or a node of its lane that ended when it was issued, else the parent
        that ended last; -1 where there is none."""
        begin = self.start[at]
        if begin == 0:
            return -1
        row, node, end = self.row[at], self.node[at], self.end
        base = self.pointer[row]
        program = self.program_of[self.rows[row]]
        pointer, parent = self.parents.get(program) or self._parents(program)
        latest, ended = -1, -1
        for each in parent[pointer[node]:pointer[node + 1]]:
            place = base + each
            if end[place] > ended and place not in seen:
                latest, ended = place, end[place]
        if ended == begin:
            return latest
        mate = self._mate(row, base, self.lane[at], begin, seen)
        return mate if mate >= 0 else latest

    def _mate(self, row: int, base: int, lane: int, begin: int, seen: set[int]) -> int:
        """A node of the lane that ended at `begin`, or -1."""
        if lane < 0:
            return -1
        if row not in self.by_end:
            ends = np.asarray(self.end[base:self.pointer[row + 1]])
            order = np.argsort(ends, kind="stable")
            self.by_end[row] = (order + base).data, ends[order].data
        places, ended = self.by_end[row]
        low = bisect_left(ended, begin)
        return next((place for place in places[low:bisect_left(ended, begin + 1, low)]
                     if self.lane[place] == lane and place not in seen), -1)

    def _parents(self, program: int) -> tuple[memoryview, memoryview]:
        """(pointer [nodes + 1], parents) of a program."""
        p = self.plan.programs[program]
        owner = np.repeat(np.arange(len(p.node_id), dtype=np.int32), np.diff(p.child_ptr))
        pointer = np.zeros(len(p.node_id) + 1, np.int64)
        np.cumsum(np.bincount(p.child, minlength=len(p.node_id)), out=pointer[1:])
        self.parents[program] = found = pointer.data, owner[np.argsort(p.child, kind="stable")].data
        return found


def _causes(comm: Comm, messages: Messages) -> I64:
    """Per entry of `comm` the one that set it going: a receive's send, a collective's last participant, else itself."""
    cause = np.arange(comm.rank.size, dtype=np.int64)
    cause[messages.recv] = messages.send
    chosen, number = collective_numbers(comm)
    group = comm.b[chosen]
    order = np.lexsort((-comm.rank[chosen], comm.start[chosen], number, group))
    if order.size:
        fresh = np.ones(order.size, np.bool_)
        fresh[1:] = (group[order][1:] != group[order][:-1]) | (number[order][1:] != number[order][:-1])
        last = np.append(np.flatnonzero(fresh)[1:], order.size) - 1
        cause[chosen[order]] = chosen[order[last[np.cumsum(fresh) - 1]]]
    return cause
