"""Binomial tree from root 0: ceil(log2 n) steps, whole payload on every edge (scatter, gather: the subtree's share)."""

from __future__ import annotations

import numpy as np

from astrarium.collective.algorithms.algorithm import Algorithm, Bound, Case, Counts, bit_length, even, same
from astrarium.collective.algorithms.options import Options
from astrarium.collective.messages import Messages, assemble, concatenate, ranges, reverse
from astrarium.vocab import CommOp, Schedule

__all__ = ["BINOMIAL_TREE", "build"]


def build(op: CommOp, n: int, _options: Options) -> Schedule:
    """The binomial-tree schedule of `op`: all_reduce and barrier are reduce, then broadcast.."""
    shares = op in (CommOp.SCATTER, CommOp.GATHER)
    down = _down(n, shares)
    if op in (CommOp.BROADCAST, CommOp.SCATTER):
        table = down
    elif op in (CommOp.REDUCE, CommOp.GATHER):
        table = reverse(down, reduce=op == CommOp.REDUCE)
    else:
        table = concatenate([reverse(down, reduce=True), down])
    return assemble(op, "binomial_tree", n, n if shares else 1, table)


def _down(n: int, shares: bool) -> Messages:
    """Largest distance first: the holder p of a subtree of 2^(k+1) positions hands the upper 2^k to p + 2^k."""
    src, time = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    top = (n - 1).bit_length()
    for k in range(top - 1, -1, -1):
        holders = np.arange(0, n - (1 << k), 2 << k, dtype=np.int64)
        src.append(holders)
        time.append(np.full(len(holders), top - 1 - k, np.int64))
    origin, when = np.concatenate(src), np.concatenate(time)
    size = np.int64(1) << (top - 1 - when)
    dst = origin + size
    counts = np.minimum(size, n - dst) if shares else np.ones(len(dst), np.int64)
    block = ranges(dst if shares else np.zeros(len(dst), np.int64), counts)
    return Messages(origin, dst, when, when - 1, np.zeros(len(dst), np.bool_),
                    np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]), block)


# ------------------------------------------------------------ what it costs
def _bound(op: CommOp, n: int, _blocks: int) -> Bound:
    """The whole payload as often as the root has children, in as many steps per way."""
    steps = bit_length(n)
    return {CommOp.BROADCAST: Bound(steps, 1, steps), CommOp.REDUCE: Bound(1, steps, steps),
            CommOp.SCATTER: same(n - 1, steps), CommOp.GATHER: same(n - 1, steps)}.get(op, same(steps, 2 * steps))


def _counts(case: Case) -> list[Counts]:
    """Steps of the whole payload, a block of its schedule."""
    limit = _bound(case.op, case.n, 1)
    return even(case, limit.steps, limit.sent * case.n)


BINOMIAL_TREE = Algorithm(
    build, frozenset({CommOp.ALL_REDUCE, CommOp.BROADCAST, CommOp.REDUCE, CommOp.GATHER, CommOp.SCATTER,
                      CommOp.BARRIER}), _bound, counts=_counts)
