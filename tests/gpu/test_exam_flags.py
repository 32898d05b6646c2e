"""No packet (LL) is overwritten before it is read: safe and unsafe plans, and a rival that tries every order."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.draws import draws
from tests.gpu.every_order import EveryOrder, tiny, variants
from tests.gpu.test_kernels import GPU
from tests.gpu.test_mscclpp import Json, data, far, spot, sync

from astrarium.errors import InputError, UnsupportedError
from astrarium.gpu import mscclpp_launch, read_mscclpp
from astrarium.gpu.engine import Launch, Operation, OpKind, Place, run_launch
from astrarium.gpu.kernels.exam import prove
from astrarium.gpu.kernels.exam_values import Promise, Region
from astrarium.units import Time

NOP = {"name": "nop"}
MEET = [NOP, sync("signal", [0]), sync("wait", [0]), NOP]
BARRIER = {"name": "barrier", "barrier_id": 0, "num_threadblocks": 2}
Blocks = Callable[[int, int], list[list[Json]]]


def pair(coll: str, chunks: tuple[int, int, int], blocks: Blocks, *, inplace: bool = False) -> Json:
    """A plan with LL of two ranks: `blocks` (rank, peer) says what each thread block does, with one channel to its like
    and the peer's scratch as buffer 0."""
    gpus = []
    for rank in range(2):
        made = blocks(rank, 1 - rank)
        entries = [{"id": i, "ops": ops, "channels": [{"channel_type": "memory", "channel_ids": [i]},
                                                      {"channel_type": "port", "channel_ids": [0]}],
                    "remote_buffer_refs": [{"access_channel_type": kind, "remote_buffer_ids": [0]}
                                           for kind in ("memory", "port")]} for i, ops in enumerate(made)]
        gpus.append({
            "id": rank, "input_chunks": chunks[0], "output_chunks": chunks[1], "scratch_chunks": chunks[2],
            "channels": [{"channel_type": "memory", "connected_to": [1 - rank] * len(made)},
                         {"channel_type": "port", "connected_to": [1 - rank]}],
            "remote_buffers": [{"rank": 1 - rank, "type": "s", "access_channel_types": ["memory", "port"]}],
            "threadblocks": entries, "semaphores": []})
    return {"name": "a_plan", "collective": coll, "protocol": "LL", "inplace": inplace, "gpus": gpus,
            "num_threads_per_block": 128}


def launched(given_plan: Json, folder: Path, payload: int = 40_000) -> Launch:
    path = folder / "plan.json"
    path.write_text(json.dumps(given_plan), encoding="utf-8")
    return mscclpp_launch(read_mscclpp(path), payload, replace(GPU, proxy_latency=Time("1 us")))


def two_shots(rank: int, peer: int) -> list[list[Json]]:
    """all_reduce in place, as MSCCL++'s allreduce_packet: a block sends, another one adds, a third one overwrites what
    the first one sent. Only the packets say that it may."""
    return [[data("ppkt", [spot("i", peer)], [far(0, rank)])],
            [data("respkt", [spot("i", rank), spot("s", peer)], [spot("i", rank), far(0, 2 + rank)])],
            [data("upkt", [spot("s", 2 + peer)], [spot("i", peer)])]]


def one_shot(rank: int, peer: int) -> list[list[Json]]:
    """all_reduce in place: the sum overwrites what may not have been sent yet, as the peer's packet does not wait for
    it."""
    return [[data("ppkt", [spot("i", 0, 2)], [far(0, 2 * rank, 2)])],
            [data("repkt", [spot("i", 0, 2), spot("s", 2 * peer, 2)], [spot("i", 0, 2)])]]


def one_block(rank: int, peer: int) -> list[list[Json]]:
    return [one_shot(rank, peer)[0] + one_shot(rank, peer)[1]]


def met(rank: int, peer: int) -> list[list[Json]]:
    sends, adds = one_shot(rank, peer)
    return [[*sends, BARRIER], [BARRIER, *adds]]


