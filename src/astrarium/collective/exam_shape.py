"""Exam, part one: arrays that fit together, and sends that match receives one to one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from astrarium.collective.messages import Expanded
from astrarium.errors import InputError
from astrarium.vocab import CommOp, PeerMode, Schedule

__all__ = ["Fail", "check_arrays", "check_matches"]

Fail = Callable[[str], InputError]
_REDUCING = frozenset({CommOp.ALL_REDUCE, CommOp.REDUCE_SCATTER, CommOp.REDUCE, CommOp.BARRIER})


def _check_ptr(name: str, ptr: np.typing.NDArray[np.int32], segments: int, items: int, fail: Fail) -> None:
    if len(ptr) != segments + 1 or ptr[0] != 0 or ptr[-1] != items or (np.diff(ptr) < 0).any():
        raise fail(f"{name} does not cut {items} entries into {segments} runs")


def check_arrays(schedule: Schedule, fail: Fail) -> None:
    """Lengths, ranges and the rules of the peer modes."""
    s = schedule
    if s.n < 1 or s.blocks < 1:
        raise fail(f"{s.n} participants and {s.blocks} blocks; both must be at least 1")
    programs, sends, recvs = len(s.send_ptr) - 1, len(s.send_peer), len(s.recv_peer)
    _check_ptr("send_ptr", s.send_ptr, programs, sends, fail)
    _check_ptr("recv_ptr", s.recv_ptr, programs, recvs, fail)
    _check_ptr("send_block_ptr", s.send_block_ptr, sends, len(s.send_block), fail)
    for name, length, want in (("send_needs", len(s.send_needs), sends), ("send_match", len(s.send_match), sends),
                               ("recv_reduce", len(s.recv_reduce), recvs),
                               ("program", len(s.program), s.n + s.switches)):
        if length != want:
            raise fail(f"{name} has {length} entries; expected {want}")
    if (s.program < 0).any() or (s.program >= programs).any():
        raise fail(f"a participant runs a program that is not among the {programs}")
    for name, values, end in (("send_peer", s.send_peer, s.n + s.switches),
                              ("recv_peer", s.recv_peer, s.n + s.switches),
                              ("send_block", s.send_block, s.blocks)):
        if (values < 0).any() or (values >= end).any():
            raise fail(f"{name} has a number outside 0..{end - 1}")
    if s.switches < 0 or (s.switches and s.peer_mode != PeerMode.ABSOLUTE):
        raise fail(f"{s.switches} switches; they need peers by number")
    if s.op not in _REDUCING and s.recv_reduce.any():
        raise fail("a receive that reduces, in an operation that does not")
    if s.peer_mode == PeerMode.RELATIVE and s.blocks % s.n:
        raise fail(f"RELATIVE needs a multiple of {s.n} blocks; it has {s.blocks}")
    if s.peer_mode == PeerMode.XOR and (s.n & (s.n - 1) or s.blocks != s.n):
        raise fail("XOR needs a power of two participants and as many blocks")


def check_matches(table: Expanded, fail: Fail) -> None:
    """Every receive is taken by exactly one send, which comes from the participant that the receive names."""
    counts = np.diff(table.recv_ptr)
    if (table.dst == table.src).any():
        raise fail(f"participant {int(table.src[table.dst == table.src][0])} sends to itself")
    bad = np.flatnonzero((table.match < 0) | (table.match >= counts[table.dst]))
    if len(bad):
        m = int(bad[0])
        raise fail(f"participant {int(table.src[m])} sends to receive {int(table.match[m])} of {int(table.dst[m])}, "
                   f"which has only {int(counts[table.dst[m]])}")
    at = table.recv_ptr[table.dst] + table.match
    taken = np.bincount(at, minlength=int(table.recv_ptr[-1]))
    for wrong, what in ((taken == 0, "is never sent to"), (taken > 1, "is sent to more than once")):
        if wrong.any():
            r = int(np.flatnonzero(wrong)[0])
            p = int(np.searchsorted(table.recv_ptr, r, side="right")) - 1
            raise fail(f"receive {r - int(table.recv_ptr[p])} of participant {p} (from {int(table.recv_from[r])}) "
                       f"{what}")
    bad = np.flatnonzero(table.recv_from[at] != table.src)
    if len(bad):
        m = int(bad[0])
        raise fail(f"receive {int(table.match[m])} of participant {int(table.dst[m])} expects "
                   f"{int(table.recv_from[at[m]])}, but {int(table.src[m])} sends to it")
    same = table.src[1:] == table.src[:-1]
    if (same & (np.diff(table.needs) < 0)).any():
        p = int(table.src[1:][same & (np.diff(table.needs) < 0)][0])
        raise fail(f"the sends of participant {p} are not in order of what they need")
    recvs = counts[table.src]
    if (table.needs < 0).any() or (table.needs > recvs).any():
        p = int(table.src[(table.needs < 0) | (table.needs > recvs)][0])
        raise fail(f"a send of participant {p} needs more receives than its {int(counts[p])}")
