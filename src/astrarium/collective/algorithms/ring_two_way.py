"""Two-way ring: two rings at once, one per direction, so that both directions of every link carry half.

Blocks 0..n-1 ride clockwise, n..2n-1 anticlockwise (all_to_all: each block takes the shorter way round).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from astrarium.collective.algorithms.options import Options
from astrarium.collective.messages import one_program
from astrarium.vocab import CommOp, PeerMode, Schedule

__all__ = ["build"]


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
