"""Direct: every participant sends to every other one, nearest position first; nothing is relayed."""

from __future__ import annotations

import numpy as np

from astrarium.collective.algorithms.options import Options
from astrarium.collective.messages import Messages, assemble, one_program, reverse
from astrarium.vocab import CommOp, PeerMode, Schedule

__all__ = ["build"]


def build(op: CommOp, n: int, options: Options) -> Schedule:
    """The direct schedule of `op`: one round, two for all_reduce (reduce_scatter, then all_gather)."""
    if op in (CommOp.BROADCAST, CommOp.REDUCE, CommOp.SCATTER, CommOp.GATHER):
        return _rooted(op, n)
    far = np.arange(1, n, dtype=np.int64)
    to_owner, own = far, np.zeros(n - 1, np.int64)
    parts = {CommOp.ALL_REDUCE: [to_owner, own], CommOp.REDUCE_SCATTER: [to_owner],
             CommOp.ALL_TO_ALL: [to_owner]}.get(op, [own])
    window = options.window if options.window > 0 else n
    lead = np.maximum(np.arange(n - 1) - window, 0)
    rounds = len(parts)
    reducing = n - 1 if op in (CommOp.ALL_REDUCE, CommOp.REDUCE_SCATTER) else 0
    order = np.arange(rounds * (n - 1))
    return one_program(op, "direct", n, PeerMode.RELATIVE, peers=np.tile(far, rounds),
                       needs=np.concatenate([lead + r * (n - 1) for r in range(rounds)]), match=order,
                       block_counts=np.ones(len(order)), block=np.concatenate(parts),
                       recv_peers=np.tile(n - far, rounds), reduce=order < reducing)


def _rooted(op: CommOp, n: int) -> Schedule:
    """Root 0 sends to all, or the reverse: one block each for scatter, the payload as one block for broadcast."""
    own_block = op in (CommOp.SCATTER, CommOp.GATHER)
    dst = np.arange(1, n, dtype=np.int64)
    none = np.zeros(n - 1, np.int64)
    out = Messages(none, dst, none, none - 1, np.zeros(n - 1, np.bool_), np.arange(n), dst if own_block else none)
    if op in (CommOp.REDUCE, CommOp.GATHER):
        out = reverse(out, reduce=op == CommOp.REDUCE)
    return assemble(op, "direct", n, n if own_block else 1, out)