def again(first: list[Json], second: list[Json]) -> Blocks:
    """all_gather of two chunks through one place: `first` between reading one packet and sending the next one, `second`
    between sending and reading that."""
    def blocks(rank: int, peer: int) -> list[list[Json]]:
        return [[data("copy", [spot("i", 0, 2)], [spot("o", 2 * rank, 2)]), NOP,
                 data("ppkt", [spot("i", 0)], [far(0, rank)]), data("upkt", [spot("s", peer)], [spot("o", 2 * peer)]),
                 *first, data("ppkt", [spot("i", 1)], [far(0, rank)]), *second,
                 data("upkt", [spot("s", peer)], [spot("o", 2 * peer + 1)])]]

    return blocks


def echoed(first: bool) -> Blocks:
    """The same, but the peer sends the packet back, which says that it has read it: before (`first`) or after it
    unpacks it."""
    def blocks(rank: int, peer: int) -> list[list[Json]]:
        back = data("rppkt", [spot("s", peer)], [far(0, 2 + rank)])
        unpack = data("upkt", [spot("s", peer)], [spot("o", 2 * peer)])
        return [[data("ppkt", [spot("i", 0)], [far(0, rank)]), *([back, unpack] if first else [unpack, back])],
                [data("upkt", [spot("s", 2 + peer)], [spot("o", 2 * rank)]),
                 data("ppkt", [spot("i", 1)], [far(0, rank)]), *MEET,
                 data("upkt", [spot("s", peer)], [spot("o", 2 * peer + 1)]),
                 data("copy", [spot("i", 1)], [spot("o", 2 * rank + 1)])]]

    return blocks


def proxied(first: list[Json], second: list[Json]) -> Blocks:
    """all_gather: one block makes packets, the proxy of another one's port channel sends them, whatever their flags
    are."""
    def blocks(rank: int, peer: int) -> list[list[Json]]:
        makes = data("cpkt", [spot("i", 0)], [spot("s", rank)])
        sends = {**data("ppkt", [spot("s", rank)], [far(0, rank)]), "channel_type": "port", "channel_ids": [0]}
        keeps = data("copy", [spot("i", 0)], [spot("o", rank)])
        return [[makes, *first], [*second, sends, keeps, data("upkt", [spot("s", peer)], [spot("o", peer)])]]

    return blocks


def polled(rank: int, peer: int) -> list[list[Json]]:
    """The same, where the block waits for the packets before it asks its proxy."""
    first, second = proxied([], [])(rank, peer)
    second[0] = {**second[0], "name": "rppkt"}
    return [first, second]


REDUCE, GATHER = ("allreduce", (2, 2, 4)), ("allgather", (2, 4, 4))
SAFE = {"two shots": pair(*REDUCE, two_shots, inplace=True), "one block": pair(*REDUCE, one_block, inplace=True),
        "a barrier": pair(*REDUCE, met, inplace=True), "one shot": pair(*REDUCE, lambda rank, peer: [[
            {**op, "dst_buff": [spot("o", 0, 2)]} if op["name"] == "repkt" else op for op in ops]
            for ops in one_shot(rank, peer)]),
        "a place twice": pair(*GATHER, again(MEET, MEET)), "an echo": pair(*GATHER, echoed(False)),
        "a proxy": pair("allgather", (1, 2, 2), proxied([BARRIER], [BARRIER])),
        "a proxy, polled": pair("allgather", (1, 2, 2), polled)}
