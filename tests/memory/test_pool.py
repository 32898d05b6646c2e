"""Pools behind switches: the closed form against chunks in queues, what must always hold, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import astrarium as ar
from astrarium.config import decode
from astrarium.memory.config import PoolLevel
from astrarium.memory.pool import crossed, pool_ns
from astrarium.trace.build import TraceBuilder
from astrarium.vocab import CommOp

LEVELS = (PoolLevel("memory side", 1, "100 GB/s", links=256), PoolLevel("node", 16, "256 GB/s", links=2),
          PoolLevel("npu", 256, "256 GB/s"))


def pool(**given: Any) -> ar.Remote:
    """256 groups of 100 GB/s; two out-of-node switches, 16 nodes of 16 NPUs."""
    return ar.Remote(**{"kind": "pool", "bandwidth": "100 GB/s", "groups": 256, "chunk": "1 MB", "levels": LEVELS,
                        **given})


def test_private_loads_by_hand() -> None:
    """256 NPUs x 64 MB over 256 groups: 64 chunks of 1 MB each; stages 10, 10, 31.25 and 3.90625 us."""
    stages = [1e6 / 100, 256e6 / 25600, 16e6 / 512, 1e6 / 256]
    assert float(pool_ns(pool(), 64e6)) == pytest.approx(sum(stages) + 63 * max(stages), rel=1e-12)
    assert float(pool_ns(pool(latency="2 us"), 64e6)) == pytest.approx(2000 + sum(stages) + 63 * max(stages), rel=1e-12)


def test_gathered_loads_by_hand() -> None:
    """A tensor of 1,024 MB that all 256 load: the groups send it once (4 MB each), every level's ends get all of it."""
    stages = [1e6 / 100, 256e6 / 25600, 256e6 / 512, 256e6 / 256]
    assert float(pool_ns(pool(), 1024e6, 256)) == pytest.approx(sum(stages) + 3 * max(stages), rel=1e-12)


@pytest.mark.parametrize(("node", "npu", "sizes"), [
    (True, True, (1 / 256, 1, 1, 1)), (False, True, (16 / 256, 16, 1, 1)),
    (True, False, (1 / 256, 1, 16, 1)), (False, False, (1, 256, 16, 1))])
def test_who_copies(node: bool, npu: bool, sizes: tuple[float, ...]) -> None:
    """Per byte of an NPU, all of which load the same: what a group, the memory side, a node and an NPU move."""
    levels = (LEVELS[0], PoolLevel("node", 16, "256 GB/s", links=2, gathers=node),
              PoolLevel("npu", 256, "256 GB/s", gathers=npu))
    assert tuple(each.size for each in crossed(pool(levels=levels), 256)) == sizes


def test_experts_that_few_share() -> None:
    """Of 256 NPUs 2 share a tensor, as far apart as can be: 128 different ones, 16 of them in every node."""
    assert [each.size for each in crossed(pool(), 2)] == [0.5, 128, 16, 1]


@st.composite
def pools(draw: st.DrawFn) -> tuple[ar.Remote, int]:
    """A pool, and how many NPUs share."""
    ends = [1]
    for _ in range(draw(st.integers(1, 3))):
        ends.append(ends[-1] * draw(st.sampled_from([1, 2, 3, 4, 8])))
    levels = [PoolLevel(str(number), each, f"{draw(st.integers(1, 1000))} GB/s", links=draw(st.integers(1, 4)),
                        gathers=draw(st.booleans())) for number, each in enumerate(ends[1:])]
    sharers = draw(st.sampled_from([n for n in range(1, ends[-1] + 1) if ends[-1] % n == 0]))
    made = pool(groups=draw(st.integers(1, 64)), bandwidth=f"{draw(st.integers(1, 500))} GB/s",
                chunk=f"{draw(st.integers(1, 2000))} kB", levels=levels)
    return made, sharers


