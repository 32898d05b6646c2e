"""The exam of whole plans: do the phases of every chunk, one after the other, make up the operation?

Each phase's schedule sits its own exam first. Then the payload is cut into one cell per member, and every phase is
applied to whole lines of members as its operation promises; at the end everyone must hold what the operation
promises.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from astrarium.collective.exam import examine
from astrarium.collective.groups import FLAT
from astrarium.engine.plan import Chunk, CollectivePlan, Phase
from astrarium.errors import InputError
from astrarium.vocab import CommOp

__all__ = ["examine_plan"]

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]


def examine_plan(plan: CollectivePlan, n: int, *, path: str = "collective") -> None:
    """Prove `plan` for a group of `n` members; InputError says which chunk is wrong and how."""
    proved: set[int] = set()
    for number, chunk in enumerate(plan.chunks):
        for phase in chunk.phases:
            if phase.schedule is None or phase.schedule.n != phase.n or int(phase.schedule.op) != phase.op:
                raise InputError(path, f"chunk {number}: a phase without a schedule for its operation and size")
            if id(phase.schedule) not in proved:
                examine(phase.schedule, path=path, in_place=phase.dim != FLAT)
                proved.add(id(phase.schedule))
        _examine_chunk(CommOp(plan.op), chunk, n, lambda text, number=number: InputError(  # type: ignore[misc]
            path, f"{CommOp(plan.op).name.lower()} on {n} members, chunk {number}: {text}"))


def _lines(phase: Phase, n: int) -> I64:
    """The members of each line of the phase [lines, phase.n]."""
    position = np.arange(n, dtype=np.int64)
    first = position[(position // phase.stride) % phase.n == 0]
    lines: I64 = first[:, None] + np.arange(phase.n, dtype=np.int64) * phase.stride
    return lines


def _examine_chunk(op: CommOp, chunk: Chunk, n: int, fail: Callable[[str], InputError]) -> None:
    if len(chunk.phases) == 1 and chunk.phases[0].n == n and chunk.phases[0].op == op:
        return  # the schedule's own exam has proved it
    for phase in chunk.phases:
        if n % (phase.n * phase.stride):
            raise fail(f"lines of {phase.n} members {phase.stride} apart do not fill the group")
    if op == CommOp.ALL_TO_ALL:
        _all_to_all(chunk, n, fail)
    elif op == CommOp.BARRIER:
        _barrier(chunk, n, fail)
    elif op in (CommOp.ALL_REDUCE, CommOp.REDUCE_SCATTER, CommOp.ALL_GATHER):
        _reductions(op, chunk, n, fail)
    else:
        raise fail("a rooted operation must be one schedule for the whole group")


def _all_to_all(chunk: Chunk, n: int, fail: Callable[[str], InputError]) -> None:
    """Items go, in each phase, to the member of the line whose coordinate is their destination's."""
    at = np.repeat(np.arange(n, dtype=np.int64)[:, None], n, axis=1)  # where the item [source, destination] is
    to = np.broadcast_to(np.arange(n, dtype=np.int64), (n, n))
    for phase in chunk.phases:
        _need_op(phase, CommOp.ALL_TO_ALL, fail)
        at = at + ((to // phase.stride) % phase.n - (at // phase.stride) % phase.n) * phase.stride
    if (at != to).any():
        s, d = (int(i[0]) for i in np.nonzero(at != to))
        raise fail(f"the item from {s} to {d} ends at {int(at[s, d])}")


def _barrier(chunk: Chunk, n: int, fail: Callable[[str], InputError]) -> None:
    heard = np.eye(n, dtype=np.bool_)
    for phase in chunk.phases:
        _need_op(phase, CommOp.BARRIER, fail)
        for line in _lines(phase, n):
            heard[line] = heard[line].any(axis=0)
    if not heard.all():
        p, q = (int(i[0]) for i in np.nonzero(~heard))
        raise fail(f"member {p} leaves without having heard from {q}")


def _need_op(phase: Phase, op: CommOp, fail: Callable[[str], InputError]) -> None:
    if phase.op != op:
        raise fail(f"a phase of {CommOp(phase.op).name.lower()}; expected {op.name.lower()}")


def _reductions(op: CommOp, chunk: Chunk, n: int, fail: Callable[[str], InputError]) -> None:
    """`value` [member, cell, contributor] counts contributions; `live` [member, cell]: what a member works on."""
    value = np.zeros((n, n, n), np.int32)
    value[np.arange(n), :, np.arange(n)] = 1
    live = np.eye(n, dtype=np.bool_) if op == CommOp.ALL_GATHER else np.ones((n, n), np.bool_)
    for phase in chunk.phases:
        for line in _lines(phase, n):
            _apply(phase, line, value, live, fail)
    if op == CommOp.ALL_GATHER:
        good = live.all() and (value == np.eye(n, dtype=np.int32)).all()
    else:
        held = value[live]
        shares = live.sum(axis=0) == (n if op == CommOp.ALL_REDUCE else 1)
        good = bool((held == 1).all()) and bool(shares.all()) and len(set(live.sum(axis=1).tolist())) == 1
    if not good:
        raise fail("the phases do not add up to the operation: "
                   + ", ".join(f"{CommOp(p.op).name.lower()} n={p.n} stride={p.stride}" for p in chunk.phases))


def _apply(phase: Phase, line: I64, value: I32, live: npt.NDArray[np.bool_], fail: Callable[[str], InputError]) -> None:
    if phase.op == CommOp.ALL_GATHER:
        if (live[line].sum(axis=0) > 1).any():
            raise fail("an all_gather of shards that overlap")
        total = (value[line] * live[line][:, :, None]).sum(axis=0)
        live[line] = live[line].any(axis=0)
        value[line] = total
        return
    if phase.op not in (CommOp.ALL_REDUCE, CommOp.REDUCE_SCATTER):
        raise fail(f"a phase of {CommOp(phase.op).name.lower()}")
    if (live[line] != live[line[0]]).any():
        raise fail(f"members {line.tolist()} reduce different parts of the payload")
    value[line] = value[line].sum(axis=0)
    if phase.op == CommOp.REDUCE_SCATTER:
        cells = np.flatnonzero(live[line[0]])
        if len(cells) % phase.n:
            raise fail(f"{len(cells)} cells cannot be shared among {phase.n} members")
        for k, share in enumerate(np.split(cells, phase.n)):
            live[line[k]] = False
            live[line[k], share] = True
