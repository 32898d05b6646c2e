"""Recursive halving and doubling, for every n.

Powers of two: Rabenseifner's scheme ("Optimization of collective reduction operations", 2004) with the nearest partner
first, so that the largest messages go the shortest way; one XOR program. Other sizes: a group is split into its even
and its odd members; even member 2j and odd member 2j+1 exchange what the other half owns. A left-over even member
deals its share out over all odd members, one block each, so that no member receives much more than the others. Each
participant sends n - 1 blocks per reduce-scatter or all-gather in ceil(log2 n) steps: the least possible traffic,
without the doubled payload of the usual fold-in and fold-out.

The rooted operations split the same groups with their first member as holder: scatter and gather; broadcast is scatter
plus all-gather, reduce is reduce-scatter plus gather (van de Geijn).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from astrarium.arrays import I64
from astrarium.collective.algorithms.algorithm import (
    AROUND,
    Algorithm,
    Bound,
    Case,
    Counts,
    bit_length,
    both_ways,
    known_chain,
    may_beat_direct,
    same,
)
from astrarium.collective.algorithms.options import Options
from astrarium.collective.messages import Messages, assemble, concatenate, one_program, reverse
from astrarium.engine.plan import Shape
from astrarium.vocab import CommOp, PeerMode, Schedule

__all__ = ["HALVING_DOUBLING", "build"]

Rows = list[tuple[int, int, int, I64]]  # (time, source, destination, blocks)
_NAME = "halving_doubling"


def build(op: CommOp, n: int, _options: Options) -> Schedule:
    """The halving-doubling schedule of `op`; there are no options."""
    if n & (n - 1) == 0 and op not in (CommOp.BROADCAST, CommOp.REDUCE, CommOp.SCATTER, CommOp.GATHER):
        return _power_of_two(op, n)
    if op == CommOp.ALL_TO_ALL:
        return assemble(op, _NAME, n, n, _table(_exchange_items(n), reduce=False))
    if op in (CommOp.SCATTER, CommOp.GATHER):
        deal = _table(_deal(n), reduce=False)
        return assemble(op, _NAME, n, n, deal if op == CommOp.SCATTER else reverse(deal, reduce=False))
    halve = _table(_halve(n), reduce=True)
    double = reverse(halve, reduce=False)
    deal = _table(_deal(n), reduce=False)
    parts = {CommOp.REDUCE_SCATTER: [halve], CommOp.ALL_REDUCE: [halve, double], CommOp.BROADCAST: [deal, double],
             CommOp.REDUCE: [halve, reverse(deal, reduce=False)]}.get(op, [double])
    return assemble(op, _NAME, n, n, concatenate(parts))


def _power_of_two(op: CommOp, n: int) -> Schedule:
    """Step k exchanges with p ^ 2^k the relative blocks whose lowest set bit is k (all_to_all: each 2^k times)."""
    levels = [1 << k for k in range(n.bit_length() - 1)]
    halve = [np.arange(d, n, 2 * d) for d in levels]
    double = [block - d for block, d in zip(halve, levels)][::-1]
    if op == CommOp.ALL_TO_ALL:
        steps, peers = [np.repeat(block, d) for block, d in zip(halve, levels)], levels
    elif op == CommOp.REDUCE_SCATTER:
        steps, peers = halve, levels
    elif op == CommOp.ALL_REDUCE:
        steps, peers = halve + double, levels + levels[::-1]
    else:
        steps, peers = double, levels[::-1]
    order = np.arange(len(peers))
    reducing = len(levels) if op in (CommOp.ALL_REDUCE, CommOp.REDUCE_SCATTER) else 0
    return one_program(op, _NAME, n, PeerMode.XOR, peers=peers, needs=order, match=order,
                       block_counts=[len(s) for s in steps], block=np.concatenate(steps) if steps else [],
                       recv_peers=peers, reduce=order < reducing)


def _splits(n: int) -> Iterator[tuple[int, I64, I64]]:
    """(level, even members, odd members) of every group with two or more members, top down."""
    groups, level = [np.arange(n, dtype=np.int64)], 0
    while any(len(group) > 1 for group in groups):
        halves = [(group[0::2], group[1::2]) for group in groups if len(group) > 1]
        yield from ((level, even, odd) for even, odd in halves)
        groups, level = [half for pair in halves for half in pair], level + 1


def _halve(n: int) -> Rows:
    """Reduce-scatter: both halves hand over what the other half owns."""
    rows: Rows = []
    for level, even, odd in _splits(n):
        rows += [(level, int(a), int(b), odd) for a, b in zip(even, odd)]
        rows += [(level, int(b), int(a), even) for a, b in zip(even, odd)]
        if len(even) > len(odd):
            rows += [(level, int(even[-1]), int(b), odd[i:i + 1]) for i, b in enumerate(odd)]
    return rows


def _exchange_items(n: int) -> Rows:
    """All-to-all: as `_halve`, but a participant holds one item per source for each destination, and moves them all."""
    rows: Rows = []
    held = np.ones((n, n), np.int64)  # items that participant [row] holds for destination [column]
    for level, even, odd in _splits(n):
        pairs = [(int(a), int(b), odd) for a, b in zip(even, odd)] + [(int(b), int(a), even) for a, b in zip(even, odd)]
        if len(even) > len(odd):
            pairs += [(int(even[-1]), int(b), odd[i:i + 1]) for i, b in enumerate(odd)]
        moved = [held[a, owners].copy() for a, _, owners in pairs]
        for (a, b, owners), count in zip(pairs, moved):
            rows.append((level, a, b, np.repeat(owners, count)))
            held[a, owners] -= count
            held[b, owners] += count
    return rows


def _deal(n: int) -> Rows:
    """Scatter: the first member of a group hands the odd half's blocks to the first odd member."""
    return [(level, int(even[0]), int(odd[0]), odd) for level, even, odd in _splits(n)]


