"""Collectives in program order, where choosing among those that are ready makes ranks wait for each other.

Each rank chooses by itself which ready collective it issues next (`collective.scheduling`). Messages and collectives
end at different times on different ranks, so two ranks may choose differently; where all streams of both are taken,
each then waits for the other. Real stacks issue in program order, in which this cannot happen: design/0011.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from astrarium.engine.outcome import Outcome
from astrarium.engine.plan import Kind, Lane, Order, Plan, Program
from astrarium.errors import StallError, TraceError

__all__ = ["in_program_order", "run_in_order"]

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
NO_GROUP = -2       # of what holds a stream without a group: replayed collectives


def run_in_order(plan: Plan, run: Callable[[Plan, bool], Outcome]) -> tuple[Plan, Outcome]:
    """(what ran, its Outcome): `plan`, or, where its ranks wait for each other, the same in program order.

    `run(plan, hurried)` may raise a StallError without sentences when `hurried`. Raises what `run` raises; where
    program order does not help either, what it says of `plan`.
    """
    try:
        return plan, run(plan, True)
    except (StallError, TraceError):
        ordered = in_program_order(plan)
        if ordered is not None:
            try:
                return ordered, replace(run(ordered, True), in_program_order=True)
            except (StallError, TraceError):
                pass
    return plan, run(plan, False)


def in_program_order(plan: Plan, ranks: I64 | None = None) -> Plan | None:
    """The same work with each collective of these ranks (or all) on a fixed stream, and each stream in the order of the
    program.

    A rank's groups take the streams of the COMM lane in turn, in the order of their first use. A collective waits for
    the end of the one before it on its stream. None where a program has no such order (a node waits for a later one)
    and under ASTRA-sim's rules, which have no streams.
    """
    ranks = np.arange(plan.program_of.size) if ranks is None else ranks
    numbers, of = np.unique(plan.program_of[ranks], return_inverse=True)
    if plan.policy.order != Order.CANONICAL or any(_backwards(plan.programs[number]) for number in numbers):
        return None
    one = [int(ranks[np.argmax(of == k)]) for k in range(numbers.size)]     # of the ranks of each program
    ordered = [_ordered(plan, plan.programs[number], rank) for number, rank in zip(numbers, one, strict=True)]
    others = np.delete(np.arange(plan.program_of.size), ranks)
    left, of_others = np.unique(plan.program_of[others], return_inverse=True)
    program_of = np.empty_like(plan.program_of)
    program_of[others], program_of[ranks] = of_others.reshape(-1), left.size + of.reshape(-1)
    return replace(plan, programs=(*(plan.programs[number] for number in left), *ordered), program_of=program_of)


def _backwards(program: Program) -> bool:
    return bool((program.child <= _owner(program)).any())


def _owner(program: Program) -> I64:
    """[edges] the node that the child of each edge waits for."""
    return np.repeat(np.arange(program.kind.size), np.diff(program.child_ptr))


def _ordered(plan: Plan, program: Program, rank: int) -> Program:
    """The program of a rank with an edge between neighbours of a stream, unless they have one."""
    nodes = np.flatnonzero(program.lane == Lane.COMM)
    if nodes.size < 2:
        return program
    stream = _streams(_groups(plan, program, nodes, rank), plan.lanes[Lane.COMM])
    by_stream = np.argsort(stream, kind="stable")
    same = stream[by_stream][1:] == stream[by_stream][:-1]
    before, after = nodes[by_stream[:-1][same]], nodes[by_stream[1:][same]]
    edges = np.unique(np.concatenate([_owner(program) * program.kind.size + program.child,
                                      before * program.kind.size + after]))
    parent, child = np.divmod(edges, program.kind.size)
    pointer = np.zeros(program.kind.size + 1, np.int32)
    np.cumsum(np.bincount(parent, minlength=program.kind.size), out=pointer[1:])
    return replace(program, parents=np.bincount(child, minlength=program.kind.size).astype(np.int32),
                   child_ptr=pointer, child=child.astype(np.int32))


def _groups(plan: Plan, program: Program, nodes: I64, rank: int) -> I32:
    """The group of each of these nodes on one rank."""
    slots = plan.slot_b[int(plan.slot_ptr[rank]):int(plan.slot_ptr[rank + 1])]
    found = np.full(nodes.size, NO_GROUP, np.int32)
    meet = program.kind[nodes] == Kind.COLLECTIVE
    found[meet] = slots[program.slot[nodes[meet]]]
    return found


def _streams(groups: I32, streams: int) -> I64:
    """[nodes] the stream of each: groups take them in turn, in the order of their first use."""
    _, first, of = np.unique(groups, return_index=True, return_inverse=True)
    turn = np.empty(first.size, np.int64)
    turn[np.argsort(first)] = np.arange(first.size)
    return turn[of.reshape(-1)] % streams
