"""What a collective algorithm brings: how to build its schedules, and what `collective.choice: auto` asks of it.

An algorithm on a dim is estimated as a few messages one after the other (`Counts`), each of which keeps a port for so
many blocks. Those of the built-in algorithms are the counts of the closed form. One that says nothing of them is
estimated by its bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec import Struct

from astrarium.collective.algorithms.options import Options
from astrarium.engine.plan import Shape
from astrarium.vocab import CommOp, Schedule

__all__ = ["AROUND", "EVERY_OP", "Algorithm", "Bound", "Case", "Counts", "Reach", "bit_length", "both_ways", "even",
           "known_chain", "may_beat_direct", "never", "same"]

EVERY_OP = frozenset({CommOp.ALL_REDUCE, CommOp.ALL_GATHER, CommOp.REDUCE_SCATTER, CommOp.ALL_TO_ALL, CommOp.BROADCAST,
                      CommOp.REDUCE, CommOp.GATHER, CommOp.SCATTER, CommOp.BARRIER})
AROUND = (Shape.RING, Shape.RING_ONE_WAY)
MANY = 64       # members of the only dim, a switch, beyond which `direct` has rivals


class Bound(Struct, frozen=True):
    """At most so many blocks sent and received by one participant, and so many messages in a chain."""

    sent: int
    received: int
    steps: int


class Reach(NamedTuple):
    """How far members of a group are from each other in a dim, in hops: the next in order, any, and all others of one
    together as its busier port has it."""

    near: int
    far: int
    load: float


class Case(NamedTuple):
    """An operation among `n` members of a dim, whose group has so many `dims`."""

    shape: Shape
    op: CommOp
    n: int
    reach: Reach
    dims: int = 1


class Counts(NamedTuple):
    """Messages one after the other: `times` of them, each keeps port `port` for `held` blocks, goes `hops` hops and
    arrives `late` blocks after that; `size` blocks are its payload. `hidden`: how much of latency or blocks, whichever
    takes less, does not show because the payload comes in pieces. A block is an n-th of the whole payload."""

    port: int
    times: int
    held: float
    hops: float
    size: float
    late: float = 0.0
    hidden: float = 0.0


def once_to_each(op: CommOp, n: int) -> int:
    """Messages of a member that sends n - 1 of them, twice in an all_reduce."""
    return (n - 1) * (2 if op == CommOp.ALL_REDUCE else 1)


def unknown(*_: object) -> None:
    """Nothing is known."""


def never(*_: object) -> bool:
    """No."""
    return False


class Algorithm(Struct, frozen=True):
    """A collective algorithm.

    `build`: (operation, participants, options) -> schedule, for all of `ops`.
    `bound`: (operation, participants, blocks of its schedule) -> what it may cost at most; the exam holds it to it.
    `candidate`: case -> whether `choice: auto` looks at it.
    `counts`: case -> its messages; None: equal ones, as the bound has them.
    `messages`: (operation, members) -> how many a member sends.
    `exact`: case of a whole dim -> whether the closed form takes exactly `counts`, so that no run is faster.
    `in_switch`: it needs switches that compute.
    """

    build: Callable[[CommOp, int, Options], Schedule]
    ops: frozenset[CommOp] = EVERY_OP
    bound: Callable[[CommOp, int, int], Bound | None] = unknown
    candidate: Callable[[Case], bool] = never
    counts: Callable[[Case], Sequence[Counts] | None] = unknown
    messages: Callable[[CommOp, int], int] = once_to_each
    exact: Callable[[Case], bool] = never
    in_switch: bool = False


# ------------------------------------------------------------ what several of them share
def same(sent: int, steps: int) -> Bound:
    """The bound of one that receives as much as it sends."""
    return Bound(sent, sent, steps)


def bit_length(n: int) -> int:
    """ceil(log2 n): steps in which distances double."""
    return (n - 1).bit_length()


def both_ways(rows: Sequence[Counts], op: CommOp) -> list[Counts]:
    """An all_reduce is a reduce_scatter, and its all_gather backwards."""
    return [*rows, *reversed(rows)] if op == CommOp.ALL_REDUCE else list(rows)


def even(case: Case, steps: int, blocks: float) -> list[Counts]:
    """`steps` equal messages that carry so many blocks together, over a mean distance."""
    hops = 2 if case.shape == Shape.SWITCH else (case.reach.near + case.reach.far) / 2
    each = blocks / max(1, steps)
    return [Counts(0, max(1, steps), each * (hops if case.shape in (*AROUND, Shape.MESH) else 1), hops, each)]


def may_beat_direct(case: Case) -> bool:
    """Whether another built-in algorithm can be better than `direct`. Of two members every algorithm is the same; in
    the only dim, a switch, others are never better, but halving and Bruck send fewer messages, which counts where
    members are many. Among several dims they change the order in which Themis takes these, too."""
    if case.n == 2 or (case.op == CommOp.ALL_TO_ALL and case.shape in (Shape.MESH, Shape.SWITCH)):
        return False
    return case.shape != Shape.SWITCH or case.dims > 1 or case.n > MANY


def known_chain(case: Case) -> bool:
    """Shapes on which `ring`, `direct` and halving are chains that the closed form takes exactly."""
    return case.shape in (Shape.RING, Shape.SWITCH, Shape.FULLY_CONNECTED)
