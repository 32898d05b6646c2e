"""all_to_alls whose ranks exchange unequal amounts, from Kineto and from host traces to a simulated network."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import astrarium as ar
from astrarium.compute.config import Replay
from astrarium.design import Design
from astrarium.memory.config import Memory
from astrarium.network.config import Network, Switch
from astrarium.profile.link import Linked, link, write_linked
from astrarium.system.config import System
from astrarium.trace import check, read_traces
from astrarium.workload.config import Trace

from .machine import Json, node
from .paired import event, kernel

ROW = 1024      # bytes
KERNEL = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
Splits = tuple[list[int], list[int]]


def kineto(folder: Path, rank: int, splits: Splits) -> Linked:
    """NCCL: Kineto has rows and elements of the whole."""
    elements = [sum(rows) * ROW // 2 for rows in splits]
    said = {"Collective_name": "all_to_allv", "In_msg_nelems": elements[0], "Out_msg_nelems": elements[1],
            "In_split_size": str(splits[0]), "Out_split_size": str(splits[1]), "Group_size": len(splits[0]),
            "Process_Group_Name": "5", "Process_Group_Ranks": str(list(range(len(splits[0]))))}
    events = [event("cpu_op", "record_param_comms", 0, 4, dtype="BFloat16", **said),
              event("cuda_runtime", "cudaLaunchKernelExC", 1, 2, correlation=3),
              kernel(KERNEL, 4, 500, 3, dtype="BFloat16", **said)]
    path = folder / f"device.{rank}.json"
    job = {"rank": rank, "world_size": len(splits[0])}
    path.write_text(json.dumps({"traceEvents": events, "distributedInfo": job}))
    return link(None, path)


def tensor(rows: int) -> Json:
    return [1, 2, 0, rows * ROW // 2, 2, "cuda:0"]


def nccl_host(folder: Path, rank: int, splits: Splits) -> Linked:
    """Without a device trace: `record_param_comms` has rows, and the tensor."""
    given = [[tensor(sum(splits[0]))], 7, ["0", "default_pg"], rank, "all_to_allv", *splits, 0, 1, len(splits[0])]
    return host(folder, rank, node(2, "record_param_comms", 1, 5, given))


def gloo_host(folder: Path, rank: int, splits: Splits) -> Linked:
    """`c10d::alltoall_base_` has the tensor and the rows that it gets first."""
    given = [tensor(sum(splits[1])), tensor(sum(splits[0])), "", splits[1], splits[0], True, -1]
    return host(folder, rank, node(2, "c10d::alltoall_base_", 1, 5, given))


def gloo(folder: Path, rank: int, splits: Splits) -> Linked:
    """Both traces; gloo's own operator runs on another thread, and is called by nobody there."""
    given = [tensor(sum(splits[1])), tensor(sum(splits[0])), "", splits[1], splits[0], True, -1]
    made = [node(2, "c10d::alltoall_base_", 1, 5, given), node(3, "gloo:all_to_all", 1, 6, [given[1]], tid=2)]
    path = folder / f"device.{rank}.json"
    path.write_text(json.dumps({"traceEvents": [
        event("cpu_op", "c10d::alltoall_base_", 0, 4, Record_function_id=5),
        event("cpu_op", "gloo:all_to_all", 4, 500, tid=2, Record_function_id=6)]}))
    return host(folder, rank, *made, device=path)


def host(folder: Path, rank: int, *made: Json, device: Path | None = None) -> Linked:
    path = folder / f"host.{rank}.json"
    path.write_text(json.dumps({"schema": "1.0.2-chakra.0.0.4", "nodes": [node(1, "root", 1, 0), *made]}))
    return link(path, device, rank=rank)


Make = Callable[[Path, int, Splits], Linked]


def step(folder: Path, make: Make, rows: list[list[int]]) -> tuple[float, list[Linked]]:
    """us that the exchange takes at 1 GB/s, `rows[i][j]` from i to j; and what was linked."""
    found = [make(folder, rank, (row, [other[rank] for other in rows])) for rank, row in enumerate(rows)]
    for each in found:
        write_linked(folder / "w", each)
    result = ar.simulate(Design(
        workload=Trace(f"{folder / 'w'}.*.et", starts="together"), compute=Replay(missing="0 ns"), memory=Memory(),
        system=System(p2p_streams=64, comm_streams=64),
        network=Network([Switch(len(rows), bandwidth="1.024 GB/s", latency="0 ns")])))
    return float(result.exposed_comm) / 1000, found


@pytest.mark.parametrize("make", [kineto, nccl_host, gloo_host, gloo])
def test_each_rank_gets_what_it_was_sent(tmp_path: Path, make: Make) -> None:
    """Rank p gets 100 (p + 1) rows from each: the last one 1,200 from the others, at one row a us. Taken as even they
    took 750."""
    took, found = step(tmp_path, make, [[100, 200, 300, 400]] * 4)
    assert took == pytest.approx(1200, rel=0.01)
    assert found[0].report.communications == {"recv": 3, "send": 3}
    assert "1 all_to_alls of unequal parts (written as messages)" in found[0].report.missing
    traces = read_traces([tmp_path / f"w.{rank}.et" for rank in range(4)])
    assert not [each for each in check(traces) if each.severity == "error"]


@pytest.mark.parametrize("make", [kineto, nccl_host, gloo_host])
@pytest.mark.parametrize(("rows", "us"), [
    ([[0 if peer == rank else 100 for peer in range(4)] for rank in range(4)], 300),
    ([[0, 100, 100], [100, 0, 200], [100, 50, 0]], 300)])
def test_ranks_whose_own_parts_are_equal(tmp_path: Path, make: Make, rows: list[list[int]], us: float) -> None:
    """Whether those of others are, they cannot know: stated parts are messages on every rank."""
    assert step(tmp_path, make, rows)[0] == pytest.approx(us, rel=0.01)


@pytest.mark.parametrize("make", [nccl_host, gloo_host])
def test_a_rank_that_exchanges_nothing(tmp_path: Path, make: Make) -> None:
    took, found = step(tmp_path, make, [[0, 0, 0], [0, 0, 200], [0, 50, 0]])
    assert [each.report.communications for each in found] == [{}, *[{"recv": 1, "send": 1}] * 2]
    assert took == pytest.approx(200, rel=0.01)


def test_a_rank_that_gets_nothing(tmp_path: Path) -> None:
    took, found = step(tmp_path, kineto, [[0, 100, 0], [0, 0, 0], [0, 50, 0]])
    assert [each.report.communications for each in found] == [{"send": 1}, {"recv": 2}, {"send": 1}]
    assert took == pytest.approx(150, rel=0.01)


def test_ranks_that_are_not_known_leave_it_even(tmp_path: Path) -> None:
    """A list that Kineto has cut short says only that something was there."""
    found = kineto(tmp_path, 9, ([100, 200], [100, 200])).report
    assert found.communications == {"all_to_all": 1}
    assert any("taken as even" in line for line in found.missing)
