"""Collectives in program order, where choosing among those that are ready makes ranks wait for each other.

Each rank chooses by itself which ready collective it issues next (`collective.scheduling`). Messages and collectives
end at different times on different ranks, so two ranks may choose differently; where all streams of both are taken,
each then waits for the other. Real stacks issue in program order, in which this cannot happen: design/0011.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from msgspec.structs import replace

from astrarium.arrays import I32, I64
from astrarium.engine.connected import connected
from astrarium.engine.jobs import of_collectives
from astrarium.engine.outcome import Outcome
from astrarium.engine.plan import Kind, Lane, Order, Plan, Program
from astrarium.errors import StallError, TraceError

__all__ = ["in_program_order", "run_in_order"]

NO_GROUP = -2       # of what holds a stream without a group: replayed collectives


def run_in_order(plan: Plan, run: Callable[[Plan, bool], Outcome]) -> tuple[I64, Outcome]:
    """(the ranks in program order, the Outcome) of a run that ends.

    Where ranks wait for each other, they and all that they meet (`_parties`) go into program order, until the run ends:
    others run as if there were no such ranks. `run(plan, hurried)` may raise a StallError without sentences when
    `hurried`. Raises what `run` raises; where program order does not help, what it says of `plan`.
    """
    none = np.zeros(0, np.int64)
    try:
        return none, run(plan, True)
    except (StallError, TraceError):
        party = _parties(plan)
    one = not party.any()       # if one rank waits, all go into program order
    ranks = np.arange(party.size) if one else none
    while (ordered := in_program_order(plan, ranks)) is not None:
        try:
            return ranks, _after_waiting(run(ordered, one), ranks)
        except (StallError, TraceError) as error:
            more = np.flatnonzero(np.isin(party, party[_ranks_of(error)]))
        if np.isin(more, ranks).all():
            break
        ranks = np.union1d(ranks, more)
    return none, run(plan, False)


def _after_waiting(outcome: Outcome, ranks: I64) -> Outcome:
    """The outcome of a run with these ranks in program order."""
    if not ranks.size:
        return outcome
    return replace(outcome, in_program_order=True, how=(
        f"collectives as they become ready: ranks waited for each other, so {ranks.size} ranks issued theirs in "
        "program order", *outcome.how))


def _ranks_of(error: StallError | TraceError) -> list[int]:
    """The ranks that wait, or the one whose node is at fault."""
    ranks = [wait.rank for wait in error.waits] if isinstance(error, StallError) else [error.rank]
    return [rank for rank in ranks if rank is not None]


def _parties(plan: Plan) -> I64:
    """[ranks] the lowest rank of its party: ranks that have a group or a message in common are of one."""
    count = plan.npu_of.size
    every, meets = np.arange(count), of_collectives(plan)
    peers = plan.slot_a[~meets].astype(np.int64)
    messages = (np.repeat(every, np.diff(plan.slot_ptr))[~meets] * count + peers)[(peers >= 0) & (peers < count)]
    pairs = [np.stack(np.divmod(np.unique(messages), count))]
    for group in np.unique(plan.slot_b[meets]).tolist():
        members = plan.groups[group].astype(np.int64) if group >= 0 else every
        pairs.append(np.stack([np.repeat(members[:1], members.size), members]))
    return connected(count, *np.concatenate(pairs, axis=1))


def in_program_order(plan: Plan, ranks: I64 | None = None) -> Plan | None:
    """Put each collective of `ranks` (None: all) on a fixed stream, and run each stream in program order.

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
