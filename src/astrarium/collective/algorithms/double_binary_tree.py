"""Two complementary binary trees, for every n.

Sanders, Speck and Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", 2009: number the
positions in order; a position's height in the first tree is the number of trailing zeros of its number. The second
tree is the mirror image (n even) or the first one shifted by a position (n odd), so that a leaf of one is an inner
node of the other (n odd: one position is a leaf of both). A rooted operation has the trees span all but the root.
Each tree carries half of the payload in `pipeline` blocks: a participant sends and receives at most twice the payload
in an all-reduce, and the two ways of each link are busy at once.
"""

from __future__ import annotations

import numpy as np

from astrarium.arrays import I64
from astrarium.collective.algorithms.algorithm import (
    AROUND,
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
from astrarium.collective.messages import Messages, assemble, together
from astrarium.engine.plan import Shape
from astrarium.vocab import CommOp, Schedule

__all__ = ["DOUBLE_BINARY_TREE", "build", "parents"]

_HOP = 4  # logical times per hop, against one per block: measured best between latency and bandwidth
_LAST = 1 << 32  # later than any logical time
MOST = 1024         # participants whose trees the estimate walks
PIECES_HIDE = 0.35


def build(op: CommOp, n: int, options: Options) -> Schedule:
    """The two-tree schedule of all_reduce, broadcast, reduce or barrier (an all_reduce of one block per tree)."""
    blocks = 1 if op == CommOp.BARRIER else options.pipeline
    tables = []
    for tree in (0, 1):
        up = _rooted(n, tree) if op in (CommOp.BROADCAST, CommOp.REDUCE) else parents(n, tree)
        tables.append(_tree_messages(op, up, blocks, tree * blocks))
    return assemble(op, "double_binary_tree", n, 2 * blocks, together(tables))


def parents(n: int, tree: int) -> I64:
    """Each position's parent in tree 0 or 1 [n]; -1 at the root."""
    number = np.arange(1, n + 1, dtype=np.int64)
    bit = number & -number
    parent = (number - bit) | (bit << 1)
    parent = np.where(parent > n, number - bit, parent)  # 0: the largest power of two, the root
    if tree == 0:
        return parent - 1
    place = number - 1
    old = n - 1 - place if n % 2 == 0 else (place - 1) % n  # which position of tree 0 this one plays
    above = parent[old] - 1
    new = n - 1 - above if n % 2 == 0 else (above + 1) % n
    return np.where(above < 0, -1, new)


def _rooted(n: int, tree: int) -> I64:
    """Parents [n] when position 0 sends: it is above the roots of the two trees of the other n - 1 positions."""
    up = np.full(n, -1, np.int64)
    if n > 1:
        below = parents(n - 1, tree)
        up[1:] = np.where(below < 0, 0, below + 1)
    return up


def _depths(up: I64) -> tuple[I64, I64]:
    """Depth below the root and height above the deepest leaf of each position's subtree, both [n]."""
    n = len(up)
    depth, at = np.zeros(n, np.int64), up.copy()
    while (at >= 0).any():
        depth += at >= 0
        at = np.where(at >= 0, up[at], -1)
    height = np.zeros(n, np.int64)
    for level in range(int(depth.max()), 0, -1):
        here = np.flatnonzero(depth == level)
        np.maximum.at(height, up[here], height[here] + 1)
    return depth, height


def _tree_messages(op: CommOp, up: I64, blocks: int, first_block: int) -> Messages:
    """One tree's messages: every block up (reduced on its way), then down. Leaves start block k at time k.

    A send needs all receives up to a logical time, so times decide how far the way up may run ahead of the way down.
    """
    depth, height = _depths(up)
    child = np.flatnonzero(up >= 0)
    k = np.tile(np.arange(blocks, dtype=np.int64), len(child))
    who = np.repeat(child, blocks)
    parent = up[who]
    top = int(height.max()) if op != CommOp.BROADCAST else 0
    parts = []
    if op != CommOp.BROADCAST:
        time = _HOP * height[who] + k
        after = np.where(height[who] > 0, time - _HOP, -1)
        parts.append((who, parent, time, after, True, k))
    if op != CommOp.REDUCE:
        time = _HOP * (top + depth[parent]) + k
        after = time - _HOP if op != CommOp.BROADCAST else np.where(depth[parent] > 0, time - _HOP, -1)
        late = np.where(height[who] == 0, _LAST, 0)  # no send waits for what a leaf receives: list it last
        parts.append((parent, who, time + late, after, False, k))
    src, dst, times, afters = (np.concatenate([np.asarray(part[i], np.int64) for part in parts]) for i in range(4))
    reduce = np.concatenate([np.full(len(part[0]), part[4]) for part in parts])
    block = np.concatenate([part[5] for part in parts]) + first_block
    return Messages(src, dst, times, afters, reduce, np.arange(len(block) + 1), block)


# ------------------------------------------------------------ what it costs
def _bound(op: CommOp, n: int, blocks: int) -> Bound:
    """Twice the payload over twice the height; beyond 8 blocks per tree, late blocks on their way up wait for early
    ones on their way down."""
    if op == CommOp.BROADCAST:
        return same(blocks, bit_length(n + 1))
    if op == CommOp.REDUCE:
        return Bound(blocks, blocks + blocks // 2, bit_length(n + 1))
    return same(2 * blocks, 2 * (n.bit_length() - 1) + max(0, blocks // 2 - 8) // 4)


def _counts(case: Case) -> list[Counts]:
    """An all_reduce in a whole dim: each tree carries half of the payload up and down."""
    shape, op, n, *_ = case
    if op != CommOp.ALL_REDUCE or n > MOST:
        limit = _bound(op, n, 1)
        return even(case, limit.steps, limit.sent * n)
    deepest, ports = 0, dict[tuple[int, int], float]()
    for up in (parents(n, 0).tolist(), parents(n, 1).tolist()):
        depth = [0] * n
        for member in range(n):
            at = member
            while up[at] >= 0:
                depth[member] += _hops(shape, n, abs(at - up[at]))
                at = up[at]
        deepest = max(deepest, *depth)
        for member, above in enumerate(up):
            for source, target in ((member, above), (above, member)) if above >= 0 else ():
                port = source, 0 if shape not in AROUND else int((target - source) % n > n // 2)
                held = _hops(shape, n, abs(target - source)) if shape in AROUND else 1
                ports[port] = ports.get(port, 0.0) + n / 2 * held
    return [Counts(0, 1, max(ports.values()), 2 * deepest, n / 16, 0.0, PIECES_HIDE)]


def _hops(shape: Shape, n: int, far: int) -> int:
    """Hops between members that are `far` places apart."""
    if shape in AROUND:
        return min(far, n - far)
    return 2 if shape == Shape.SWITCH else far if shape == Shape.MESH else 1


def _messages(_op: CommOp, _n: int) -> int:
    """8 blocks in two trees, up and down."""
    return 32


def _candidate(case: Case) -> bool:
    return case.shape in (Shape.RING, Shape.MESH) and may_beat_direct(case)


DOUBLE_BINARY_TREE = Algorithm(
    build, frozenset({CommOp.ALL_REDUCE, CommOp.BROADCAST, CommOp.REDUCE, CommOp.BARRIER}), _bound, _candidate, _counts,
    _messages)
