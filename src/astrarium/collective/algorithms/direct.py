"""Direct: every participant sends to every other one, nearest position first; nothing is relayed."""

from __future__ import annotations

import numpy as np

from astrarium.collective.algorithms.algorithm import (
    AROUND,
    Algorithm,
    Bound,
    Case,
    Counts,
    both_ways,
    known_chain,
    same,
)
from astrarium.collective.algorithms.options import Options
from astrarium.collective.messages import Messages, assemble, one_program, reverse
from astrarium.engine.plan import Shape
from astrarium.vocab import CommOp, PeerMode, Schedule

__all__ = ["DIRECT", "build"]


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


# ------------------------------------------------------------ what it costs
def _bound(op: CommOp, n: int, _blocks: int) -> Bound:
    """Least traffic in one step, two of an all_reduce."""
    if op in (CommOp.BROADCAST, CommOp.SCATTER):
        return Bound(n - 1, 1, 1)
    if op in (CommOp.REDUCE, CommOp.GATHER):
        return Bound(1, n - 1, 1)
    return same(2 * (n - 1), 2) if op == CommOp.ALL_REDUCE else same(n - 1, 1)


def _counts(case: Case) -> list[Counts]:
    """All at once: through one port, each on its own link, or over the links of others."""
    shape, op, n, reach, _ = case
    late = 0.0
    if shape in AROUND:
        held = reach.load
    elif shape == Shape.MESH:
        held, late = float(n // 2 * ((n + 1) // 2)), float((n - 1) // 2)
    elif shape == Shape.HYPERCUBE:      # the first bit's port has half of the messages
        held = n / 2
    else:
        held = 1.0 if shape == Shape.FULLY_CONNECTED else n - 1.0
    hops = 2 if shape == Shape.SWITCH else reach.far
    return both_ways([Counts(0, 1, held, hops, 1.0, late)], op)


def _candidate(_case: Case) -> bool:
    return True


DIRECT = Algorithm(build, bound=_bound, candidate=_candidate, counts=_counts, exact=known_chain)