STORES = r"rank (.), threadblock {}, operation {} \(ppkt\) stores packets in buffer 'scratch' of GPU ., unordered with "
UNREAD = r"rank (?!\1)., threadblock 0, operation {} \(upkt\), which may not have read those that stand there"
READS = r"rank (.), threadblock 0, operation {} \(upkt\) reads packets in buffer 'scratch' of GPU \1, unordered with "
STORED = r"rank (?!\1)., threadblock 0, operation {} \(ppkt\), which stores them there"
UNSAFE = {
    "one shot in place": (pair(*REDUCE, one_shot, inplace=True), [
        r"rank (.), threadblock 1, operation 0 \(repkt\) overwrites buffer 'data' of GPU \1, unordered with rank \1, "
        r"threadblock 0, operation 0 \(ppkt\), which reads it"]),
    "nobody says that it has read": (pair(*GATHER, again([], MEET)), [
        STORES.format(0, 4) + UNREAD.format(3), READS.format(3) + STORED.format(4)]),
    "nothing tells two packets apart": (pair(*GATHER, again(MEET, [])), [
        READS.format(9) + STORED.format(8), STORES.format(0, 8) + UNREAD.format(9)]),
    "an echo too early": (pair(*GATHER, echoed(True)), [STORES.format(1, 1) + UNREAD.format(2)]),
    "a proxy that nobody waits for": (pair("allgather", (1, 2, 2), proxied([], [])), [
        r"rank (.), threadblock 1, operation 0 \(ppkt\), at its proxy, reads packets in buffer 'scratch' of GPU \1, "
        r"unordered with rank \1, threadblock 0, operation 0 \(cpkt\), which stores them there"]),
}


@pytest.mark.parametrize("what", SAFE)
@pytest.mark.parametrize("payload", [100, 40_000])
def test_safe_plans_are_proved_and_run(what: str, payload: int, tmp_path: Path) -> None:
    launch = launched(SAFE[what], tmp_path, payload)
    assert run_launch(launch).makespan == run_launch(launch, pure=True).makespan > 0


@pytest.mark.parametrize("what", UNSAFE)
@pytest.mark.parametrize("payload", [100, 40_000])
def test_unsafe_plans_are_refused_by_rank_block_and_operation(what: str, payload: int, tmp_path: Path) -> None:
    given_plan, words = UNSAFE[what]
    with pytest.raises(InputError) as error:
        launched(given_plan, tmp_path, payload)
    assert any(re.search(each, str(error.value)) for each in words)     # of two that race, either may come second


@pytest.mark.parametrize("parts", [(2, 2, 2), (2, 3, 1), (3, 1, 2)])
def test_blocks_that_share_operations_differently_are_followed_line_by_line(parts: tuple[int, int, int],
                                                                            tmp_path: Path) -> None:
    def shared(rank: int, peer: int) -> list[list[Json]]:
        return [[{**ops[0], "tbg_info": {"tb_id": part, "tbg_size": of}}]
                for ops, of in zip(two_shots(rank, peer), parts, strict=True) for part in range(of)]

    assert launched(pair(*REDUCE, shared, inplace=True), tmp_path, 77_000).gpus == 2


@pytest.mark.parametrize(("change", "error", "words"), [
    ({"name": "copy", "dst_buff": [spot("s", 2)]}, UnsupportedError,
     r"operation 0 \(copy\): data without flags in scratch, chunk 2"),
    ({"name": "cpkt", "dst_buff": [spot("i", 0)]}, InputError, r"operation 0 \(cpkt\): packets in buffer 'i', chunk 0"),
])
def test_packets_and_data_are_kept_apart(change: Json, error: type[Exception], words: str, tmp_path: Path) -> None:
    mixed = json.loads(json.dumps(SAFE["two shots"]))
    mixed["gpus"][1]["threadblocks"][2]["ops"].insert(0, {"src_buff": [spot("i", 0)], **change})
    with pytest.raises(error, match=r"rank 1, threadblock 2, " + words):
        launched(mixed, tmp_path)


@pytest.mark.parametrize(("dropped", "words"), [
    (4, r"operation 4 \(signal\): does not wait for all threads at operation 3 \(upkt\); expected a nop"),
    (7, r"operation 7 \(ppkt\): some threads do not wait for operation 6 \(wait\); expected a nop"),
])
def test_threads_of_a_block_have_to_meet_where_one_of_them_signals_or_waits(dropped: int, words: str,
                                                                            tmp_path: Path) -> None:
    less = json.loads(json.dumps(SAFE["a place twice"]))
    assert less["gpus"][1]["threadblocks"][0]["ops"].pop(dropped) == NOP
    with pytest.raises(InputError, match="rank 1, threadblock 0, " + words):
        launched(less, tmp_path)


