"""Rooted operations over several dims, as one schedule whose every message stays within one dim.

broadcast and scatter go from the outermost dim inwards, so that the slow outer links carry the payload once; reduce and
gather come back. Only lines of NPUs that a holder of data (or the root's path) stands on take part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import lcm

import numpy as np
import numpy.typing as npt

from astrarium.collective.groups import SubDim
from astrarium.collective.messages import Expanded, expand, message_blocks, ranges
from astrarium.vocab import CommOp, PeerMode, Schedule

__all__ = ["ROOTED", "hierarchical"]

I64 = npt.NDArray[np.int64]
ROOTED = frozenset({CommOp.BROADCAST, CommOp.REDUCE, CommOp.GATHER, CommOp.SCATTER})
Rows = list[tuple[int, int, int, int, I64]]  # (source, destination, needs, match, blocks)


def hierarchical(op: CommOp, shape: Sequence[SubDim], build: Callable[[SubDim], Schedule]) -> Schedule:
    """One schedule of the rooted `op` for the whole group; `build` gives the single-dim schedule of `op` in each dim.

    `shape` is innermost first. The root is position 0.
    """
    outward = sorted(shape, key=lambda part: part.dim, reverse=True)
    order = outward if op in (CommOp.BROADCAST, CommOp.SCATTER) else outward[::-1]
    schedules = {part: build(part) for part in shape}
    n = int(np.prod([part.n for part in shape]))
    shares = op in (CommOp.GATHER, CommOp.SCATTER)
    blocks = n if shares else lcm(*(s.blocks for s in schedules.values()))
    received = np.zeros(n, np.int64)
    rows: Rows = []
    recv_rows: list[tuple[int, int, int, bool]] = []
    for part in order:
        inner = [other for other in outward if outward.index(other) > outward.index(part)]
        outer = [other for other in outward if outward.index(other) < outward.index(part)]
        table, schedule = expand(schedules[part]), schedules[part]
        before = received.copy()
        for base in _offsets(outer):
            line = base + np.arange(part.n, dtype=np.int64) * part.stride
            def carried(block: I64, base: int = int(base)) -> I64:
                return _blocks(block, schedule, blocks, part, base, inner if shares else None)  # noqa: B023
            _place(table, schedule, line, before, carried, rows, recv_rows)
            received[line] += np.diff(table.recv_ptr)
    algorithm = "+".join(dict.fromkeys(schedules[part].algorithm for part in shape))
    return _schedule(op, algorithm, n, blocks, rows, recv_rows)


def _offsets(parts: Sequence[SubDim]) -> I64:
    """Positions with every combination of the coordinates of `parts`, 0 elsewhere."""
    offsets = np.zeros(1, np.int64)
    for part in parts:
        offsets = (offsets[:, None] + np.arange(part.n, dtype=np.int64) * part.stride).ravel()
    return np.sort(offsets)


def _blocks(block: I64, schedule: Schedule, blocks: int, part: SubDim, base: int, inner: list[SubDim] | None) -> I64:
    """The group's blocks that stand for the line's: the subtree's owners, or an equal cut of the whole payload."""
    if inner is not None:
        return (base + block[:, None] * part.stride + _offsets(inner)).ravel()
    each = blocks // schedule.blocks
    return ranges(block * each, np.full(len(block), each, np.int64))


def _place(table: Expanded, schedule: Schedule, line: I64, before: I64, carried: Callable[[I64], I64], rows: Rows,
           recv_rows: list[tuple[int, int, int, bool]]) -> None:
    """Append one line's sends and receives, numbered after what its members received in earlier dims."""
    for m in range(len(table.src)):
        p, q = int(line[table.src[m]]), int(line[table.dst[m]])
        block = message_blocks(schedule, int(table.src[m]), int(table.entry[m]))
        rows.append((p, q, int(before[p] + table.needs[m]), int(before[q] + table.match[m]), carried(block)))
    for k in range(schedule.n):
        for r in range(int(table.recv_ptr[k]), int(table.recv_ptr[k + 1])):
            number = int(before[line[k]]) + r - int(table.recv_ptr[k])
            recv_rows.append((int(line[k]), number, int(line[table.recv_from[r]]), bool(table.recv_reduce[r])))


def _schedule(op: CommOp, algorithm: str, n: int, blocks: int, rows: Rows,
              recv_rows: list[tuple[int, int, int, bool]]) -> Schedule:
    sends = sorted(range(len(rows)), key=lambda i: (rows[i][0], rows[i][2], i))
    recvs = sorted(recv_rows)

    def ptr(owners: list[int], size: int) -> npt.NDArray[np.int32]:
        counts = np.bincount(np.array(owners, np.int64), minlength=size)
        return np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)

    lengths = [len(rows[i][4]) for i in sends]
    return Schedule(
        op=op, algorithm=algorithm, n=n, blocks=blocks, peer_mode=PeerMode.ABSOLUTE,
        program=np.arange(n, dtype=np.int32),
        send_ptr=ptr([rows[i][0] for i in sends], n), send_peer=np.array([rows[i][1] for i in sends], np.int32),
        send_needs=np.array([rows[i][2] for i in sends], np.int32),
        send_match=np.array([rows[i][3] for i in sends], np.int32),
        send_block_ptr=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32),
        send_block=np.concatenate([rows[i][4] for i in sends]).astype(np.int32) if rows else np.zeros(0, np.int32),
        recv_ptr=ptr([row[0] for row in recvs], n), recv_peer=np.array([row[2] for row in recvs], np.int32),
        recv_reduce=np.array([row[3] for row in recvs], np.bool_))
