"""The exam of collectives: a symbolic proof that a schedule is right, whatever the timing.

What a participant holds is written as how often each contributor is in each block. The schedule runs on these counts:
it must never wait for itself, match every receive once, send only what is held, and end with what the operation
promises. Receives take effect in program order. The in-place proof goes further: nothing that arrives early may
change a block that is still to be read, so the schedule is right even when messages are written straight into the
payload.

Switches that compute begin with nothing and take part like participants; what they end with does not matter.

An all-to-all moves items: a send that names destination b takes every item for b that its sender then holds, and
names b once per item. A barrier moves knowledge: everyone must have heard from everyone.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.arrays import I64
from astrarium.collective import exam_order, exam_shape
from astrarium.collective.algorithms import Bound
from astrarium.collective.messages import Expanded, expand, message_blocks
from astrarium.errors import InputError
from astrarium.vocab import CommOp, Schedule

__all__ = ["Proof", "check_bound", "examine"]

Held = npt.NDArray[np.int32]


class Proof(Struct, frozen=True, eq=False):
    """What the exam measured: blocks sent and received per participant [n], messages, and the longest chain of messages
    of which each needs the one before. `in_place` is False where that proof was not asked for, or left out for its
    size."""

    sent: I64
    received: I64
    messages: int
    steps: int
    in_place: bool


def examine(schedule: Schedule, *, path: str = "collective", in_place: bool = True, limit: int = 6000) -> Proof:
    """Prove `schedule`; InputError at `path` says what is wrong with it.

    `in_place` asks for the in-place proof too (which all_to_all and barrier do not need). It takes messages squared
    bits, so it is left out above `limit` messages.
    """
    exam = _Exam(schedule, path)
    exam_shape.check_arrays(schedule, exam.fail)
    table = expand(schedule)
    exam_shape.check_matches(table, exam.fail)
    order = exam_order.firing_order(table, exam.fail)
    exam.run(table, order)
    exam.check_end()
    count = len(table.src)
    in_place = in_place and count <= limit
    if in_place and schedule.op not in (CommOp.ALL_TO_ALL, CommOp.BARRIER):
        exam_order.check_hazards(schedule, table, order, exam.fail)
    sizes = np.diff(schedule.send_block_ptr)[table.entry]
    sent, received = (np.bincount(ends, weights=sizes, minlength=schedule.n)[:schedule.n].astype(np.int64)
                      for ends in (table.src, table.dst))
    return Proof(sent, received, count, max(exam_order.chain_lengths(table, order), default=0), in_place)


def check_bound(schedule: Schedule, proof: Proof, limit: Bound, *, path: str = "collective") -> None:
    """InputError when a proved schedule sends, receives or waits more than `limit` allows."""
    for what, has, may in (("sends", int(proof.sent.max(initial=0)), limit.sent),
                           ("receives", int(proof.received.max(initial=0)), limit.received),
                           ("has a chain of", proof.steps, limit.steps)):
        if has > may:
            unit = "messages" if what.startswith("has") else f"blocks of {schedule.blocks}"
            raise InputError(f"{path}.{schedule.algorithm}",
                             f"{schedule.op.name.lower()} on {schedule.n} participants {what} {has} {unit}",
                             expected=f"at most {may}")


class _Exam:
    """One run of a schedule on counts: `held` [n and switches, blocks, n] is how often contributor c is in
    block b at p."""

    def __init__(self, schedule: Schedule, path: str):
        self.schedule, self.path = schedule, path
        self.held = _start(schedule) if schedule.n > 0 else np.zeros((0, 0, 0), np.int32)

    def fail(self, message: str) -> InputError:
        s = self.schedule
        return InputError(f"{self.path}.{s.algorithm}", f"{s.op.name.lower()} on {s.n} participants: {message}")

    def run(self, table: Expanded, order: list[int]) -> None:
        """Send every message in `order`; receives are applied in program order as far as each send needs them."""
        payload: dict[int, tuple[I64, Held]] = {}
        places = self.schedule.n + self.schedule.switches
        applied = np.zeros(places, np.int64)
        incoming = exam_order.sender_of_receive(table)
        take = self._taker()
        for m in order:
            p = int(table.src[m])
            self._apply(p, int(table.needs[m]), applied, table, incoming, payload)
            blocks = message_blocks(self.schedule, p, int(table.entry[m]))
            payload[m] = blocks, take(p, int(table.dst[m]), blocks)
        for p in range(places):
            self._apply(p, int(table.recv_ptr[p + 1] - table.recv_ptr[p]), applied, table, incoming, payload)

    def _taker(self) -> Callable[[int, int, I64], Held]:
        return {CommOp.ALL_TO_ALL: self._move, CommOp.BARRIER: self._tell}.get(self.schedule.op, self._copy)

    def _copy(self, p: int, to: int, blocks: I64) -> Held:
        part: Held = self.held[p, blocks]
        empty = blocks[~part.any(axis=1)]
        if len(empty):
            raise self.fail(f"participant {p} sends block {int(empty[0])} to {to} without holding it")
        return part

    def _tell(self, p: int, _to: int, _blocks: I64) -> Held:
        known: Held = self.held[p].copy()
        return known

    def _move(self, p: int, to: int, blocks: I64) -> Held:
        named, times = np.unique(blocks, return_counts=True)
        part: Held = self.held[p, named].copy()
        wrong = np.flatnonzero(part.sum(axis=1) != times)
        if len(wrong):
            w = int(wrong[0])
            raise self.fail(f"participant {p} sends {int(times[w])} items for destination {int(named[w])} to {to}, "
                            f"but holds {int(part[w].sum())}")
        self.held[p, named] = 0
        return part

    def _apply(self, p: int, upto: int, applied: I64, table: Expanded,
               incoming: I64, payload: dict[int, tuple[I64, Held]]) -> None:
        op = self.schedule.op
        for r in range(int(applied[p]), upto):
            at = int(table.recv_ptr[p]) + r
            blocks, part = payload.pop(int(incoming[at]))
            if op == CommOp.ALL_TO_ALL:
                self.held[p, np.unique(blocks)] += part
            elif op == CommOp.BARRIER:
                self.held[p] |= part
            elif table.recv_reduce[at]:
                self.held[p, blocks] += part
            else:
                self.held[p, blocks] = part
        applied[p] = max(int(applied[p]), upto)

    def check_end(self) -> None:
        """Compare with what the operation promises; the message names the first wrong block."""
        want, checked = _end(self.schedule)
        wrong = checked[:, :, None] & (self.held[:self.schedule.n] != want)
        if wrong.any():
            p, b, c = (int(i[0]) for i in np.nonzero(wrong))
            thing = f"item from {c}" if self.schedule.op == CommOp.ALL_TO_ALL else f"contribution of {c}"
            raise self.fail(f"participant {p} ends with block {b} holding the {thing} {int(self.held[p, b, c])} times; "
                            f"expected {int(want[p, b, c])}")


def _owners(schedule: Schedule) -> I64:
    """Which participant owns each block [blocks], for operations whose blocks have owners: block mod n."""
    return np.arange(schedule.blocks, dtype=np.int64) % schedule.n


def _start(schedule: Schedule) -> Held:
    """What each participant holds before the operation."""
    n, blocks, op = schedule.n, schedule.blocks, schedule.op
    held = np.zeros((n + schedule.switches, blocks, n), np.int32)
    everyone, every_block = np.arange(n), np.arange(blocks)
    if op in (CommOp.BROADCAST, CommOp.SCATTER):
        held[0, :, 0] = 1
    elif op == CommOp.BARRIER:
        held[everyone, :, everyone] = 1
    elif op in (CommOp.ALL_GATHER, CommOp.GATHER):
        held[_owners(schedule), every_block, _owners(schedule)] = 1
    else:
        held[everyone, :, everyone] = 1
    return held


def _end(schedule: Schedule) -> tuple[Held, npt.NDArray[np.bool_]]:
    """What each participant must hold after it, and which blocks count [n, blocks]."""
    n, blocks, op = schedule.n, schedule.blocks, schedule.op
    want = np.zeros((n, blocks, n), np.int32)
    checked = np.zeros((n, blocks), np.bool_)
    owner, every_block = _owners(schedule), np.arange(blocks)
    if op in (CommOp.ALL_GATHER, CommOp.GATHER):
        want[:, every_block, owner] = 1
    elif op in (CommOp.BROADCAST, CommOp.SCATTER):
        want[:, :, 0] = 1
    elif op == CommOp.ALL_TO_ALL:
        want[owner, every_block, :] = 1
    else:
        want[:] = 1
    if op in (CommOp.REDUCE, CommOp.GATHER):
        checked[0] = True
    elif op in (CommOp.REDUCE_SCATTER, CommOp.SCATTER):
        checked[owner, every_block] = True
    else:
        checked[:] = True
    return want, checked
