"""Collectives in switches that add and multicast: a tree whose inner nodes are switches.

`sharp`: every participant sends its payload up once, each switch adds what comes from below and sends the sum up, the
root sends the result down, and each switch copies it to all below (Graham et al., "Scalable Hierarchical Aggregation
Protocol (SHArP)", COMHPC 2016). Of an all_reduce of S bytes a link carries S up and S down, however many participate.

`nvls`: the same but for the all_reduce, which is what a library makes of a switch that GPUs read and write through
(PTX `multimem.ld_reduce` and `multimem.st`): each participant reads the sum of its own share (S up, S / n down), and
writes it to all (S / n up, S down). So a link carries S (1 + 1 / n) each way.

The payload passes in `pipeline` rounds. With `nvls` a participant has WINDOW rounds on their way up beyond the one
whose sum it has: what it writes does not wait behind all that it has to send.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from astrarium.collective.algorithms.algorithm import EVERY_OP, Algorithm, Bound, Case, Counts, same
from astrarium.collective.algorithms.options import Options
from astrarium.collective.messages import Messages, assemble
from astrarium.vocab import CommOp, Schedule

__all__ = ["NVLS", "SHARP", "nvls", "sharp", "tree", "ways_down"]

Row = tuple[int, int, int, int, bool, Sequence[int]]    # as `Messages`: src, dst, time, after, reduce, blocks

WINDOW = 2
_LAST = 1 << 32     # a logical time that no send waits for
_ADDS = (CommOp.ALL_REDUCE, CommOp.REDUCE_SCATTER, CommOp.REDUCE, CommOp.BARRIER)
_SHARED = (CommOp.REDUCE_SCATTER, CommOp.ALL_GATHER)


def sharp(op: CommOp, n: int, options: Options) -> Schedule:
    """The schedule of `op` through one switch that all `n` participants are linked to."""
    return tree(op, "sharp", n, [n] * n + [-1], options)


def nvls(op: CommOp, n: int, options: Options) -> Schedule:
    """As `sharp`, with an all_reduce of reads and writes."""
    if op != CommOp.ALL_REDUCE or n == 1:
        return tree(op, "nvls", n, [n] * n + [-1], options)
    rows: list[Row] = []
    for r in range(options.pipeline):
        whole = range(r * n, r * n + n)
        # What comes to the switch, in order: the first rounds, then a written round and a further one in turns.
        summed = r if r < WINDOW else 2 * r - WINDOW + 1
        written = WINDOW + 2 * r
        rows += [(p, n, summed, r - WINDOW if r >= WINDOW else -1, True, whole) for p in range(n)]
        rows += [(n, p, r, summed, False, whole[p:p + 1]) for p in range(n)]
        rows += [(p, n, written, r, False, whole[p:p + 1]) for p in range(n)]
        rows += [(n, p, _LAST + r, written, False, whole) for p in range(n)]
    return _schedule(op, "nvls", n, 1, n * options.pipeline, rows)


def tree(op: CommOp, algorithm: str, n: int, up: Sequence[int], options: Options) -> Schedule:
    """The schedule of `op` along a tree. `up` [participants and switches]: the place above each, of the root, which
    is a switch, -1. A switch below the root has two places, so that neither way waits for the other: its own on the
    way up; on the way down one behind all others, in the same order (`ways_down`)."""
    if n == 1:
        return _schedule(op, algorithm, n, 0, n if op in _SHARED else 1, [])
    rounds = 1 if op == CommOp.BARRIER else options.pipeline
    below, height, depth, down = _below(n, up), _heights(n, up), _depths(up), ways_down(n, up)
    each = n if op in _SHARED else 1
    rows: list[Row] = []
    for r in range(rounds):
        whole = list(range(r * each, r * each + each))
        for place, above in enumerate(up):
            if above < 0:
                continue
            own = [whole[p] for p in below[place]] if op in _SHARED else whole
            if op != CommOp.BROADCAST or 0 in below[place]:
                after = height[place] - 1 + r if height[place] else -1
                rows.append((place, above, height[place] + r, after, op in _ADDS,
                             own if op == CommOp.ALL_GATHER else whole))
            if (op != CommOp.REDUCE or 0 in below[place]) and (op != CommOp.BROADCAST or below[place] != [0]):
                after = depth[above] - 1 + r if up[above] >= 0 else height[above] - 1 + r
                rows.append((down[above], down[place], depth[above] + r, after, False,
                             own if op == CommOp.REDUCE_SCATTER else whole))
    return _schedule(op, algorithm, n, max(down) + 1 - n, rounds * each, rows)


def ways_down(n: int, up: Sequence[int]) -> list[int]:
    """The place on the way down of each place of a tree."""
    found, more = list(range(len(up))), len(up)
    for place in range(n, len(up)):
        if up[place] >= 0:
            found[place], more = more, more + 1
    return found


def _below(n: int, up: Sequence[int]) -> list[list[int]]:
    """The participants at or below each place, ascending."""
    found: list[list[int]] = [[] for _ in up]
    for participant in range(n):
        at = participant
        while at >= 0:
            found[at].append(participant)
            at = up[at]
    return found


def _depths(up: Sequence[int]) -> list[int]:
    """Links between the root and each place."""
    found = []
    for place in range(len(up)):
        depth, at = 0, up[place]
        while at >= 0:
            depth, at = depth + 1, up[at]
        found.append(depth)
    return found


def _heights(n: int, up: Sequence[int]) -> list[int]:
    """Links between each place and the lowest participant below it."""
    found = [0] * len(up)
    for participant in range(n):
        height, at = 0, participant
        while at >= 0:
            found[at] = max(found[at], height)
            height, at = height + 1, up[at]
    return found


def _schedule(op: CommOp, algorithm: str, n: int, switches: int, blocks: int, rows: Sequence[Row]) -> Schedule:
    src, dst, time, after = (np.array([row[k] for row in rows], np.int64) for k in range(4))
    lengths = np.array([len(row[5]) for row in rows], np.int64)
    block = np.array([b for row in rows for b in row[5]], np.int64)
    table = Messages(src, dst, time, after, np.array([row[4] for row in rows], np.bool_),
                     np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]), block)
    return replace(assemble(op, algorithm, n + switches, blocks, table), n=n, switches=switches)


# ------------------------------------------------------------ what it costs
ROUNDS = 32         # in which the choice has them pass, so that only one way counts


def _bound(op: CommOp, n: int, blocks: int) -> Bound:
    """What an NPU sends and receives: the payload, or its share."""
    if op == CommOp.ALL_GATHER:
        return Bound(blocks // n, blocks, 2)
    return Bound(blocks, blocks // n, 2) if op == CommOp.REDUCE_SCATTER else same(blocks, 2)


def _bound_of_nvls(op: CommOp, n: int, blocks: int) -> Bound:
    if op != CommOp.ALL_REDUCE:
        return _bound(op, n, blocks)
    return same(blocks + blocks // n, 2 * (1 + (blocks // n + 1) // 2))


def _counts(case: Case) -> list[Counts]:
    return [Counts(0, 1, float(case.n), 2, float(case.n))]


def _counts_of_nvls(case: Case) -> list[Counts]:
    return [Counts(0, 1, case.n + 1.0, 4, case.n + 1.0)] if case.op == CommOp.ALL_REDUCE else _counts(case)


def _messages(_op: CommOp, _n: int) -> int:
    return ROUNDS


def _messages_of_nvls(op: CommOp, _n: int) -> int:
    return ROUNDS * (2 if op == CommOp.ALL_REDUCE else 1)


_OPS = EVERY_OP - {CommOp.ALL_TO_ALL, CommOp.GATHER, CommOp.SCATTER}
SHARP = Algorithm(sharp, _OPS, _bound, counts=_counts, messages=_messages, in_switch=True)
NVLS = Algorithm(nvls, _OPS, _bound_of_nvls, counts=_counts_of_nvls, messages=_messages_of_nvls, in_switch=True)
