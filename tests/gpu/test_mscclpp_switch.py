"""Switch channels of MSCCL++ plans (NVLS): sums and copies of the switch, and what is wrong with them."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.draws import draws
from tests.gpu.test_gpu import needs_core, outcome, same
from tests.gpu.test_kernels import GPU
from tests.gpu.test_mscclpp import Json, N, damaged, plan, refused_or_ends, spot, sync

from astrarium.errors import InputError, UnsupportedError
from astrarium.gpu import mscclpp_launch, read_mscclpp
from astrarium.gpu.engine import Launch, OpKind, Place, run_launch
from astrarium.gpu.mscclpp.launch import _Builder


def at_switch(index: int) -> Json:
    return {"switch_channel_id": 0, "index": index, "size": 1}


def grouped(name: str, source: Json, target: Json) -> Json:
    return {"name": name, "src_buff": [source], "dst_buff": [target], "channel_type": "switch"}


def switched(made: Json, buffer: str, ranks: list[int] | None = None) -> Json:
    """The plan with a switch channel for a buffer of all ranks, or of some."""
    found = copy.deepcopy(made)
    group = {"size": N, "ranks": list(range(N)) if ranks is None else ranks}
    for gpu in found["gpus"]:
        gpu["channels"].append({"channel_type": "switch", "buffer_type": buffer, "rank_groups": [group]})
        gpu["threadblocks"][0]["channels"].append({"channel_type": "switch", "channel_ids": [0]})
    return found


def meeting(what: Callable[[int], Json], end: str = "") -> Callable[[int, list[int]], list[Json]]:
    """All meet, do something, and meet again; `end`: "rlx" for signals and waits that order nothing."""
    def ops(rank: int, peers: list[int]) -> list[Json]:
        near = sorted(range(N - 1), key=lambda at: (peers[at] - rank) % N)  # by distance: alike on every rank
        return [sync("rlxsignal", near), sync("rlxwait", near), {"name": "nop"}, what(rank), {"name": "nop"},
                sync(f"{end}signal", near), sync(f"{end}wait", near)]

    return ops


def packets(rank: int, _: list[int]) -> list[Json]:
    """Make packets of the own part, have them copied to all, its own place included, unpack all."""
    makes = {"name": "cpkt", "src_buff": [spot("o", rank)], "dst_buff": [spot("s", rank)]}
    unpacks = [{"name": "upkt", "src_buff": [spot("s", i)], "dst_buff": [spot("o", i)]} for i in range(N)]
    return [makes, grouped("gstorepkt", spot("s", rank), at_switch(rank)), *unpacks]


def sums(end: str = "", *, inplace: bool = True) -> Json:
    made = plan("allreduce", "Simple", (N, N, 0), "i",
                meeting(lambda rank: grouped("glres", at_switch(rank), at_switch(rank)), end), inplace=inplace)
    return switched(made, "i")


COPIES = meeting(lambda rank: grouped("gstore", spot("i", 0), at_switch(rank)))
PLANS = {
    "sums in place": sums(),
    "copies to the output": switched(plan("allgather", "Simple", (1, N, 0), "o", COPIES), "o"),
    "copies in place": switched(plan("allgather", "Simple", (1, N, 0), "o", COPIES, inplace=True), "o"),
    "packets": switched(plan("allgather", "LL", (1, N, N), "s", packets, inplace=True), "s"),
}


def launched(given_plan: Any, folder: Path, payload: int = 40_000, *, folded: bool = False) -> Launch:
    path = folder / "plan.json"
    path.write_text(json.dumps(given_plan), encoding="utf-8")
    return mscclpp_launch(read_mscclpp(path), payload, GPU, folded=folded)


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("payload", [100, 40_000])
def test_plans_are_proved_and_send_what_they_must(name: str, payload: int, tmp_path: Path) -> None:
    launch = launched(PLANS[name], tmp_path, payload)
    ran = run_launch(launch)
    sizes = [op.size * (2 if name == "packets" else 1) for group in launch.grid(0) for op in group.operations
             if any(place.peer == N for place in op.targets)]
    # a store to all goes out once; of a sum everyone answers everyone, and stores the sum
    assert ran.port_packets[0, :, 0].sum() == sum(sizes) * (N + 1 if name == "sums in place" else 1)


def test_another_thread_block_may_unpack_the_own_packets(tmp_path: Path) -> None:
    """They overwrite in place what packets were made from: either packet tells that it was read. The packets that
    `gstorepkt` stores at its own rank are those that it loaded there."""
    apart = copy.deepcopy(PLANS["packets"])
    for rank, gpu in enumerate(apart["gpus"]):
        [block] = gpu["threadblocks"]
        own = block["ops"].pop(2 + rank)
        gpu["threadblocks"].append({**block, "id": 1, "ops": [own]})
    assert run_launch(launched(apart, tmp_path)).makespan > 0


@needs_core
@pytest.mark.parametrize("name", PLANS)
def test_both_engines_agree_folded_or_not(name: str, tmp_path: Path) -> None:
    whole, folded = launched(PLANS[name], tmp_path), launched(PLANS[name], tmp_path, folded=True)
    same(outcome(whole, pure=True), outcome(whole, pure=False))
    if name != "packets":           # there each rank unpacks its own part at another time
        assert len(folded.grids) == 1
        same(outcome(folded, pure=True), outcome(folded, pure=False, fold=False))


def test_places_of_all_turn_with_the_ranks_shares(tmp_path: Path) -> None:
    """In place, the input of each rank is its share of the data: its places are apart, and one line by distance."""
    (tmp_path / "a.json").write_text(json.dumps(plan("reducescatter", "Simple", (N, 1, 0), "i", lambda *_: [],
                                                     inplace=True)), encoding="utf-8")
    builder = _Builder(read_mscclpp(tmp_path / "a.json"), N * 128, GPU)        # a request per share
    assert builder._place(1, (N, "o", 0, 1), 0) == Place(0, 1, N, turn=N - 1)       # request 2 of the next one
    launch = launched(PLANS["copies in place"], tmp_path, folded=True)
    (op,) = (op for group in launch.grids[0] for op in group.operations if op.kind == OpKind.MEMCPY)
    assert (op.targets[0].offset, op.targets[0].turn) == (0, launch.buffers[0].size // N)


def test_relaxed_signals_prove_nothing(tmp_path: Path) -> None:
    """As at the end of MSCCL++'s own plans (`reduce_nvls.json`): "Use it only for synchronizing execution, not data"
    (its `semaphore_device.hpp`)."""
    with pytest.raises(InputError, match="GPU 0 may end before workgroup 0 of GPU 1 has stored request 105 of its "
                                         "output: nothing tells it, as a signal without a fence says nothing of what"):
        launched(sums("rlx"), tmp_path)
    half = json.loads(json.dumps(sums()).replace('"wait"', '"rlxwait"'))
    with pytest.raises(InputError, match="GPU 0 may end before workgroup 0 of GPU 1 has stored"):
        launched(half, tmp_path)


def changed(change: Callable[[Json, Json], Any], name: str = "sums in place") -> Json:
    """A plan, of whose rank 1 the operation with a switch channel, or the entry, was changed."""
    found = copy.deepcopy(PLANS[name])
    gpu = found["gpus"][1]
    change(next(op for op in gpu["threadblocks"][0]["ops"] if op.get("channel_type") == "switch"), gpu)
    return found


FAULTS: dict[str, tuple[Json, type[InputError], str]] = {
    "some ranks": (switched(plan("allreduce", "Simple", (N, N, 0), "i", lambda *_: []), "i", [0, 2]), UnsupportedError,
                   "rank 0: a switch channel of 2 of 3 ranks; expected one of all"),
    "a rank twice": (switched(plan("allreduce", "Simple", (N, N, 0), "i", lambda *_: []), "i", [0, 1, 1]), InputError,
                     r"rank 0: a switch channel of ranks \[0, 1, 1\]; expected different ones from 0 to 2"),
    "no such buffer": (changed(lambda _, gpu: gpu["channels"][1].update(buffer_type="x")), InputError,
                       "rank 1: buffer_type 'x'; expected i, o or s"),
    "no such channel": (changed(lambda op, _: op["src_buff"][0].update(switch_channel_id=1)), InputError,
                        r"rank 1, threadblock 0, operation 3 \(glres\): switch_channel_id has 1; expected 0 to 0"),
    "out of range": (changed(lambda op, _: op["dst_buff"][0].update(index=N)), InputError,
                     "chunks 3 to 4 of buffer 'i' of all ranks; expected at least one, up to 3"),
    "of one rank": (changed(lambda op, _: op.update(src_buff=[spot("i", 0)])), InputError,
                    r"operation 3 \(glres\): a buffer without switch_channel_id; expected one with it"),
    "a put": (changed(lambda op, _: op.update(name="put")), InputError,
              r"operation 3 \(put\): channel_type 'switch'; expected memory, port"),
    "a copy of all": (changed(lambda op, _: op.update(name="copy", channel_type="none")), InputError,
                      r"operation 3 \(copy\): a buffer with switch_channel_id; expected one of this or another rank"),
    "without a switch": (changed(lambda op, _: op.update(channel_type="memory")), InputError,
                         r"operation 3 \(glres\): channel_type 'memory'; expected switch"),
    "two sums": (changed(lambda op, _: op.update(src_buff=op["src_buff"] * 2)), InputError,
                 "2 sources and 1 targets; expected 1 and 1"),
    "for one": (changed(lambda op, _: op.update(name="glre")), UnsupportedError,
                r"\(glre\): a sum that the switch makes for one GPU, which MSCCL\+\+'s executor does not have; "
                "expected glres"),
    "another's part": (changed(lambda op, _: op["src_buff"][0].update(index=0)), InputError,
                       "unordered with|ends with element"),
    "packets of the output": (changed(lambda op, _: op["src_buff"][0].update(type="o"), "packets"), InputError,
                              r"operation 1 \(gstorepkt\): packets in buffer 'o', chunk 1; expected packets in "
                              "scratch"),
    "plain in scratch": (changed(lambda op, _: op.update(name="gstore"), "packets"), UnsupportedError,
                         r"operation 1 \(gstore\): data without flags in scratch, chunk 1; expected packets alone"),
    "packets without LL": ({**PLANS["packets"], "protocol": "Simple"}, UnsupportedError,
                           r"operation 0 \(cpkt\): packets with protocol Simple; expected protocol LL"),
    "other packets": (changed(lambda op, _: op["dst_buff"][0].update(index=0), "packets"), InputError,
                      r"stores packets in buffer 'scratch' of GPU 1, unordered with|waits for ever"),
}


@pytest.mark.parametrize("what", FAULTS)
def test_faults_are_named_before_anything_runs(what: str, tmp_path: Path) -> None:
    given_plan, kind, words = FAULTS[what]
    with pytest.raises(kind, match=words):
        launched(given_plan, tmp_path)


@given(st.sampled_from(sorted(PLANS)), st.integers(0, 10_000), st.sampled_from(
    [None, -1, 0, 1, 2, 99, 1 << 40, True, "s", "glres", "switch", "memory", [], {}, [0, 1], 1.5]))
@draws(60)
def test_damaged_plans_are_refused_or_run(tmp_path_factory: pytest.TempPathFactory, name: str, where: int,
                                          what: Any) -> None:
    refused_or_ends(lambda: launched(damaged(PLANS[name], where, what), tmp_path_factory.getbasetemp(), 400))
