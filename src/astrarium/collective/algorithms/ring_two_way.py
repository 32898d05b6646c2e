"""Two-way ring: two rings at once, one per direction, so that both directions of every link carry half.

Blocks 0..n-1 ride clockwise, n..2n-1 anticlockwise (all_to_all: each block takes the shorter way round).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from astrarium.collective.algorithms.algorithm import Algorithm, Bound, Case, Counts, may_beat_direct, same
from astrarium.collective.algorithms.options import Options
from astrarium.collective.algorithms.ring import counts as one_way
from astrarium.collective.messages import one_program
from astrarium.engine.plan import Shape
from astrarium.vocab import CommOp, PeerMode, Schedule

__all__ = ["RING_TWO_WAY", "build"]


def build(op: CommOp, n: int, _options: Options) -> Schedule:
    """The two-way ring schedule of `op`; there are no options."""
    if op == CommOp.ALL_TO_ALL:
        return _all_to_all(n)
    step = np.arange(n - 1, dtype=np.int64)
    scatter, gather = 1 + step, step
    parts = {CommOp.REDUCE_SCATTER: [scatter], CommOp.ALL_REDUCE: [scatter, gather]}.get(op, [gather])
    offset = np.concatenate(parts)
    reducing = n - 1 if parts[0] is scatter else 0
    block = np.stack([-offset % n, n + offset % n], axis=1).ravel()
    order = np.arange(len(block))
    return one_program(op, "ring_two_way", n, PeerMode.RELATIVE, peers=_alternate(n, len(offset)),
                       needs=np.maximum(order - 1, 0), match=order, block_counts=np.ones(len(block)), block=block,
                       recv_peers=_alternate(n, len(offset))[::-1], reduce=order < 2 * reducing, blocks=2 * n)


def _alternate(n: int, steps: int) -> npt.NDArray[np.int64]:
    """Peers next, previous, next, previous, …; reversed it lists whom the same messages come from."""
    return np.tile(np.array([1, n - 1], np.int64) % n, steps)


def _all_to_all(n: int) -> Schedule:
    """Step t moves on what still rides: clockwise distances 1..n//2, anticlockwise 1..(n-1)//2."""
    reach = (n // 2, (n - 1) // 2)
    peers: list[int] = []
    needs: list[int] = []
    match: list[int] = []
    recv_peers: list[int] = []
    blocks: list[npt.NDArray[np.int64]] = []
    received = [-1, -1]  # number of the last receive per direction
    for step in range(reach[0]):
        for way, far in enumerate(reach):
            if step < far:
                peers.append(1 if way == 0 else n - 1)
                recv_peers.append(n - 1 if way == 0 else 1)
                needs.append(received[way] + 1 if step else 0)
                match.append(len(match))
                distance = np.arange(1, far - step + 1)
                blocks.append(distance if way == 0 else n - distance)
        received = [len(match) - (2 if step < reach[1] else 1), len(match) - 1]
    block = np.concatenate(blocks) if blocks else np.zeros(0)
    return one_program(CommOp.ALL_TO_ALL, "ring_two_way", n, PeerMode.RELATIVE, peers=peers, needs=needs, match=match,
                       block_counts=[len(b) for b in blocks], block=block, recv_peers=recv_peers,
                       reduce=np.zeros(len(peers)))


# ------------------------------------------------------------ what it costs
def _bound(op: CommOp, n: int, _blocks: int) -> Bound:
    """2 n blocks, half of them each way."""
    if op == CommOp.ALL_TO_ALL:
        near, far = n // 2, (n - 1) // 2
        return same((near * (near + 1) + far * (far + 1)) // 2, near)
    return same(4 * (n - 1), 2 * (n - 1)) if op == CommOp.ALL_REDUCE else same(2 * (n - 1), n - 1)


def _counts(case: Case) -> list[Counts]:
    """Both directions of a ring; a switch's port serves one of the two while the other is on its way."""
    shape, op, n, reach, _ = case
    half = 0.5 if shape == Shape.RING and n > 2 else 1.0
    if op == CommOp.ALL_TO_ALL:
        far = n // 2
        return [Counts(0, 1, reach.near * 2 * half * (far - step), reach.near, far - step) for step in range(far)]
    rows = one_way(case)
    if shape == Shape.SWITCH and n > 2:
        last = Counts(0, 1, 1.0, 2, 1.0)
        before = [last._replace(times=n - 1, late=-0.5)] if op == CommOp.ALL_REDUCE else []
        rows = [*before, last._replace(times=n - 2, late=-0.5), last]
    return [row._replace(held=row.held * half) for row in rows]


def _messages(op: CommOp, n: int) -> int:
    return (n - 1) * {CommOp.ALL_REDUCE: 4, CommOp.ALL_TO_ALL: 1}.get(op, 2)


def _candidate(case: Case) -> bool:
    """On a switch it only changes the order in which Themis takes dims."""
    return case.shape in (Shape.RING, Shape.SWITCH) and may_beat_direct(case)


RING_TWO_WAY = Algorithm(
    build, frozenset({CommOp.ALL_REDUCE, CommOp.ALL_GATHER, CommOp.REDUCE_SCATTER, CommOp.ALL_TO_ALL}), _bound,
    _candidate, _counts, _messages)
