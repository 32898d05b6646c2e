"""MSCCL++ plans are proved before they run; what is wrong is named by rank, thread block and operation."""

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
from tests.gpu.test_kernels import GPU

from astrarium.errors import InputError, UnsupportedError
from astrarium.gpu import mscclpp_launch, read_mscclpp
from astrarium.gpu.engine import Launch, run_launch

Json = dict[str, Any]
N = 3


def spot(kind: str, index: int, size: int = 1) -> Json:
    return {"type": kind, "index": index, "size": size}


def far(buffer: int, index: int, size: int = 1) -> Json:
    return {"buffer_id": buffer, "index": index, "size": size}


def data(name: str, sources: list[Json], targets: list[Json]) -> Json:
    return {"name": name, "src_buff": sources, "dst_buff": targets, "channel_type": "memory"}


def sync(name: str, channels: list[int]) -> Json:
    return {"name": name, "channel_ids": channels, "channel_type": "memory"}


def plan(coll: str, protocol: str, chunks: tuple[int, int, int], remote: str,
         ops: Callable[[int, list[int]], list[Json]], *, inplace: bool = False) -> Json:
    """A plan of one thread block per rank, with a channel to, and a buffer of, every other rank."""
    gpus = []
    for rank in range(N):
        peers = [peer for peer in range(N) if peer != rank]
        every = list(range(len(peers)))
        gpus.append({
            "id": rank, "input_chunks": chunks[0], "output_chunks": chunks[1], "scratch_chunks": chunks[2],
            "channels": [{"channel_type": "memory", "connected_to": peers}],
            "remote_buffers": [{"rank": p, "type": remote, "access_channel_types": ["memory"]} for p in peers],
            "threadblocks": [{"id": 0, "ops": ops(rank, peers),
                              "channels": [{"channel_type": "memory", "channel_ids": every}],
                              "remote_buffer_refs": [{"access_channel_type": "memory", "remote_buffer_ids": every}]}],
            "semaphores": []})
    return {"name": "a_plan", "collective": coll, "protocol": protocol, "inplace": inplace, "gpus": gpus,
            "num_threads_per_block": 256}


def gather(rank: int, peers: list[int]) -> list[Json]:
    """Put the own chunk to everyone, signal, wait."""
    puts = [data("put", [spot("i", 0)], [far(i, rank)]) for i in range(len(peers))]
    return [*puts, {"name": "nop"}, sync("signal", [0, 1]), sync("wait", [0, 1]), {"name": "nop"}]


def reduce_ll(rank: int, peers: list[int]) -> list[Json]:
    """Everyone's whole input as packets into everyone's scratch, then added up."""
    puts = [data("ppkt", [spot("i", 0, 2)], [far(i, 2 * rank, 2)]) for i in range(len(peers))]
    return [*puts, data("repkt", [spot("i", 0, 2), *(spot("s", 2 * p, 2) for p in peers)], [spot("o", 0, 2)])]


def scatter(rank: int, peers: list[int]) -> list[Json]:
    """Read everyone's part for this rank, in place, once all have begun."""
    meet = [sync("rlxsignal", [0, 1]), sync("rlxwait", [0, 1]), {"name": "nop"}]
    return [*meet, data("rre", [spot("i", rank), *(far(i, rank) for i in range(len(peers)))], [spot("o", 0)])]


GATHER = plan("allgather", "Simple", (1, N, 0), "o", gather, inplace=True)
REDUCE = plan("allreduce", "LL", (2, 2, 2 * N), "s", reduce_ll)
SCATTER = plan("reducescatter", "Simple", (N, 1, 0), "i", scatter, inplace=True)
PLANS = {"allgather": GATHER, "allreduce": REDUCE, "reducescatter": SCATTER}


def launched(given_plan: Any, folder: Path, payload: int = 40_000) -> Launch:
    path = folder / "plan.json"
    path.write_text(json.dumps(given_plan), encoding="utf-8")
    return mscclpp_launch(read_mscclpp(path), payload, GPU)


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("payload", [100, 40_000])
def test_plans_are_proved_and_run(name: str, payload: int, tmp_path: Path) -> None:
    launch = launched(PLANS[name], tmp_path, payload)
    ran = run_launch(launch)
    moved = sum(op.size * sum(place.peer > 0 for place in (*op.sources, *op.targets))
                for grid in launch.grids for group in grid for op in group.operations)
    assert ran.makespan > 0
    assert ran.port_packets[:, :, 0].sum() == moved * (2 if name == "allreduce" else 1)


