"""Ring: every participant sends to the next one only.

All-reduce is reduce-scatter followed by all-gather (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for
clusters of workstations", 2009): 2 (n - 1) steps, 2 (n - 1) / n of the payload sent by each. All-to-all relays: step t
carries what still has n - t hops to ride, n (n - 1) / 2 blocks in all. Rooted operations are pipelined chains 0, 1, …
n-1.
"""

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
    may_beat_direct,
    same,
)
from astrarium.collective.algorithms.options import Options
from astrarium.collective.messages import Messages, assemble, one_program, reverse
from astrarium.engine.plan import Shape
from astrarium.vocab import CommOp, PeerMode, Schedule

__all__ = ["RING", "build", "counts"]


def build(op: CommOp, n: int, options: Options) -> Schedule:
    """The ring schedule of `op`; see the module."""
    if op == CommOp.ALL_TO_ALL:
        return _all_to_all(n)
    if op in (CommOp.BROADCAST, CommOp.REDUCE):
        chain = _chain(n, options.pipeline)
        chain = chain if op == CommOp.BROADCAST else reverse(chain, reduce=True)
        return assemble(op, "ring", n, options.pipeline, chain)
    if op in (CommOp.SCATTER, CommOp.GATHER):
        deal = _deal(n)
        return assemble(op, "ring", n, n, deal if op == CommOp.SCATTER else reverse(deal, reduce=False))
    return _rotation(op, n)


def _rotation(op: CommOp, n: int) -> Schedule:
    """reduce_scatter: block p-1-t leaves p at step t, and arrives complete at p; all_gather: block p-t leaves p."""
    step = np.arange(n - 1, dtype=np.int64)
    scatter, gather = (-1 - step) % n, (-step) % n
    parts = {CommOp.REDUCE_SCATTER: [scatter], CommOp.ALL_REDUCE: [scatter, gather]}.get(op, [gather])
    block = np.concatenate(parts)
    order = np.arange(len(block))
    reducing = 0 if len(parts) == 1 and parts[0] is gather else n - 1
    return one_program(op, "ring", n, PeerMode.RELATIVE, peers=np.full(len(block), 1), needs=order, match=order,
                       block_counts=np.ones(len(block)), block=block, recv_peers=np.full(len(block), n - 1),
                       reduce=order < reducing)


def _all_to_all(n: int) -> Schedule:
    step = np.arange(n - 1)
    counts = n - 1 - step
    block = np.concatenate([np.arange(1, n - t) for t in step]) if n > 1 else np.zeros(0)
    return one_program(CommOp.ALL_TO_ALL, "ring", n, PeerMode.RELATIVE, peers=np.full(n - 1, 1), needs=step, match=step,
                       block_counts=counts, block=block, recv_peers=np.full(n - 1, n - 1), reduce=np.zeros(n - 1))


def _chain(n: int, blocks: int) -> Messages:
    """Broadcast along 0, 1, … n-1: block k leaves participant p at time p + k."""
    src = np.repeat(np.arange(n - 1, dtype=np.int64), blocks)
    block = np.tile(np.arange(blocks, dtype=np.int64), n - 1)
    time = src + block
    return Messages(src, src + 1, time, time - 1, np.zeros(len(src), np.bool_), np.arange(len(src) + 1), block)


def _deal(n: int) -> Messages:
    """Scatter along 0, 1, … n-1: the block with the longest way leaves first, each at time p + (n - 1 - block)."""
    src, block = np.triu_indices(n, 1)
    src, block = src.astype(np.int64), block.astype(np.int64)
    time = src + (n - 1 - block)
    return Messages(src, src + 1, time, time - 1, np.zeros(len(src), np.bool_), np.arange(len(src) + 1), block)


# ------------------------------------------------------------ what it costs
def _bound(op: CommOp, n: int, blocks: int) -> Bound:
    """Least traffic in n - 1 steps; what is relayed counts again."""
    if op == CommOp.ALL_REDUCE:
        return same(2 * (n - 1), 2 * (n - 1))
    sent = {CommOp.ALL_TO_ALL: n * (n - 1) // 2, CommOp.BROADCAST: blocks, CommOp.REDUCE: blocks}
    return same(sent.get(op, n - 1), n - 1)


def counts(case: Case) -> list[Counts]:
    """To the next one; on a mesh the message back to the first passes all others."""
    shape, op, n, reach, _ = case
    hops = 2 if shape == Shape.SWITCH else reach.near
    charged = reach.near if shape in AROUND else 1
    if op == CommOp.ALL_TO_ALL:
        return [Counts(0, 1, charged * (n - 1.0 - step), hops, n - 1.0 - step) for step in range(n - 1)]
    if shape == Shape.MESH:
        times = 2 * n - 3
        held = (n - 1) / times
        return both_ways([Counts(0, times, held, 1, 1.0, 1.0 - held)], op)
    return both_ways([Counts(0, n - 1, charged, hops, 1.0)], op)


def _candidate(case: Case) -> bool:
    """`ring_two_way` is better where links go both ways."""
    return case.shape in (Shape.RING_ONE_WAY, Shape.MESH) and may_beat_direct(case)


RING = Algorithm(build, bound=_bound, candidate=_candidate, counts=counts, exact=known_chain)
