"""Port channels of MSCCL++ plans: proxies that take their latency, and what is wrong with them."""

from __future__ import annotations

import copy
import json
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.draws import draws
from tests.gpu.test_kernels import GPU
from tests.gpu.test_mscclpp import Json, damaged, data, far, plan, refused_or_ends, spot, sync

from astrarium.errors import InputError, UnsupportedError
from astrarium.gpu import mscclpp_launch, read_mscclpp
from astrarium.gpu.engine import Launch, run_launch
from astrarium.units import Time

N = 3
PORTS = replace(GPU, proxy_latency=Time("3 us"))


def on_ports(made: Json) -> Json:
    """The plan with port channels in place of memory channels."""
    return json.loads(json.dumps(made).replace('"memory"', '"port"'))   # type: ignore[no-any-return]


def put(name: str, index: int, channel: int, buffer: int = 0) -> Json:
    return {**data(name, [spot("i", 0)], [far(channel, index)]), "channel_ids": [channel]}


def gather(*how: str) -> Json:
    """all_gather in place: put to everyone, signal, flush as `how` says, wait."""
    def ops(rank: int, peers: list[int]) -> list[Json]:
        puts = [put(how[0], rank, at) for at in range(len(peers))]
        return [*puts, *(sync(name, [0, 1]) for name in how[1:]), sync("wait", [0, 1]), {"name": "nop"}]

    return on_ports(plan("allgather", "Simple", (1, N, 0), "o", ops, inplace=True))


def packets(rank: int, peers: list[int]) -> list[Json]:
    """Make packets of the input, have them put into everyone's scratch, unpack."""
    makes = {"name": "cpkt", "src_buff": [spot("i", 0)], "dst_buff": [spot("s", rank)]}
    sends = {**data("rppkt", [spot("s", rank)], [far(at, rank) for at in range(len(peers))]), "channel_ids": [0, 1]}
    keeps = {"name": "copy", "src_buff": [spot("i", 0)], "dst_buff": [spot("o", rank)]}
    return [makes, sends, keeps,
            *({"name": "upkt", "src_buff": [spot("s", p)], "dst_buff": [spot("o", p)]} for p in peers)]


def launched(given_plan: Any, folder: Path, payload: int = 4_000, gpu: Any = PORTS) -> Launch:
    path = folder / "plan.json"
    path.write_text(json.dumps(given_plan), encoding="utf-8")
    return mscclpp_launch(read_mscclpp(path), payload, gpu)


def time(made: Any, folder: Path, gpu: Any = PORTS) -> int:
    return run_launch(launched(made, folder, gpu=gpu)).makespan


PLANS = {"put, signal": gather("put", "signal"), "put, signal, flush": gather("put", "signal", "flush"),
         "pws": gather("pws"), "pwsf": gather("pwsf"), "put, flush, signal": gather("put", "flush", "signal"),
         "packets": on_ports(plan("allgather", "LL", (1, N, N), "s", packets))}


