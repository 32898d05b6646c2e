"""Every simulated node as columns: which row, what it is, when it ran."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.arrays import I32, I64, U8
from astrarium.engine.outcome import Outcome
from astrarium.engine.plan import Kind, Lane, Plan, Program
from astrarium.errors import InputError

__all__ = ["Nodes", "Work", "first_ranks", "gather", "nodes_of", "recorded", "refuse_unrecorded", "seen"]


class Work(enum.IntEnum):
    """What a node's time counts as."""

    COMPUTE = 0
    COLLECTIVE = 1
    MESSAGE = 2
    MEMORY = 3
    HOST = 4
    NONE = 5        # metadata: takes no time
    WAIT = 6        # nothing that the trace names: on a critical path, and until a rank's recording begins


class Nodes(Struct, frozen=True, eq=False):
    """The nodes of every row of an Outcome, row after row; arrays [nodes of all rows], times in ps."""

    row: I32
    node: I32       # index in the row's program
    work: U8        # Work
    lane: npt.NDArray[np.int16]
    start: I64
    end: I64


def recorded(outcome: Outcome) -> bool:
    """Whether node times were kept."""
    return len(outcome.node_ptr) == len(outcome.finish) + 1


def refuse_unrecorded(outcome: Outcome) -> None:
    """Raise InputError where node times were not kept."""
    if not recorded(outcome):
        raise InputError("simulate", "node times were not recorded", expected="simulate(design, record=True)")


def first_ranks(outcome: Outcome) -> I64:
    """The lowest rank of every row [rows]."""
    first = np.full(len(outcome.finish), len(outcome.row), np.int64)
    np.minimum.at(first, outcome.row, np.arange(len(outcome.row), dtype=np.int64))
    return first


def gather(counts: npt.ArrayLike) -> tuple[I64, I64]:
    """(which of the things each entry belongs to, its number within) when thing i has `counts[i]` entries."""
    many = np.asarray(counts, np.int64)
    owner = np.repeat(np.arange(many.size, dtype=np.int64), many)
    base = np.cumsum(many) - many
    return owner, np.arange(owner.size, dtype=np.int64) - base[owner]


def seen(numbers: npt.NDArray[np.integer[Any]]) -> I64:
    """The distinct ones of small numbers from -1 on, ascending. (numpy.unique sorts, and imports numpy.ma: 10 ms.)"""
    return np.flatnonzero(np.bincount(numbers + 1)) - 1


def nodes_of(plan: Plan, outcome: Outcome, rows: I64 | None = None) -> Nodes:
    """All nodes of an Outcome that recorded them, or those of some `rows`, in their order. Raises InputError where it
    did not."""
    refuse_unrecorded(outcome)
    own = np.arange(len(outcome.finish), dtype=np.int64) if rows is None else rows
    program = plan.program_of[first_ranks(outcome)[own]].astype(np.int64)
    sizes = np.array([len(p.node_id) for p in plan.programs], np.int64)
    row, node = gather(sizes[program])
    base = np.cumsum(sizes) - sizes
    place = base[program[row]] + node
    works = np.concatenate([_work(p) for p in plan.programs])
    lanes = np.concatenate([p.lane for p in plan.programs])
    start, end = outcome.start, outcome.end
    if rows is not None:
        at = outcome.node_ptr[rows][row] + node
        start, end = start[at], end[at]
    return Nodes(own[row].astype(np.int32), node.astype(np.int32), works[place], lanes[place], start, end)


def _work(program: Program) -> U8:
    kind, lane = program.kind, program.lane
    by_kind = np.full(len(Kind), Work.NONE, np.uint8)
    by_kind[[Kind.SEND, Kind.RECV]] = Work.MESSAGE
    by_kind[[Kind.COLLECTIVE, Kind.REMOTE]] = [Work.COLLECTIVE, Work.MEMORY]
    by_lane = {Lane.COMPUTE: Work.COMPUTE, Lane.COMM: Work.COLLECTIVE, Lane.CPU: Work.HOST, Lane.P2P: Work.MESSAGE,
               Lane.COPY: Work.MEMORY}
    work = by_kind[kind]
    for place, meaning in by_lane.items():        # replayed nodes count as what their lane is for
        work[(kind == Kind.DELAY) & (lane == place)] = meaning
    work[(kind == Kind.DELAY) & (lane == -1)] = Work.MESSAGE
    work[(kind == Kind.DELAY) & (program.size > 0)] = Work.MEMORY
    work[(kind == Kind.SKIP) & (program.duration > 0)] = Work.WAIT
    return work
