"""The *workload* protocol: a feeder that decides, while the run goes on, what each rank does next.

A trace is the trivial source (`PlanSource`): it hands out a node when the nodes that it waits for have ended. Serving,
MoE routing and speculative decoding hand out work that depends on what happened so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from astrarium.arrays import F64, I32
from astrarium.engine.plan import CollectivePlan, Kind, Lane, NetworkPlan, Plan, Policy, Remote

__all__ = ["PlanSource", "RunContext", "Work", "WorkSource", "collective", "compute", "recv", "remote", "send", "timer"]


class Work(Struct, frozen=True):
    """One thing that a rank does, ready to be issued on its lane.

    `id` is this work's own among those of its rank: small numbers from 0; ready work of one lane goes in their order.
    `peer` and `tag` belong to sends and receives; `collective`, `group` (indexes into the context's, group -1: all
    ranks) and `priority` to collectives; `size` is in bytes, `duration` in ps.
    """

    id: int
    rank: int
    kind: Kind
    lane: int = -1
    duration: int = 0
    size: int = 0
    peer: int = -1
    tag: int = 0
    collective: int = -1
    group: int = -1
    priority: int = 0


class RunContext(Struct, frozen=True, eq=False):
    """Where a source runs: rank r on NPU `npu_of[r]` of `network`; what its collectives and groups may be.

    `group_of[c]`: the group that collective c was made for (-1: all ranks); None: any that it fits.
    """

    npu_of: I32
    network: NetworkPlan
    groups: tuple[I32, ...] = ()
    collectives: tuple[CollectivePlan, ...] = ()
    policy: Policy = field(default_factory=Policy)
    remote: Remote = field(default_factory=Remote)
    lanes: tuple[int, ...] = (1, 1, 1, 1, 1)
    reduce_bandwidth: F64 = field(default_factory=lambda: np.zeros(0))     # as in a Plan
    group_of: tuple[int, ...] | None = None

    @staticmethod
    def of(plan: Plan) -> RunContext:
        """The context of a Plan: all but its programs."""
        return RunContext(plan.npu_of, plan.network, plan.groups, plan.collectives, plan.policy, plan.remote,
                          plan.lanes, plan.reduce_bandwidth)


class WorkSource(Protocol):
    """A workload for one run. Deterministic: the same completions at the same times get the same new work."""

    def start(self, t: int) -> Sequence[Work]:
        """What is ready at the start, `t` = 0 ps."""
        ...

    def completed(self, work: Work, t: int) -> Sequence[Work]:
        """`work` ended at `t` ps; what is ready now because of it."""
        ...

    def unfinished(self) -> Sequence[str]:
        """One sentence per thing that could not be done, when nothing is under way any more; empty: all is done."""
        ...


def timer(id: int, rank: int, duration: int) -> Work:  # noqa: A002
    """Ends `duration` ps from now and takes no resource: an arrival, a timeout."""
    return Work(id, rank, Kind.DELAY, duration=duration)


def compute(id: int, rank: int, duration: int) -> Work:  # noqa: A002
    """Busy for `duration` ps on the rank's compute lane."""
    return Work(id, rank, Kind.DELAY, Lane.COMPUTE, duration)


def send(id: int, rank: int, peer: int, size: int, tag: int = 0) -> Work:  # noqa: A002
    """A message of `size` bytes to rank `peer`; ends when it is delivered."""
    return Work(id, rank, Kind.SEND, Lane.P2P, size=size, peer=peer, tag=tag)


def recv(id: int, rank: int, peer: int, size: int, tag: int = 0) -> Work:  # noqa: A002
    """A message of `size` bytes from rank `peer`."""
    return Work(id, rank, Kind.RECV, size=size, peer=peer, tag=tag)


def remote(id: int, rank: int, size: int) -> Work:  # noqa: A002
    """An access of `size` bytes to remote memory."""
    return Work(id, rank, Kind.REMOTE, Lane.COPY, size=size)


def collective(id: int, rank: int, number: int, group: int = -1, priority: int = 0) -> Work:  # noqa: A002
    """This rank's part in collective `number` of the context."""
    return Work(id, rank, Kind.COLLECTIVE, Lane.COMM, collective=number, group=group, priority=priority)


class PlanSource:
    """The programs of a Plan as a source; a work's id is its node's index."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._parents = [plan.programs[c].parents.tolist() for c in plan.program_of.tolist()]
        self._left = [len(parents) for parents in self._parents]

    def start(self, t: int) -> list[Work]:
        """Nodes without parents."""
        del t
        return [self._work(rank, node) for rank, parents in enumerate(self._parents)
                for node, count in enumerate(parents) if not count]

    def completed(self, work: Work, t: int) -> list[Work]:
        """Nodes for which `work` was the last parent."""
        del t
        program, parents = self._plan.programs[int(self._plan.program_of[work.rank])], self._parents[work.rank]
        self._left[work.rank] -= 1
        ready = []
        for child in program.child[program.child_ptr[work.id]:program.child_ptr[work.id + 1]].tolist():
            parents[child] -= 1
            if not parents[child]:
                ready.append(self._work(work.rank, child))
        return ready

    def unfinished(self) -> list[str]:
        """Ranks with nodes left."""
        return [f"rank {rank}: {left} nodes unfinished" for rank, left in enumerate(self._left) if left]

    def _work(self, rank: int, node: int) -> Work:
        plan, program = self._plan, self._plan.programs[int(self._plan.program_of[rank])]
        kind = Kind(int(program.kind[node]))
        work = Work(node, rank, kind, int(program.lane[node]), int(program.duration[node]), int(program.size[node]))
        if kind not in (Kind.COLLECTIVE, Kind.SEND, Kind.RECV):
            return work
        at = int(plan.slot_ptr[rank]) + int(program.slot[node])
        a, b, c = (int(column[at]) for column in (plan.slot_a, plan.slot_b, plan.slot_c))
        if kind == Kind.COLLECTIVE:
            return replace(work, collective=a, group=b, priority=c)
        return replace(work, peer=a, tag=b)
