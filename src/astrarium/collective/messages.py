"""Messages as a table: the workshop in which schedules are made and taken apart again.

`assemble` turns a list of messages with logical times into a `vocab.Schedule` (peer mode ABSOLUTE, a program per
participant); `expand` lists the messages of any schedule, participant by participant, with absolute numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from astrarium.arrays import I64, Bool
from astrarium.vocab import CommOp, PeerMode, Schedule

__all__ = ["Expanded", "Messages", "assemble", "concatenate", "expand", "message_blocks", "one_program", "ranges",
           "reverse", "together"]


class Messages(Struct, frozen=True, eq=False):
    """A collective as messages in logical time.

    `src`, `dst`, `time`, `after`, `reduce` are [messages]; `block_ptr` is [messages + 1] into `block`. A message may
    start when every message that its sender receives at a logical time <= `after` is there (-1: at once).
    """

    src: I64
    dst: I64
    time: I64
    after: I64
    reduce: Bool
    block_ptr: I64
    block: I64

    @property
    def span(self) -> int:
        """Number of logical times in use: the last one plus one."""
        return int(self.time.max(initial=-1)) + 1


class Expanded(Struct, frozen=True, eq=False):
    """Every message of a schedule: participant p sends messages `send_ptr[p]:send_ptr[p+1]` in program order.
    Switches count as participants.

    `dst`, `needs`, `match`, `entry` are [messages]: receiver, receives that the sender needs first, number of the
    receive at the receiver, and the send's index in the schedule's own arrays. `recv_ptr` [n+1], `recv_from`,
    `recv_reduce` [receives] list each participant's receives in program order.
    """

    send_ptr: I64
    src: I64
    dst: I64
    needs: I64
    match: I64
    entry: I64
    recv_ptr: I64
    recv_from: I64
    recv_reduce: Bool


def _lengths_to_ptr(lengths: npt.NDArray[np.int64]) -> I64:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])


def _lengths(ptr: npt.NDArray[np.int32]) -> I64:
    wide = ptr.astype(np.int64)
    return np.subtract(wide[1:], wide[:-1], dtype=np.int64)


def ranges(starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> I64:
    """The numbers starts[i], starts[i] + 1, … (lengths[i] of them), one run after the other."""
    total = int(lengths.sum())
    if total == 0:
        return np.zeros(0, np.int64)
    ptr = _lengths_to_ptr(lengths)
    return np.arange(total, dtype=np.int64) + np.repeat(starts - ptr[:-1], lengths)


def assemble(op: CommOp, algorithm: str, n: int, blocks: int, messages: Messages) -> Schedule:
    """The schedule in which each participant has its own program and receives in logical order."""
    m = messages
    recv_order = np.lexsort((m.src, m.time, m.dst))
    recv_ptr = _lengths_to_ptr(np.bincount(m.dst, minlength=n).astype(np.int64))
    width = m.span + 1
    keys = (m.dst * width + m.time)[recv_order]
    needs = np.searchsorted(keys, m.src * width + m.after, side="right") - recv_ptr[m.src]
    match = np.empty(len(m.src), np.int64)
    match[recv_order] = np.arange(len(m.src), dtype=np.int64) - recv_ptr[m.dst[recv_order]]
    order = np.lexsort((m.dst, m.time, needs, m.src))
    lengths = np.diff(m.block_ptr)[order]
    block = m.block[ranges(m.block_ptr[:-1][order], lengths)]
    return Schedule(
        op=op, algorithm=algorithm, n=n, blocks=blocks, peer_mode=PeerMode.ABSOLUTE,
        program=np.arange(n, dtype=np.int32),
        send_ptr=_lengths_to_ptr(np.bincount(m.src, minlength=n).astype(np.int64)).astype(np.int32),
        send_peer=m.dst[order].astype(np.int32), send_needs=needs[order].astype(np.int32),
        send_match=match[order].astype(np.int32),
        send_block_ptr=_lengths_to_ptr(lengths).astype(np.int32), send_block=block.astype(np.int32),
        recv_ptr=recv_ptr.astype(np.int32), recv_peer=m.src[recv_order].astype(np.int32),
        recv_reduce=m.reduce[recv_order].astype(np.bool_))


def reverse(messages: Messages, *, reduce: bool) -> Messages:
    """Reverse the messages in time: reduce_scatter becomes all_gather, scatter gather, broadcast reduce.

    Right for tables in which every message starts after all the receives of earlier times (after = time - 1).
    """
    time = messages.span - 1 - messages.time
    return Messages(messages.dst, messages.src, time, time - 1, np.full(len(time), reduce), messages.block_ptr,
                    messages.block)


def concatenate(parts: Sequence[Messages]) -> Messages:
    """The parts one after the other in logical time."""
    shift, shifted = 0, []
    for part in parts:
        shifted.append(replace(part, time=part.time + shift, after=part.after + shift))
        shift += part.span
    return together(shifted)


def together(parts: Sequence[Messages]) -> Messages:
    """The parts side by side in the same logical time."""
    lengths = np.concatenate([np.diff(part.block_ptr) for part in parts])
    return Messages(
        np.concatenate([part.src for part in parts]), np.concatenate([part.dst for part in parts]),
        np.concatenate([part.time for part in parts]), np.concatenate([part.after for part in parts]),
        np.concatenate([part.reduce for part in parts]),
        _lengths_to_ptr(lengths), np.concatenate([part.block for part in parts]))


def one_program(op: CommOp, algorithm: str, n: int, mode: PeerMode, *, peers: npt.ArrayLike, needs: npt.ArrayLike,
                match: npt.ArrayLike, block_counts: npt.ArrayLike, block: npt.ArrayLike, recv_peers: npt.ArrayLike,
                reduce: npt.ArrayLike, blocks: int | None = None) -> Schedule:
    """A symmetric schedule: the same program for all `n` participants; `blocks` is n unless given."""
    send_peer, recv_peer = np.asarray(peers, np.int32), np.asarray(recv_peers, np.int32)
    return Schedule(
        op=op, algorithm=algorithm, n=n, blocks=n if blocks is None else blocks, peer_mode=mode,
        program=np.zeros(n, np.int32), send_ptr=np.array([0, len(send_peer)], np.int32), send_peer=send_peer,
        send_needs=np.asarray(needs, np.int32), send_match=np.asarray(match, np.int32),
        send_block_ptr=_lengths_to_ptr(np.asarray(block_counts, np.int64)).astype(np.int32),
        send_block=np.asarray(block, np.int32), recv_ptr=np.array([0, len(recv_peer)], np.int32), recv_peer=recv_peer,
        recv_reduce=np.asarray(reduce, np.bool_))


def _absolute(mode: PeerMode, n: int, who: I64 | np.int64, x: I64) -> I64:
    if mode == PeerMode.RELATIVE:
        return x - x % n + (who + x) % n
    return who ^ x if mode == PeerMode.XOR else x


def message_blocks(schedule: Schedule, src: int, entry: int) -> I64:
    """The absolute block numbers that the send `entry` carries when participant `src` runs it.

    RELATIVE turns a block within its run of n: number x - x mod n + (src + x) mod n (so `blocks` may be k * n).
    """
    part = slice(int(schedule.send_block_ptr[entry]), int(schedule.send_block_ptr[entry + 1]))
    x = schedule.send_block[part].astype(np.int64)
    return _absolute(schedule.peer_mode, schedule.n, np.int64(src), x)


def expand(schedule: Schedule) -> Expanded:
    """Every message of `schedule` with absolute participants; the arrays must already have consistent lengths."""
    program = schedule.program.astype(np.int64)
    sends = _lengths(schedule.send_ptr)[program]
    recvs = _lengths(schedule.recv_ptr)[program]
    entry = ranges(schedule.send_ptr.astype(np.int64)[program], sends)
    taken = ranges(schedule.recv_ptr.astype(np.int64)[program], recvs)
    places = np.arange(schedule.n + schedule.switches, dtype=np.int64)
    src, at = np.repeat(places, sends), np.repeat(places, recvs)
    mode, n = schedule.peer_mode, schedule.n
    return Expanded(
        send_ptr=_lengths_to_ptr(sends), src=src,
        dst=_absolute(mode, n, src, schedule.send_peer.astype(np.int64)[entry]),
        needs=schedule.send_needs.astype(np.int64)[entry], match=schedule.send_match.astype(np.int64)[entry],
        entry=entry, recv_ptr=_lengths_to_ptr(recvs),
        recv_from=_absolute(mode, n, at, schedule.recv_peer.astype(np.int64)[taken]),
        recv_reduce=schedule.recv_reduce[taken])
