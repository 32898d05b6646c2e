"""Exam, part two: what happens before what. Deadlocks, chains, and reads that a message could spoil."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from astrarium.arrays import I64
from astrarium.collective.exam_shape import Fail
from astrarium.collective.messages import Expanded, message_blocks
from astrarium.vocab import Schedule

__all__ = ["chain_lengths", "check_hazards", "firing_order", "sender_of_receive"]


def sender_of_receive(table: Expanded) -> I64:
    """The message that each receive takes [receives]."""
    incoming = np.empty(int(table.recv_ptr[-1]), np.int64)
    incoming[table.recv_ptr[table.dst] + table.match] = np.arange(len(table.src))
    return incoming


def firing_order(table: Expanded, fail: Fail) -> list[int]:
    """All messages in an order in which each is sent after those it needs; a deadlock names one wait."""
    n = len(table.send_ptr) - 1
    send_ptr, recv_ptr = table.send_ptr.tolist(), table.recv_ptr.tolist()
    needs, dst, match = table.needs.tolist(), table.dst.tolist(), table.match.tolist()
    there = [False] * recv_ptr[-1]
    prefix, following = [0] * n, send_ptr[:n]
    order: list[int] = []
    ready = list(range(n))
    while ready:
        p = ready.pop()
        base = recv_ptr[p]
        while base + prefix[p] < recv_ptr[p + 1] and there[base + prefix[p]]:
            prefix[p] += 1
        while following[p] < send_ptr[p + 1] and needs[following[p]] <= prefix[p]:
            m = following[p]
            following[p] += 1
            order.append(m)
            there[recv_ptr[dst[m]] + match[m]] = True
            ready.append(dst[m])
    for p in range(n):
        if following[p] < send_ptr[p + 1]:
            waited = recv_ptr[p] + prefix[p]
            raise fail(f"deadlock: participant {p}'s send {following[p] - send_ptr[p]} to {dst[following[p]]} waits "
                       f"for its receive {prefix[p]} from {int(table.recv_from[waited])}, which is never sent")
    return order


def chain_lengths(table: Expanded, order: list[int]) -> list[int]:
    """Per message, the messages in the longest chain that ends with it and of which each needs the one before."""
    incoming, recv_ptr = sender_of_receive(table).tolist(), table.recv_ptr.tolist()
    src, needs = table.src.tolist(), table.needs.tolist()
    length = [0] * len(src)
    seen = [0] * (len(recv_ptr) - 1)   # receives of p folded into `best` so far
    best = [0] * (len(recv_ptr) - 1)
    for m in order:
        p = src[m]
        while seen[p] < needs[m]:
            best[p] = max(best[p], length[incoming[recv_ptr[p] + seen[p]]])
            seen[p] += 1
        length[m] = best[p] + 1
    return length


def _ancestors(table: Expanded, order: list[int], incoming: list[int]) -> list[int]:
    """Per message, a bit set (Python int) of the messages that are surely delivered before it is sent."""
    src, needs, recv_ptr = table.src.tolist(), table.needs.tolist(), table.recv_ptr.tolist()
    past = [0] * len(src)
    seen, known = [0] * (len(recv_ptr) - 1), [0] * (len(recv_ptr) - 1)
    for m in order:
        p = src[m]
        while seen[p] < needs[m]:
            before = incoming[recv_ptr[p] + seen[p]]
            known[p] |= past[before] | (1 << before)
            seen[p] += 1
        past[m] = known[p]
    return past


def check_hazards(schedule: Schedule, table: Expanded, order: list[int], fail: Fail) -> None:
    """A receive that changes a block must come surely after every send that reads the older value, and after (or, when
    both reduce, in any order with) every earlier receive of that block."""
    incoming = sender_of_receive(table).tolist()
    past = _ancestors(table, order, incoming)
    blocks = [message_blocks(schedule, int(table.src[m]), int(table.entry[m])).tolist() for m in range(len(table.src))]
    send_ptr, recv_ptr, needs = table.send_ptr.tolist(), table.recv_ptr.tolist(), table.needs.tolist()
    for p in range(schedule.n + schedule.switches):
        reads: dict[int, list[int]] = defaultdict(list)     # block -> sends so far that read it
        writes: dict[int, list[tuple[int, bool]]] = defaultdict(list)
        m = send_ptr[p]
        for r in range(recv_ptr[p + 1] - recv_ptr[p]):
            while m < send_ptr[p + 1] and needs[m] <= r:
                for b in blocks[m]:
                    reads[b].append(m)
                m += 1
            taken = incoming[recv_ptr[p] + r]
            adds = bool(table.recv_reduce[recv_ptr[p] + r])
            for b in blocks[taken]:
                for reader in reads[b]:
                    if not past[taken] >> reader & 1:
                        raise fail(f"block {b} at participant {p}: its receive {r} (from {int(table.src[taken])}) may "
                                   f"arrive before its send to {int(table.dst[reader])} has read the block")
                for other, added in writes[b]:
                    if not (adds and added) and not past[taken] >> other & 1:
                        raise fail(f"block {b} at participant {p}: the messages from {int(table.src[other])} and "
                                   f"{int(table.src[taken])} may arrive in either order, with different results")
                writes[b].append((taken, adds))
