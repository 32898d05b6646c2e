"""Bruck: peers at doubling distance, ceil(log2 n) steps for any n.

Bruck et al., "Efficient algorithms for all-to-all communications in multiport message-passing systems", 1997. The
all-gather is bandwidth-optimal (n - 1 shards each), and so is the reduce-scatter, which is the all-gather backwards (as
in NCCL's PAT); the all-to-all sends about (n / 2) log2 n blocks; the barrier is the dissemination barrier.
"""

from __future__ import annotations

import numpy as np

from astrarium.collective.algorithms.algorithm import (
    Algorithm,
    Bound,
    Case,
    Counts,
    bit_length,
    even,
    may_beat_direct,
    same,
)
from astrarium.collective.algorithms.options import Options
from astrarium.collective.messages import one_program
from astrarium.engine.plan import Shape
from astrarium.vocab import CommOp, PeerMode, Schedule

__all__ = ["BRUCK", "build"]


def build(op: CommOp, n: int, _options: Options) -> Schedule:
    """The Bruck schedule of `op`; there are no options."""
    distance = [1 << k for k in range((n - 1).bit_length())]
    if op == CommOp.ALL_TO_ALL:
        blocks = [_riding(n, d) for d in distance]
        peers = distance
    elif op == CommOp.REDUCE_SCATTER:  # p passes what it has of p+d, p+d+1, … to p + d, the largest d first
        distance = distance[::-1]
        blocks = [d + np.arange(min(d, n - d)) for d in distance]
        peers = distance
    else:  # p holds the shards p, p+1, … p+d-1 and passes them to p - d; the last step passes what is missing
        blocks = [np.arange(min(d, n - d)) for d in distance]
        peers = [n - d for d in distance]
    steps = np.arange(len(distance))
    return one_program(op, "bruck", n, PeerMode.RELATIVE, peers=peers, needs=steps, match=steps,
                       block_counts=[len(b) for b in blocks], block=np.concatenate(blocks) if blocks else [],
                       recv_peers=[n - x for x in peers],
                       reduce=np.full(len(distance), op == CommOp.REDUCE_SCATTER))


def _riding(n: int, bit: int) -> np.typing.NDArray[np.int64]:
    """Blocks (by distance left to go) that ride at the step of `bit`: once per block that has got that far."""
    whole = np.arange(1, n)
    riding = whole[(whole & bit) != 0]
    return np.asarray(riding & ~(bit - 1), np.int64)


# ------------------------------------------------------------ what it costs
def _bound(op: CommOp, n: int, _blocks: int) -> Bound:
    """Least traffic in ceil(log2 n) steps; of an all_to_all what is relayed counts again."""
    return same(sum(bin(far).count("1") for far in range(1, n)) if op == CommOp.ALL_TO_ALL else n - 1, bit_length(n))


def _counts(case: Case) -> list[Counts]:
    """Growing bundles on a switch; a reduce_scatter is the all_gather backwards."""
    shape, op, n, *_ = case
    if shape != Shape.SWITCH or op not in (CommOp.ALL_GATHER, CommOp.REDUCE_SCATTER):
        limit = _bound(op, n, n)
        return even(case, limit.steps, limit.sent)
    sizes = [min(1 << level, n - (1 << level)) for level in range(bit_length(n))]
    return [Counts(0, 1, size, 2, size) for size in (sizes if op == CommOp.ALL_GATHER else sizes[::-1])]


def _messages(_op: CommOp, n: int) -> int:
    return bit_length(n)


def _candidate(case: Case) -> bool:
    """All but powers of two, for which halving is as good."""
    return case.shape == Shape.SWITCH and case.n & (case.n - 1) != 0 and may_beat_direct(case)


BRUCK = Algorithm(build, frozenset({CommOp.ALL_GATHER, CommOp.REDUCE_SCATTER, CommOp.ALL_TO_ALL, CommOp.BARRIER}),
                  _bound, _candidate, _counts, _messages)