def _table(rows: Rows, *, reduce: bool) -> Messages:
    count = len(rows)
    time = np.array([row[0] for row in rows], np.int64)
    lengths = np.array([len(row[3]) for row in rows], np.int64)
    block = np.concatenate([row[3] for row in rows]) if rows else np.zeros(0, np.int64)
    return Messages(np.array([row[1] for row in rows], np.int64), np.array([row[2] for row in rows], np.int64), time,
                    time - 1, np.full(count, reduce), np.concatenate([[0], np.cumsum(lengths)]), block)


# ------------------------------------------------------------ what it costs
def _bound(op: CommOp, n: int, _blocks: int) -> Bound:
    """Least traffic in ceil(log2 n) steps; a left-over member adds so many blocks."""
    steps = bit_length(n)
    extra = 0 if n & (n - 1) == 0 else steps
    if op == CommOp.ALL_TO_ALL:
        return same((n if extra else n // 2) * steps, steps)
    return {CommOp.ALL_REDUCE: same(2 * (n - 1) + extra, 2 * steps),
            CommOp.REDUCE_SCATTER: Bound(n - 1, n - 1 + extra, steps),
            CommOp.SCATTER: Bound(n - 1, n // 2, steps), CommOp.GATHER: Bound(n // 2, n - 1, steps),
            CommOp.BROADCAST: Bound(2 * (n - 1) + extra, n - 1 + n // 2, 2 * steps),
            CommOp.REDUCE: Bound(n - 1 + n // 2, 2 * (n - 1) + extra, 2 * steps),
            }.get(op, Bound(n - 1 + extra, n - 1, steps))


def _counts(case: Case) -> list[Counts]:
    """Powers of two; other numbers of members take a step more."""
    shape, op, n, *_ = case
    rows = []
    for level in range(bit_length(n)):
        size = n / 2 if op == CommOp.ALL_TO_ALL else n / (2 << level)
        far = 1 << level
        if shape == Shape.HYPERCUBE:
            rows.append(Counts(level, 1, size, 1, size))
        elif shape == Shape.MESH:
            rows.append(Counts(0, 1, 0.75 * size * far, far, size, 0.25 * size * far))
        else:
            hops = 2 if shape == Shape.SWITCH else min(far, n - far) if shape in AROUND else 1
            rows.append(Counts(0, 1, size * (hops if shape in AROUND else 1), hops, size))
    return both_ways(rows[::-1] if op == CommOp.ALL_GATHER else rows, op)


def _messages(op: CommOp, n: int) -> int:
    return bit_length(n) * (2 if op == CommOp.ALL_REDUCE else 1)


def _candidate(case: Case) -> bool:
    able = case.shape in (Shape.SWITCH, Shape.HYPERCUBE, Shape.MESH) and case.n & (case.n - 1) == 0
    return able and may_beat_direct(case)


def _exact(case: Case) -> bool:
    return known_chain(case) and case.n & (case.n - 1) == 0


HALVING_DOUBLING = Algorithm(build, bound=_bound, candidate=_candidate, counts=_counts, messages=_messages,
                             exact=_exact)