def queues(times: list[float], chunks: int) -> float:
    """Rival: chunk after chunk through servers in a row, each of which serves one at a time, in order."""
    free = [0.0] * len(times)
    for _ in range(chunks):
        at = 0.0
        for place, time in enumerate(times):
            free[place] = at = max(at, free[place]) + time
    return at


@given(pools(), st.integers(1, 10**7))
def test_as_chunks_in_queues(drawn: tuple[ar.Remote, int], size: int) -> None:
    remote, sharers = drawn
    levels = crossed(remote, sharers)
    chunks = max(1, -int(-size * levels[0].size // float(remote.chunk or 1)))
    times = [size * level.size / level.rate / chunks for level in levels]
    assert float(pool_ns(remote, size, sharers)) == pytest.approx(queues(times, chunks), rel=1e-9)


@given(pools(), st.floats(1, 1e12))
def test_never_more_than_the_bandwidth(drawn: tuple[ar.Remote, int], size: float) -> None:
    """What every group and every link moves, over the time, is at most its bandwidth; sharing never slows down."""
    remote, sharers = drawn
    time = float(pool_ns(remote, size, sharers))
    for level in crossed(remote, sharers):
        assert size * level.size <= level.rate * time * (1 + 1e-9)
    assert crossed(remote, sharers)[0].size <= crossed(remote)[0].size
    assert float(pool_ns(remote, 2 * size, sharers)) >= time
    assert max(size * level.size / level.rate for level in crossed(remote, sharers)) <= max(
        size * level.size / level.rate for level in crossed(remote)) * (1 + 1e-9)


@pytest.mark.parametrize(("change", "message"), [
    ({"groups": 0}, r"Remote.groups"), ({"groups": None}, r"Remote.groups: is missing"),
    ({"chunk": None}, r"Remote.chunk: is missing"), ({"levels": ()}, r"Remote.levels: is missing"),
    ({"bandwidth": None}, r"Remote.bandwidth: is missing"), ({"kind": "per_npu"}, r"Remote.groups: has no effect"),
    ({"levels": (LEVELS[1], PoolLevel("npu", 24, "1 GB/s"))}, r"Remote.levels\[1\].ends: 24 is not divided by the 16")])
def test_what_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ar.InputError, match=message):
        pool(**change)


def test_a_level_needs_its_bandwidth() -> None:
    with pytest.raises(ar.InputError, match=r"remote.levels\[0\].bandwidth: is missing"):
        decode(ar.Memory, {"remote": {"kind": "pool", "bandwidth": "1 GB/s", "groups": 1, "chunk": "1 MB",
                                      "levels": [{"name": "npu", "ends": 8}]}})


def small(**given: Any) -> ar.Memory:
    """8 NPUs in 2 nodes, 4 groups."""
    levels = (PoolLevel("node", 2, "40 GB/s"), PoolLevel("npu", 8, "20 GB/s"))
    return ar.Memory(remote=pool(groups=4, bandwidth="10 GB/s", levels=levels, **given))


def design(folder: Path, memory: ar.Memory, compat: str = "none", npus: int = 8) -> ar.Design:
    """A private load of 1 MB, a gathered one of 8 MB behind it, and a store that sums 8 MB."""
    made = TraceBuilder()
    first = made.memory("private", 10**6)
    second = made.memory("gathered", 8 * 10**6, after=[first], comm_type=int(CommOp.ALL_GATHER), comm_size=10**6)
    made.memory("summed", 8 * 10**6, store=True, after=[second], comm_type=int(CommOp.REDUCE_SCATTER), comm_size=10**6)
    made.write(folder / "one.0.et")
    return ar.Design(workload=ar.Trace(str(folder / "one.*.et"), rank=0), memory=memory, compat=compat,
                     network=ar.Network([ar.Switch(npus, bandwidth="1 GB/s", latency="0 ns")]))


@pytest.mark.parametrize("fold", ["auto", "off"])
def test_a_run_takes_the_times_of_the_pool(tmp_path: Path, fold: str) -> None:
    memory = small()
    one = float(pool_ns(memory.remote, 10**6)) + 2 * float(pool_ns(memory.remote, 8 * 10**6, 8))
    result = ar.simulate(design(tmp_path, memory), fold=fold)
    assert result.makespan_ps == pytest.approx(one * 1000, abs=3)
    assert int(result.ranks.exposed_memory.min()) == result.makespan_ps


@pytest.mark.parametrize(("memory", "compat", "npus", "message"), [
    (ar.Memory(remote=ar.Remote("per_npu", bandwidth="1 GB/s")), "none", 8, "has no switches"),
    (small(), "astra_sim", 8, r"memory.remote.levels: .* under compat: astra_sim"),
    (small(), "none", 4, r"memory.remote.levels\[1\].ends: 8 at the last level.*4, the NPUs of the network")])
def test_what_a_run_refuses(tmp_path: Path, memory: ar.Memory, compat: str, npus: int, message: str) -> None:
    with pytest.raises(ar.InputError, match=message):
        ar.simulate(design(tmp_path, memory, compat, npus))


def test_one_access_at_a_time(tmp_path: Path) -> None:
    """Or an NPU would take more than its share: also where the host asks, and with several copy streams."""
    memory = small()
    plan = design(tmp_path, memory)
    made = TraceBuilder()
    made.memory("one", 10**6)
    made.memory("other", 10**6, is_cpu_op=True)
    made.write(tmp_path / "one.0.et")
    assert ar.simulate(plan).makespan_ps == pytest.approx(2000 * float(pool_ns(memory.remote, 10**6)), abs=2)
    with pytest.raises(ar.InputError, match=r"system.copy_streams: 2, with a pool that has levels"):
        ar.replace(plan, "system.copy_streams", 2)


@pytest.mark.parametrize("memory", [small(), ar.Memory(remote=ar.Remote("per_npu", bandwidth="1 GB/s"))])
@pytest.mark.parametrize("fold", ["auto", "off"])
def test_over_the_network_accesses_and_collectives_take_turns(tmp_path: Path, memory: ar.Memory, fold: str) -> None:
    def makespan(over: str, *names: str) -> int:
        made = TraceBuilder()
        if "load" in names:
            made.memory("load", 10**6)
        if "sum" in names:
            made.coll("sum", CommOp.ALL_REDUCE, 10**6)
        made.write(tmp_path / "one.0.et")
        return ar.simulate(ar.replace(plan, "memory.remote.over", over), fold=fold).makespan_ps

    plan = ar.Design(workload=ar.Trace(str(tmp_path / "one.*.et"), rank=0), memory=memory,
                     network=ar.Network([ar.Switch(8, bandwidth="1 GB/s", latency="0 ns")]))
    load, reduction = makespan("own", "load"), makespan("own", "sum")
    assert makespan("own", "load", "sum") == max(load, reduction)
    assert makespan("network", "load", "sum") == load + reduction
    with pytest.raises(ar.InputError, match=r"system.comm_streams: 2, with memory.remote.over: network"):
        ar.replace_all(plan, {"memory.remote.over": "network", "system.comm_streams": 2})


def test_over_nothing() -> None:
    with pytest.raises(ar.InputError, match=r"Remote.over: has no effect with kind: none"):
        ar.Remote(over="network")


@pytest.mark.parametrize(("size", "part", "message"), [(10**6, 3 * 10**5, "shared in parts of 300000"),
                                                       (3 * 10**6, 10**6, "3 NPUs share a tensor, of 8")])
def test_parts_that_do_not_divide(tmp_path: Path, size: int, part: int, message: str) -> None:
    plan = design(tmp_path, small())
    made = TraceBuilder()
    made.memory("gathered", size, comm_type=int(CommOp.ALL_GATHER), comm_size=part)
    made.write(tmp_path / "one.0.et")
    with pytest.raises(ar.InputError, match=message):
        ar.simulate(plan)
