"""The critical path: from the last completion back to time 0, always to what made the next thing wait."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.engine.outcome import Outcome
from astrarium.engine.plan import Plan
from astrarium.result.collectives import collective_numbers
from astrarium.result.messages import Comm, Messages
from astrarium.result.nodes import Nodes, Work, first_ranks

__all__ = ["Path", "critical_path"]

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]


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
    def __init__(self, plan: Plan, outcome: Outcome, nodes: Nodes, comm: Comm, messages: Messages) -> None:
        self.plan, self.outcome, self.nodes, self.comm = plan, outcome, nodes, comm
        self.rows = first_ranks(outcome)
        self.width = int(nodes.node.max(initial=0)) + 1
        self.keys = comm.rank * self.width + comm.node      # ascending: ranks, and nodes within
        self.cause = _causes(comm, messages)
        self.parents: dict[int, tuple[I64, I32]] = {}
        self.by_end: dict[int, tuple[I64, I64]] = {}

    def path(self) -> Path:
        """The segments, first to last."""
        found: list[tuple[int, int, int, int, int]] = []
        at = int(np.argmax(self.nodes.end)) if self.nodes.end.size else -1
        seen: set[int] = set()
        until = int(self.nodes.end[at]) if at >= 0 else 0
        while at >= 0:
            seen.add(at)
            row, node = int(self.nodes.row[at]), int(self.nodes.node[at])
            cause, begin = self._begin(row, node, at)
            found.append((int(self.rows[row]), node, int(self.nodes.work[at]), begin, until))
            seen.add(cause)
            until = begin
            at = self._before(cause, seen)
            ended = int(self.nodes.end[at]) if at >= 0 else 0
            if ended < until:
                who, node = int(self.nodes.row[cause]), int(self.nodes.node[cause])
                found.append((int(self.rows[who]), node, int(Work.WAIT), ended, until))
                until = ended
        columns = np.array(found[::-1], np.int64).reshape(-1, 5)
        return Path(columns[:, 0], columns[:, 1].astype(np.int32), columns[:, 2].astype(np.uint8), columns[:, 3],
                    columns[:, 4])

    def _begin(self, row: int, node: int, at: int) -> tuple[int, int]:
        """(node whose issue set this one going, that time): itself, a later participant, or the send of a receive."""
        begin = int(self.nodes.start[at])
        key = int(self.rows[row]) * self.width + node
        entry = int(np.searchsorted(self.keys, key))
        if entry == len(self.keys) or int(self.keys[entry]) != key:
            return at, begin
        cause = int(self.cause[entry])
        other = int(self.comm.place[cause])
        return (other, int(self.comm.start[cause])) if int(self.comm.start[cause]) > begin else (at, begin)

    def _before(self, at: int, seen: set[int]) -> int:
        """The node that `at` waited for: a parent or a node of its lane that ended when it was issued, else the parent
        that ended last; -1 where there is none."""
        row, node, begin = int(self.nodes.row[at]), int(self.nodes.node[at]), int(self.nodes.start[at])
        base = int(self.outcome.node_ptr[row])
        pointer, parent = self._parents(int(self.plan.program_of[self.rows[row]]))
        mine = parent[pointer[node]:pointer[node + 1]].astype(np.int64) + base
        mine = np.array([p for p in mine.tolist() if p not in seen], np.int64)
        latest = int(mine[np.argmax(self.nodes.end[mine])]) if mine.size else -1
        if begin == 0 or (latest >= 0 and int(self.nodes.end[latest]) == begin):
            return latest if begin else -1
        mate = self._mate(row, base, int(self.nodes.lane[at]), begin, seen)
        return mate if mate >= 0 else latest

    def _mate(self, row: int, base: int, lane: int, begin: int, seen: set[int]) -> int:
        """A node of the lane that ended at `begin`, or -1."""
        if lane < 0:
            return -1
        if row not in self.by_end:
            ends = self.nodes.end[base:int(self.outcome.node_ptr[row + 1])]
            order = np.argsort(ends, kind="stable")
            self.by_end[row] = (order + base, ends[order])
        order, ends = self.by_end[row]
        low, high = np.searchsorted(ends, [begin, begin + 1])
        return next((place for place in order[low:high].tolist()
                     if int(self.nodes.lane[place]) == lane and place not in seen), -1)

    def _parents(self, program: int) -> tuple[I64, I32]:
        """(pointer [nodes + 1], parents) of a program."""
        if program not in self.parents:
            p = self.plan.programs[program]
            owner = np.repeat(np.arange(len(p.node_id), dtype=np.int32), np.diff(p.child_ptr))
            pointer = np.zeros(len(p.node_id) + 1, np.int64)
            np.cumsum(np.bincount(p.child, minlength=len(p.node_id)), out=pointer[1:])
            self.parents[program] = (pointer, owner[np.argsort(p.child, kind="stable")])
        return self.parents[program]


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
