"""Rooted operations over several dims, as one schedule whose every message stays within one dim.

broadcast and scatter go from the outermost dim inwards, so that the slow outer links carry the payload once; reduce and
gather come back. Only lines of NPUs with a holder of data (or on the root's path) take part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import lcm

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.arrays import I64
from astrarium.collective.groups import SubDim
from astrarium.collective.messages import expand, message_blocks, ranges
from astrarium.vocab import CommOp, PeerMode, Schedule

__all__ = ["hierarchical"]


class _Table(Struct, frozen=True, eq=False):
    """Messages and receives of the whole group: sends [messages], `length` and `block` their blocks; receives."""

    src: I64
    dst: I64
    needs: I64
    match: I64
    length: I64
    block: I64
    at: I64
    number: I64
    sender: I64
    reduce: npt.NDArray[np.bool_]


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
    received, tables = np.zeros(n, np.int64), []
    for part in order:
        place = outward.index(part)
        inner = _offsets(outward[place + 1:]) if shares else None
        tables.append(_lines(schedules[part], part, _offsets(outward[:place]), received, inner, blocks))
    algorithm = "+".join(dict.fromkeys(schedules[part].algorithm for part in shape))
    columns = {name: np.concatenate([getattr(table, name) for table in tables]) for name in _Table.__struct_fields__}
    return _schedule(op, algorithm, n, blocks, _Table(**columns))


def _offsets(parts: Sequence[SubDim]) -> I64:
    """Positions with every combination of the coordinates of `parts`, 0 elsewhere."""
    offsets = np.zeros(1, np.int64)
    for part in parts:
        offsets = (offsets[:, None] + np.arange(part.n, dtype=np.int64) * part.stride).ravel()
    return np.sort(offsets)


def _lines(schedule: Schedule, part: SubDim, bases: I64, received: I64, inner: I64 | None, blocks: int) -> _Table:
    """The sends and receives of every line of a dim, one from each position of `bases`; they come after the `received`
    ones of earlier dims, which grow. `inner`: the positions whose blocks a member of the line represents."""
    table = expand(schedule)
    carried = [_blocks(message_blocks(schedule, src, entry), schedule, blocks, part, inner)
               for src, entry in zip(table.src.tolist(), table.entry.tolist(), strict=True)]
    flat = np.concatenate([np.zeros(0, np.int64), *carried])

    def everywhere(column: I64, step: int = 0) -> I64:
        """A column of one line for all lines; with a step positions, else numbers."""
        return (bases[:, None] * (step > 0) + column * (step or 1)).ravel()

    src, dst = everywhere(table.src, part.stride), everywhere(table.dst, part.stride)
    each = np.diff(table.recv_ptr)
    owner = np.repeat(np.arange(schedule.n, dtype=np.int64), each)
    at = everywhere(owner, part.stride)
    found = _Table(
        src=src, dst=dst, needs=received[src] + everywhere(table.needs), match=received[dst] + everywhere(table.match),
        length=everywhere(np.array([len(block) for block in carried], np.int64)),
        block=everywhere(flat) if inner is None else (bases[:, None] + flat).ravel(),
        at=at, number=received[at] + everywhere(np.arange(len(owner), dtype=np.int64) - table.recv_ptr[owner]),
        sender=everywhere(table.recv_from, part.stride), reduce=np.tile(table.recv_reduce, len(bases)))
    received[everywhere(np.arange(schedule.n, dtype=np.int64), part.stride)] += np.tile(each, len(bases))
    return found


def _blocks(block: I64, schedule: Schedule, blocks: int, part: SubDim, inner: I64 | None) -> I64:
    """The group's blocks that represent the line's: the subtree's owners, or an equal cut of the whole payload."""
    if inner is not None:
        return (block[:, None] * part.stride + inner).ravel()
    each = blocks // schedule.blocks
    return ranges(block * each, np.full(len(block), each, np.int64))


def _schedule(op: CommOp, algorithm: str, n: int, blocks: int, table: _Table) -> Schedule:
    sends, recvs = np.lexsort((table.needs, table.src)), np.lexsort((table.number, table.at))
    first = np.cumsum(table.length) - table.length
    return Schedule(
        op=op, algorithm=algorithm, n=n, blocks=blocks, peer_mode=PeerMode.ABSOLUTE,
        program=np.arange(n, dtype=np.int32),
        send_ptr=_pointer(table.src, n), send_peer=table.dst[sends].astype(np.int32),
        send_needs=table.needs[sends].astype(np.int32), send_match=table.match[sends].astype(np.int32),
        send_block_ptr=np.concatenate([[0], np.cumsum(table.length[sends])]).astype(np.int32),
        send_block=table.block[ranges(first[sends], table.length[sends])].astype(np.int32),
        recv_ptr=_pointer(table.at, n), recv_peer=table.sender[recvs].astype(np.int32),
        recv_reduce=table.reduce[recvs])


def _pointer(owners: I64, size: int) -> npt.NDArray[np.int32]:
    return np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=size))]).astype(np.int32)