def test_a_barrier_joins_thread_blocks(tmp_path: Path) -> None:
    two = copy.deepcopy(GATHER)
    for gpu in two["gpus"]:
        block = gpu["threadblocks"][0]
        barrier = {"name": "barrier", "barrier_id": 0, "num_threadblocks": 2}
        puts, rest = block["ops"][:2], block["ops"][2:]
        gpu["threadblocks"] = [{**block, "id": 0, "ops": [*puts, barrier]}, {**block, "id": 1, "ops": [barrier, *rest]}]
    assert run_launch(launched(two, tmp_path)).makespan > run_launch(launched(GATHER, tmp_path)).makespan
    for gpu in two["gpus"]:
        gpu["threadblocks"][0]["ops"].pop()     # one block does not come
    with pytest.raises(InputError, match=r"rank 0, threadblock 1, operation 0 \(barrier\) waits for ever for semaphore "
                                         "'barrier 0, round 0' to be 2; it ends at 1"):
        launched(two, tmp_path)


def test_a_group_of_thread_blocks_shares_an_operation(tmp_path: Path) -> None:
    shared = copy.deepcopy(REDUCE)
    for gpu in shared["gpus"]:
        block = gpu["threadblocks"][0]
        gpu["threadblocks"] = [{**block, "id": part, "ops": [
            {**op, "tbg_info": {"tb_id": part, "tbg_size": 2}} for op in block["ops"]]} for part in range(2)]
    alone, two = (run_launch(launched(each, tmp_path)) for each in (REDUCE, shared))
    assert two.total_requests == alone.total_requests
    assert two.makespan < alone.makespan


def test_semaphores_inside_a_gpu_join_thread_blocks(tmp_path: Path) -> None:
    """One block puts, the other one signals when it may."""
    two = copy.deepcopy(GATHER)
    for gpu in two["gpus"]:
        block = gpu["threadblocks"][0]
        puts, rest = block["ops"][:2], block["ops"][3:]
        gpu["semaphores"] = [{"init_value": 0}, {"init_value": 1}]
        first, free = ({"name": name, "semaphore_ids": [at]} for name, at in (("sem_release", 0), ("sem_acquire", 1)))
        nop, acquire = {"name": "nop"}, {"name": "sem_acquire", "semaphore_ids": [0]}
        gpu["threadblocks"] = [{**block, "id": 0, "ops": [free, nop, *puts, nop, first]},
                               {**block, "id": 1, "ops": [acquire, nop, *rest]}]
    kinds = [op.kind.name for op in launched(two, tmp_path).grids[0][1].operations]
    assert kinds == ["ACQUIRE", "RELEASE", "RELEASE", "ACQUIRE"]
    assert run_launch(launched(two, tmp_path)).makespan > run_launch(launched(GATHER, tmp_path)).makespan
    early = copy.deepcopy(two)
    early["gpus"][0]["semaphores"][0]["init_value"] = 1         # signals before all is put
    with pytest.raises(InputError, match="may end before workgroup 0 of GPU 0 has stored"):
        launched(early, tmp_path)
    for gpu in two["gpus"]:
        gpu["threadblocks"][0]["ops"].pop()
    with pytest.raises(InputError, match=r"rank 0, threadblock 1, operation 0 \(sem_acquire\) waits for ever for "
                                         "semaphore '0 inside the GPU' to be 1; it ends at 0"):
        launched(two, tmp_path)
    for gpu in two["gpus"]:
        gpu["threadblocks"][0]["ops"].append({"name": "sem_acquire", "semaphore_ids": [0]})
    with pytest.raises(UnsupportedError, match=r"operation 0 \(sem_acquire\): semaphore 0, as in threadblock 0"):
        launched(two, tmp_path)
    two["gpus"][0]["threadblocks"][0]["ops"][-1]["semaphore_ids"] = [2]
    with pytest.raises(InputError, match="semaphore_ids has 2; expected 0 to 1"):
        launched(two, tmp_path)


def broken(change: Callable[[list[Json], Json], Any], of: Json = GATHER) -> Json:
    """A plan, of whose rank 1 something was changed: its operations, or its entry."""
    found = copy.deepcopy(of)
    change(found["gpus"][1]["threadblocks"][0]["ops"], found["gpus"][1])
    return found


