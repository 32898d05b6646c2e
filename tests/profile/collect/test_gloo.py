"""Steps that run here, are collected, linked and simulated: gloo on this machine."""

from __future__ import annotations

import statistics

import pytest

from astrarium.cli.replay_design import replay_design
from astrarium.compute.config import Replay
from astrarium.design import Design
from astrarium.memory.config import Memory
from astrarium.network.config import Network, Switch
from astrarium.simulate import simulate
from astrarium.system.config import System
from astrarium.trace import check, groups_of, read_node, read_traces
from astrarium.trace.counts import statistics as counted
from astrarium.vocab import CommOp, NodeKind
from astrarium.workload.config import Trace

from .ranks import run_ranks

pytest.importorskip("torch", reason='collecting needs PyTorch: pip install "astrarium[torch]"')
pytestmark = pytest.mark.exam

DDP = """
import json, os, time, torch, torch.distributed as dist
from astrarium.profile import collect
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
model = torch.nn.parallel.DistributedDataParallel(
    torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(8)]), bucket_cap_mb=2)
optimizer, x = torch.optim.SGD(model.parameters(), lr=0.01), torch.randn(64, 512)
def step():
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
for _ in range(3):
    step()
took, notes = [], []
for number in range(5):
    dist.barrier()
    with collect(f"run{number}") as recording:
        begin = time.perf_counter()
        step()
        took.append(time.perf_counter() - begin)
    notes += recording.notes
json.dump({"took": took, "notes": notes}, open(f"times.{rank}.json", "w"))
dist.destroy_process_group()
"""


def test_a_ddp_step_replays_in_the_time_it_took(tmp_path, record_property):
    """Two ranks, five steps: groups and bytes of the collectives, and makespan against time.perf_counter()."""
    told = run_ranks(DDP, tmp_path, 2)
    errors = []
    for number in range(5):
        pattern = str(tmp_path / f"run{number}" / "trace.*.et")
        traces = read_traces(pattern)
        assert groups_of(traces) == {"0": (0, 1)}
        assert not [finding for finding in check(traces) if finding.severity == "error"]
        for rank in (0, 1):
            columns, _ = traces.of(rank)
            found = counted(columns)
            # 8 layers of 512 x 512 weights and 512 biases, 4 bytes each
            assert found.collective_bytes == {"all_reduce": 8 * (512 * 512 + 512) * 4}
            assert found.metadata["kind"] == "profiled"
        assert {traces.texts[group] for columns in traces.classes for group in columns.group.ravel()} == {"0"}
        measured = max(told[rank]["took"][number] for rank in (0, 1))
        errors.append(simulate(replay_design(pattern)).makespan / 1e9 / measured - 1)
    assert told[0]["notes"] == told[1]["notes"] == []
    record_property("errors of five runs, %", [round(100 * error, 2) for error in errors])
    print("errors of five runs, %:", [round(100 * error, 2) for error in errors])
    assert max(map(abs, errors)) < 0.10
    assert abs(statistics.median(errors)) < 0.05


WIDTHS = """
import json, random, torch, torch.distributed as dist
from astrarium.profile import collect
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
for seed in range(8):
    draw = random.Random(seed)
    widths = [256] + [draw.choice([64, 128, 192, 256, 384, 512, 768, 1024]) for _ in range(8)]
    torch.manual_seed(0)
    layers = [torch.nn.Linear(first, second) for first, second in zip(widths, widths[1:])]
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=0.2)
    x = torch.randn(32, 256)
    for _ in range(3):
        model(x).square().mean().backward()
    dist.barrier()
    with collect(f"run{seed}") as recording:
        for _ in range(2):
            model(x).square().mean().backward()
            recording.step()
json.dump({}, open(f"times.{rank}.json", "w"))
dist.destroy_process_group()
"""


@pytest.mark.parametrize("streams", [1, 64])
def test_recorded_steps_run_on_a_slow_network(widths, streams):
    """Two of gloo's threads take the operations: on a slow network a later one may become ready first."""
    for pattern in widths:
        assert not [finding for finding in check(read_traces(pattern)) if finding.code == "collective_order"]
        network = Network([Switch(2, bandwidth="10 MB/s", latency="50 us")])
        design = Design(workload=Trace(pattern), compute=Replay(missing="0 ns"), memory=Memory(), network=network,
                        system=System(comm_streams=streams, cpu_threads=64))
        result = simulate(design)
        least = max(counted(columns).collective_bytes["all_reduce"] for columns in read_traces(pattern).classes) / 0.01
        assert result.makespan > least      # each rank sends and receives as many bytes as it reduces
        assert result.makespan_ps == simulate(design, pure=True).makespan_ps