@pytest.mark.parametrize("name", PLANS)
def test_plans_on_ports_are_proved_and_move_their_bytes(name: str, tmp_path: Path) -> None:
    launch = launched(PLANS[name], tmp_path)
    assert [len(grid) for grid in launch.grids] == [3, 3, 3]       # a thread block and its two proxies
    lines = -(-4000 // (N * 128)) * (2 if name == "packets" else 1)
    assert run_launch(launch).port_packets[:, :, 0].sum() == N * (N - 1) * lines
    assert run_launch(launch).makespan == run_launch(launch, pure=True).makespan


def test_a_request_takes_the_proxys_latency(tmp_path: Path) -> None:
    """Requests on one channel come one after the other: two for put and signal, one for both at once. Who waits for a
    flush asks the next proxy later."""
    slow = replace(GPU, proxy_latency=Time("13 us"))
    for name, requests in (("put, signal", 2), ("pws", 1), ("pwsf", 2), ("put, flush, signal", 3), ("packets", 1)):
        assert time(PLANS[name], tmp_path, slow) - time(PLANS[name], tmp_path) == requests * 10_000_000, name


def test_a_flush_waits_for_the_proxy_and_no_flush_does_not(tmp_path: Path) -> None:
    both = {name: time(PLANS[name], tmp_path) for name in ("pws", "pwsf")}
    assert both["pws"] <= both["pwsf"]


def broken(change: Callable[[list[Json], Json], Any], of: Json) -> Json:
    found = copy.deepcopy(of)
    change(found["gpus"][1]["threadblocks"][0]["ops"], found["gpus"][1])
    return found


PUT, PWS = PLANS["put, signal"], PLANS["pws"]
FAULTS: dict[str, tuple[Json, str]] = {
    "no signal": (broken(lambda ops, _: ops.pop(2), PUT),
                  r"rank 0, threadblock 0, operation 3 \(wait\): port channel 0 gets 0 signals and 1 waits"),
    "no wait": (broken(lambda ops, _: ops.pop(3), PUT), "rank 1, port channel [01]: gets 1 signals and no wait"),
    "no such channel": (broken(lambda ops, _: ops[0].update(channel_ids=[2]), PUT),
                        r"rank 1, threadblock 0, operation 0 \(put\): channel_ids has 2; expected 0 to 1"),
    "no channel": (broken(lambda ops, _: ops[0].update(channel_ids=[]), PUT), "0 channel_ids for 1 targets"),
    "a sum": (broken(lambda ops, _: ops[0].update(name="re"), PUT), "channel_type 'port'; expected memory"),
    "a flush of memory": (broken(lambda ops, _: ops.insert(0, {"name": "flush", "channel_type": "memory"}), PUT),
                          r"operation 0 \(flush\): channel_type 'memory'; expected port"),
    "signalled before it is put": (broken(lambda ops, _: ops.insert(0, ops.pop(2)), PUT),
                                   "may end before workgroup . of GPU 1 has stored|unordered|nothing is yet"),
    "a circle": ({**PUT, "gpus": [{**gpu, "threadblocks": [{**gpu["threadblocks"][0], "ops": [
        gpu["threadblocks"][0]["ops"][3], *gpu["threadblocks"][0]["ops"][:3]]}]} for gpu in PUT["gpus"]]},
        r"rank 0, threadblock 0, operation 0 \(wait\) waits for ever"),
    "one way": (broken(lambda _, gpu: gpu["channels"][0]["connected_to"].pop(), PWS), "channel_ids has 1"),
}


@pytest.mark.parametrize("what", FAULTS)
def test_faults_are_named_before_anything_runs(what: str, tmp_path: Path) -> None:
    given_plan, words = FAULTS[what]
    with pytest.raises(InputError, match=words):
        launched(given_plan, tmp_path)


def test_what_cannot_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"operation 0 \(put\) on a port channel; expected a GPU with proxy_lat"):
        launched(PUT, tmp_path, gpu=GPU)
    with pytest.raises(UnsupportedError, match="1 thread blocks and 2 proxies of port channels; expected at most 2"):
        launched(PUT, tmp_path, gpu=replace(PORTS, units=1))


@pytest.mark.parametrize("text", [
    "[" * 100_000, '{"name": ' * 50_000, "", "\x00", '{"gpus": [' + '{"id": 0},' * 9 + "]}",
    '{"name": "a", "collective": "allgather", "protocol": "LL", "gpus": [1e400]}'])
def test_deep_and_odd_files_are_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(text, encoding="utf-8")
    with pytest.raises(InputError):
        read_mscclpp(tmp_path / "a.json")


def test_huge_files_and_numbers_cost_no_memory(tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with (tmp_path / "a.json").open("wb") as file:
        file.truncate(4 << 30)
    with pytest.raises(InputError, match="bytes; expected at most"):
        read_mscclpp(tmp_path / "a.json")
    huge = copy.deepcopy(PUT)
    for gpu in huge["gpus"]:
        gpu.update(scratch_chunks=(1 << 31) - 1)
    with pytest.raises(InputError, match="requests in all buffers"):
        launched(huge, tmp_path)
    with pytest.raises(InputError, match="requests in all buffers"):
        launched(PUT, tmp_path, 1 << 60)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10


@given(st.sampled_from(sorted(PLANS)), st.integers(0, 10_000), st.sampled_from(
    [None, -1, 0, 1, 2, 99, 1 << 40, True, "s", "wait", "memory", "flush", "pwsf", [], [0], {}, 1.5]))
@draws(100)
def test_damaged_plans_are_refused_or_run(tmp_path_factory: pytest.TempPathFactory, name: str, where: int,
                                          what: Any) -> None:
    refused_or_ends(lambda: launched(damaged(PLANS[name], where, what), tmp_path_factory.getbasetemp(), 400))