FAULTS: dict[str, tuple[Json, str]] = {
    "unknown opcode": (broken(lambda ops, _: ops[0].update(name="putt")),
                       r"rank 1, threadblock 0, operation 0 \(putt\): is not known; .*did you mean 'put'"),
    "chunk out of range": (broken(lambda ops, _: ops[1]["dst_buff"][0].update(index=N)),
                           r"rank 1, threadblock 0, operation 1 \(put\): chunks 3 to 4 of buffer 'o' of rank 2; "
                           "expected at least one, up to 3"),
    "no such buffer": (broken(lambda ops, _: ops[0]["dst_buff"][0].update(buffer_id=7)),
                       "buffer_id has 7; expected 0 to 1"),
    "no such channel": (broken(lambda ops, _: ops[3]["channel_ids"].append(2)),
                        r"operation 3 \(signal\): channel_ids has 2"),
    "a signal too few": (broken(lambda ops, _: ops[3]["channel_ids"].pop(0)),
                         r"rank 0, threadblock 0, operation 4 \(wait\): channel 0 gets 0 signals and 1 waits"),
    "nobody waits": (broken(lambda ops, _: ops.pop(4)), "rank 1, channel [01]: gets 1 signals and no wait"),
    "a circle": (broken(lambda ops, _: ops.insert(0, ops.pop(4)), broken(lambda ops, _: None, {
        **GATHER, "gpus": [{**gpu, "threadblocks": [{**gpu["threadblocks"][0], "ops": [
            gpu["threadblocks"][0]["ops"][4], *gpu["threadblocks"][0]["ops"][:4]]}]} for gpu in GATHER["gpus"]]})),
        r"rank 0, threadblock 0, operation 0 \(wait\) waits for ever"),
    "a put is missing": (broken(lambda ops, _: ops.pop(0)), "request 105 of the output of GPU 0 ends with nothing"),
    "sizes differ": (broken(lambda ops, _: ops[0]["src_buff"][0].update(size=2)),
                     "chunks 0 to 2 of buffer 'i' of rank 1"),
    "no such part": (broken(lambda ops, _: ops[0].update(tbg_info={"tb_id": 2, "tbg_size": 2})),
                     "part 2 of 2; expected less than tbg_size"),
    "other chunks": (broken(lambda _, gpu: gpu.update(input_chunks=2)),
                     "rank 1: 2 input and 3 output chunks; expected 1 and 3, above 0, for all_gather"),
    "no name": (broken(lambda ops, _: ops[0].pop("name")), "operation 0: name is 'None'; expected text"),
    "a channel to nobody": (broken(lambda _, gpu: gpu["channels"][0]["connected_to"].append(9)), "a channel to rank 9"),
    "one way": (broken(lambda _, gpu: gpu["channels"][0]["connected_to"].pop()), "channel_ids has 1; expected 0 to 0"),
}


@pytest.mark.parametrize("what", FAULTS)
def test_faults_are_named_before_anything_runs(what: str, tmp_path: Path) -> None:
    given_plan, words = FAULTS[what]
    with pytest.raises(InputError, match=words):
        launched(given_plan, tmp_path)


@pytest.mark.parametrize(("change", "words"), [
    (lambda ops, _: ops[0].update(name="pipeline"), r"operation 0 \(pipeline\): a pipeline"),
    (lambda ops, _: ops[0].update(name="ppkt"), r"operation 0 \(ppkt\): packets with protocol Simple; expected"),
])
def test_what_is_beyond_the_model_is_refused(change: Callable[[list[Json], Json], Any], words: str,
                                             tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=words):
        launched(broken(change), tmp_path)


def places(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where a document has values."""
    inside = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [path, *(found for key, value in inside for found in places(value, (*path, key)))]


def damaged(document: Any, where: int, what: Any) -> Any:
    """A copy in which `what` stands at one of its places."""
    copied = copy.deepcopy(document)
    spots = places(copied)[1:]
    *way, last = spots[where % len(spots)]
    holder: Any = copied
    for key in way:
        holder = holder[key]
    holder[last] = what
    return copied


def refused_or_ends(make: Callable[[], Launch]) -> None:
    """A damaged plan is an error of ours, or a launch that is proved and ends."""
    try:
        launch = make()
    except InputError:
        return
    assert run_launch(launch).makespan > 0


@given(st.sampled_from(sorted(PLANS)), st.integers(0, 10_000), st.sampled_from(
    [None, -1, 0, 1, 2, 99, 1 << 40, True, "s", "wait", "port", [], {}, 1.5]))
@draws(100)
def test_damaged_plans_are_refused_or_run(tmp_path_factory: pytest.TempPathFactory, name: str, where: int,
                                          what: Any) -> None:
    refused_or_ends(lambda: launched(damaged(PLANS[name], where, what), tmp_path_factory.getbasetemp(), 400))