@pytest.fixture(scope="module")
def widths(tmp_path_factory):
    """Eight recordings of two ranks whose buckets differ in bytes."""
    folder = tmp_path_factory.mktemp("widths")
    run_ranks(WIDTHS, folder, 2)
    return [str(folder / f"run{seed}" / "trace.*.et") for seed in range(8)]


GROUPS = """
import json, torch, torch.distributed as dist
from astrarium.profile import collect
dist.init_process_group("gloo")
rank = dist.get_rank()
pair, rest = dist.new_group([0, 2]), dist.new_group([1, 2])
x = torch.ones(1000)
with collect("run") as recording:
    dist.all_reduce(x)
    if rank in (0, 2):
        dist.all_gather([torch.empty(10), torch.empty(10)], torch.ones(10), group=pair)
    if rank in (1, 2):
        dist.broadcast(x[:50].clone(), src=1, group=rest)
    dist.send(x[:7].clone(), dst=1) if rank == 0 else dist.recv(torch.empty(7), src=0) if rank == 1 else None
    dist.barrier()
json.dump({"notes": recording.notes, "missing": recording.report.missing}, open(f"times.{rank}.json", "w"))
dist.destroy_process_group()
"""


def test_groups_and_messages(tmp_path):
    """Three ranks, two groups that overlap, and a message: each under its own group's name, with its bytes."""
    told = run_ranks(GROUPS, tmp_path, 3)
    assert ["in which group a message" in "".join(each["notes"]) for each in told] == [True, True, False]
    assert "not recorded" not in str(told)
    traces = read_traces(tmp_path / "run" / "trace.*.et")
    groups = groups_of(traces)
    assert {(0, 1, 2), (0, 2), (1, 2)} <= set(groups.values())
    got = []
    for rank in range(3):
        columns, _ = traces.of(rank)
        for node in (read_node(traces, rank, int(index)) for index in columns.comm_node):
            group, kind = node.attr("pg_name"), NodeKind(node.type)
            op = CommOp(node.attr("comm_type").value).name if kind == NodeKind.COMM_COLL else kind.name
            got.append((rank, op, node.attr("comm_size").value, groups[group.value] if group else None))
    pair, rest = (0, 2), (1, 2)
    expected = [(rank, "ALL_REDUCE", 4000, (0, 1, 2)) for rank in range(3)]
    expected += [(rank, "ALL_GATHER", 40, pair) for rank in pair] + [(rank, "BROADCAST", 200, rest) for rank in rest]
    expected += [(rank, "BARRIER", 0, (0, 1, 2)) for rank in range(3)]
    assert sorted(each for each in got if "COMM" not in each[1]) == sorted(expected)
    assert [each[:3] for each in got if "COMM" in each[1]] == [(0, "COMM_SEND", 28), (1, "COMM_RECV", 28)]


ALONE = """
import json, time, torch
from astrarium.profile import collect
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 256))
x = torch.randn(32, 256)
def step():
    model(x).sum().backward()
step()
with collect("run") as recording:
    for number in range(3):
        if number:
            recording.step()
        step()
try:
    with collect("none"):
        raise KeyError("the block's own")
except KeyError:
    pass
import os
json.dump({"left": os.listdir("none"), "files": sorted(os.listdir("run")), "measured": recording.report.measured_us,
           "replayed": recording.report.replayed_us}, open("times.0.json", "w"))
"""


def test_one_process(tmp_path):
    """No process group: steps are annotated, and a block that raises leaves nothing behind."""
    told, = run_ranks(ALONE, tmp_path, 1)
    assert told["left"] == []
    assert told["files"] == ["device.0.json", "host.0.json", "trace.0.et"]
    assert told["replayed"] == pytest.approx(told["measured"], rel=0.02)
    columns = read_traces(tmp_path / "run" / "trace").classes[0]
    assert {f"ProfilerStep#{number}" for number in range(3)} <= set(columns.names())
    assert "aten::addmm" in columns.names()
