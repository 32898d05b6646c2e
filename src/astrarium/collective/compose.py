"""Collectives over several dims, as a list of single-dim steps.

- `baseline`: the whole operation in one dim after the other, innermost first (all_reduce at full size in each;
  reduce_scatter shrinks; all_gather grows, outermost first).
- `blueconnect`: an all_reduce is reduce_scatter in every dim but the last, all_reduce in the last, all_gather back
  (Cho et al., "BlueConnect", MLSys 2019); the other operations are as in `baseline`.
- `themis`: as `blueconnect`, with the order of the dims chosen chunk by chunk (see `themis`).
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import NamedTuple

from astrarium.collective.groups import SubDim
from astrarium.errors import InternalError
from astrarium.vocab import CommOp

__all__ = ["ROOTED", "Composition", "Step", "compose"]

ROOTED = frozenset({CommOp.BROADCAST, CommOp.REDUCE, CommOp.GATHER, CommOp.SCATTER})


class Composition(str, enum.Enum):
    """How an operation is laid over several dims."""

    BASELINE = "baseline"
    BLUECONNECT = "blueconnect"
    THEMIS = "themis"


class Step(NamedTuple):
    """`op` over one dim with `size` bytes at its start, counted as the op counts (all_gather: the shard)."""

    part: SubDim
    op: CommOp
    size: int


def compose(op: CommOp, size: int, order: Sequence[SubDim], composition: Composition) -> tuple[Step, ...]:
    """The steps of `op` on `size` bytes. `order`: the dims as a reduce_scatter takes them; an all_gather goes back.

    Shards are padded up: reduce_scatter leaves ceil(size / n) bytes. Rooted operations have no such steps
    (`hierarchy`).
    """
    if op == CommOp.ALL_REDUCE and composition != Composition.BASELINE and order:
        down = _scatter(size, order[:-1])
        middle = Step(order[-1], CommOp.ALL_REDUCE, _left(size, order[:-1]))
        back = [Step(s.part, CommOp.ALL_GATHER, -(-s.size // s.part.n)) for s in reversed(down)]
        return (*down, middle, *back)
    if op == CommOp.REDUCE_SCATTER:
        return tuple(_scatter(size, order))
    if op == CommOp.ALL_GATHER:
        return tuple(_gather(size, order))
    if op in (CommOp.ALL_REDUCE, CommOp.ALL_TO_ALL, CommOp.BARRIER):
        return tuple(Step(part, op, size) for part in order)
    raise InternalError(f"{op.name.lower()} is not composed of steps")


def _scatter(size: int, order: Sequence[SubDim]) -> list[Step]:
    steps = []
    for part in order:
        steps.append(Step(part, CommOp.REDUCE_SCATTER, size))
        size = -(-size // part.n)
    return steps


def _left(size: int, order: Sequence[SubDim]) -> int:
    for part in order:
        size = -(-size // part.n)
    return size


def _gather(shard: int, order: Sequence[SubDim]) -> list[Step]:
    steps = []
    for part in reversed(order):
        steps.append(Step(part, CommOp.ALL_GATHER, shard))
        shard *= part.n
    return steps
