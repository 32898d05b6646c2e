"""The exam must fail what is wrong, and say why."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from astrarium.collective.algorithms import Bound, build
from astrarium.collective.exam import check_bound, examine
from astrarium.collective.messages import Messages, assemble
from astrarium.errors import InputError
from astrarium.vocab import CommOp, PeerMode, Schedule


def changed(schedule: Schedule, field: str, at: int, value: int) -> Schedule:
    array = getattr(schedule, field).copy()
    array[at] = value
    return replace(schedule, **{field: array})


RING = build("ring", CommOp.ALL_REDUCE, 4)
BROKEN = [
    (changed(RING, "send_needs", 0, 1), "deadlock: participant . send 0|deadlock: participant .'s send 0"),
    (changed(RING, "send_block", 0, 1), "ends with block"),
    (changed(RING, "recv_reduce", 0, 0), "ends with block"),
    (changed(RING, "recv_reduce", 5, 1), "ends with block"),
    (changed(RING, "send_match", 1, 0), "is never sent to|is sent to more than once"),
    (changed(RING, "send_match", 0, 9), "has only 6"),
    (changed(RING, "recv_peer", 2, 1), "expects"),
    (changed(RING, "send_peer", 2, 0), "sends to itself"),
    (changed(RING, "send_block", 3, 4), r"outside 0\.\.3"),
    (changed(RING, "send_needs", 5, 0), "not in order"),
    (changed(RING, "send_needs", 5, 7), "needs more receives"),
    (changed(RING, "program", 2, 1), "not among"),
    (changed(RING, "send_ptr", 1, 5), "send_ptr does not cut"),
    (replace(RING, blocks=6), "multiple of 4"),
    (replace(RING, peer_mode=PeerMode.XOR, blocks=8), "XOR needs"),
    (replace(RING, recv_reduce=RING.recv_reduce[:-1]), "recv_reduce has 5 entries; expected 6"),
]


@pytest.mark.parametrize(("schedule", "message"), BROKEN)
def test_a_broken_ring_fails_with_the_reason(schedule: Schedule, message: str) -> None:
    with pytest.raises(InputError, match=message) as failure:
        examine(schedule)
    assert failure.value.path == "collective.ring"


def test_sending_what_is_not_held() -> None:
    with pytest.raises(InputError, match=r"sends block . to . without holding it"):
        examine(changed(build("ring", CommOp.ALL_GATHER, 4), "send_block", 0, 1))


def test_moving_the_wrong_number_of_items() -> None:
    with pytest.raises(InputError, match="but holds 0"):
        examine(changed(build("ring", CommOp.ALL_TO_ALL, 4), "send_block", 3, 3))


def test_a_barrier_without_the_last_message() -> None:
    zero, one = np.array([0]), np.array([1])
    one_way = Messages(zero, one, zero, -one, np.array([False]), np.array([0, 1]), zero)
    with pytest.raises(InputError, match="participant 0 ends with block 0 holding the contribution of 1 0 times"):
        examine(assemble(CommOp.BARRIER, "half", 2, 1, one_way))


def early_overwrite() -> Schedule:
    """Root 0 collects from 1 and 2, then broadcasts; 2's first message may overtake: 1 sends on before 0 is done."""
    src, dst = np.array([1, 0, 2]), np.array([0, 1, 0])
    return assemble(CommOp.REDUCE, "overtaken", 3, 1, Messages(
        src, dst, np.array([1, 0, 2]), np.array([-1, -1, -1]), np.array([True, False, True]), np.arange(4),
        np.zeros(3, np.int64)))


def test_a_message_that_may_spoil_a_read_is_found_by_the_in_place_proof() -> None:
    with pytest.raises(InputError, match="may arrive before its send to 1 has read the block"):
        examine(early_overwrite())
    assert not examine(early_overwrite(), in_place=False).in_place


def test_two_writes_in_any_order_are_found() -> None:
    src, dst, zero = np.array([1, 2]), np.array([0, 0]), np.zeros(2, np.int64)
    twice = assemble(CommOp.REDUCE, "twice", 3, 1, Messages(
        src, dst, np.array([0, 1]), zero - 1, np.array([False, True]), np.arange(3), zero))
    with pytest.raises(InputError):
        examine(twice)


@given(st.sampled_from(["ring", "direct", "halving_doubling", "bruck", "double_binary_tree"]), st.integers(2, 9),
       st.data())
def test_any_block_or_flag_that_changes_is_noticed(algorithm: str, n: int, data: st.DataObject) -> None:
    """No sent block and no reduce flag of a minimal all_reduce or all_gather can change unnoticed."""
    op = CommOp.ALL_GATHER if algorithm == "bruck" else CommOp.ALL_REDUCE
    schedule = build(algorithm, op, n)
    at = data.draw(st.integers(0, len(schedule.send_block) - 1))
    value = data.draw(st.integers(0, schedule.blocks - 1))
    assume(value != schedule.send_block[at])
    with pytest.raises(InputError):
        examine(changed(schedule, "send_block", at, value))
    flag = data.draw(st.integers(0, len(schedule.recv_reduce) - 1))
    with pytest.raises(InputError):
        examine(changed(schedule, "recv_reduce", flag, not schedule.recv_reduce[flag]))


def test_a_dear_schedule_is_refused() -> None:
    proof = examine(RING)
    check_bound(RING, proof, Bound(6, 6, 6))
    for limit, what in ((Bound(5, 6, 6), "sends 6 blocks of 4"), (Bound(6, 5, 6), "receives 6"),
                        (Bound(6, 6, 5), "chain of 6 messages")):
        with pytest.raises(InputError, match=what):
            check_bound(RING, proof, limit)