def refused(launch: Launch) -> str | None:
    """Why the exam refuses a tiny launch whose data all are the same element; None if it does not."""
    start = Region(0, 0, np.zeros(launch.buffers[0].size, np.int64), [(1, 1)] * launch.buffers[0].size)
    try:
        prove(launch, Promise("all", [start, start], []))
    except InputError as error:
        return str(error)
    return None


def move(source: tuple[int, int, int], *targets: tuple[int, int, int], more: Any = ()) -> Operation:
    """Buffer (0: data, 1: packets), request, distance of each place."""
    sources = (Place(*source), *(Place(*each) for each in more))
    return Operation(OpKind.REDUCE if more else OpKind.MEMCPY, 1, sources, tuple(Place(*each) for each in targets))


TELL, WAIT, STOP = Operation(OpKind.RELEASE, peer=1), Operation(OpKind.ACQUIRE, value=1), Operation(OpKind.BARRIER)
SEND, TAKE, NEXT = move((0, 0, 0), (1, 0, 1)), move((1, 0, 0), (0, 1, 0)), move((0, 2, 0), (1, 0, 1))
SCENES = {
    "a packet and its answer": [[[SEND], [move((1, 1, 0), (0, 0, 0))]], [[move((1, 0, 0), (1, 1, 1))]]],
    "a place twice, after a signal": [[[SEND, WAIT, NEXT, TELL]], [[TAKE, TELL, WAIT, move((1, 0, 0), (0, 0, 0))]]],
    "a place twice, after an answer": [[[SEND], [move((1, 1, 0), (0, 1, 0)), NEXT, TELL]],
                                       [[move((1, 0, 0), (1, 1, 1)), WAIT, TAKE]]],
    "two readers": [[[SEND, WAIT, NEXT]], [[TAKE, replace(TELL, semaphore=1, peer=0)], [
        replace(WAIT, semaphore=1), move((1, 0, 0), (0, 2, 0)), TELL]]],
    "a sum in place": [[[SEND, STOP, move((0, 0, 0), (0, 0, 0), more=[(1, 0, 0)])]],
                       [[SEND, STOP, move((0, 0, 0), (0, 0, 0), more=[(1, 0, 0)])]]],
    "no fence": [[[SEND, replace(TELL, fence=False)]], [[WAIT, TAKE, move((1, 0, 0), (1, 0, 1))]]],
}


@pytest.mark.parametrize("what", SCENES)
def test_the_exam_agrees_with_every_order(what: str) -> None:
    """Tiny launches, each without one operation, or with two in the other order."""
    verdicts = [(refused(launch) is None, EveryOrder(launch).determined, refused(launch))
                for launch in variants(tiny(SCENES[what]))]
    assert verdicts[0][:2] == (True, True), verdicts[0]
    assert len({each for each, *_ in verdicts}) == 2
    for proved, determined, why in verdicts:
        assert proved == determined or (determined and why is not None and "may see" in why), why


OPERATIONS = st.one_of(
    st.builds(move, st.tuples(st.just(0), st.integers(0, 1), st.integers(0, 1)), st.just((1, 0, 1))),
    st.builds(move, st.just((1, 0, 0)), st.one_of(st.tuples(st.just(0), st.integers(0, 1), st.integers(0, 1)),
                                                  st.just((1, 0, 1)))),
    st.sampled_from([TELL, WAIT, replace(TELL, fence=False), STOP]))
GROUPS = st.lists(st.lists(OPERATIONS, min_size=1, max_size=4), min_size=1, max_size=2)


@given(st.tuples(GROUPS, st.lists(st.lists(OPERATIONS, min_size=1, max_size=4), min_size=1, max_size=1)))
@draws(60)
def test_what_the_exam_proves_holds_in_every_order(groups: tuple[list[list[Operation]], ...]) -> None:
    launch = tiny([*groups])
    why = refused(launch)
    if why is None:
        assert EveryOrder(launch).determined
    elif not any(words in why for words in ("may see", "waits for ever", "nothing is yet")):
        assert not EveryOrder(launch).determined, why
