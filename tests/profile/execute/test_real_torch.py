"""Recorded steps that run again with PyTorch: on the CPU, on gloo with two ranks, on a GPU where there is one."""

from __future__ import annotations

import collections
import json
import math
import subprocess
import sys

import pytest

from astrarium.cli.dispatch import dispatch
from astrarium.errors import InputError
from astrarium.profile.collector import collect
from astrarium.trace import read_traces, traces_of_bytes

from .recordings import ADD, MM, Recorded, astrarium, tensor

torch = pytest.importorskip("torch", reason='replaying operators needs PyTorch: pip install "astrarium[torch]"')

from astrarium.profile.execute import joined_group  # noqa: E402
from astrarium.profile.execute.real import plan_of, replay_operators  # noqa: E402
from astrarium.profile.execute.real.runner import Runner  # noqa: E402

GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch finds no GPU here")


def recorded_step(folder, device="cpu", width=64):
    """A training step of a small decoder, recorded and linked; and what a dispatch mode sees of it."""
    torch.manual_seed(0)
    norm, product = torch.nn.LayerNorm(width).to(device), torch.nn.Linear(width, 3 * width).to(device)
    words = torch.nn.Embedding(500, width).to(device)
    optimizer = torch.optim.AdamW([*norm.parameters(), *product.parameters(), *words.parameters()])
    tokens = torch.randint(0, 500, (2, 33), device=device)

    def step():
        x = words(tokens[:, :-1])
        q, k, v = product(norm(x)).view(2, 32, 3, 4, width // 4).permute(2, 0, 3, 1, 4)
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        logits = (x + y.transpose(1, 2).reshape(2, 32, width)) @ words.weight.t()
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()

    step()
    with collect(folder) as recording:
        step()
    seen = collections.Counter()

    class Seen(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen[str(func).removesuffix(".default")] += 1
            return func(*args, **(kwargs or {}))

    with Seen():
        step()
    return recording.trace, seen


def test_a_step_runs_again_operator_by_operator(tmp_path, capsys):
    """Every operator that the step dispatches and that computes, as often as PyTorch's own dispatch mode sees it; the
    trace that is written has their times."""
    trace, seen = recorded_step(tmp_path)
    plan = plan_of(read_traces(str(trace)), 0, "cpu")
    assert not any(item.fault for item in plan.items)
    run = collections.Counter(item.name.replace("::", ".") for item in plan.items)
    views = {name for name in seen if any(part in name for part in (
        "view", "transpose", "expand", "permute", "slice", "select", "detach", "unbind", "empty", "aten.t",
        "profiler"))}
    assert {name: count for name, count in run.items() if name not in views} == {
        name: count for name, count in seen.items() if name not in views}
    assert dispatch(["trace", "replay", str(trace), "--compute", "real", "--repeat", "2", "-o", str(tmp_path / "again"),
                     "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    rows = {row["operator"]: row for row in told["operators"]}
    assert rows["aten::mm"]["count"] == seen["aten.mm"]
    again = read_traces(told["path"]).of(0)[0]
    nodes = [node for item in plan.items for node in item.nodes]
    assert again.duration[nodes].sum() == pytest.approx(
        sum(row["replayed_ns"] for row in told["operators"]) / 1000, abs=1)
    others = sorted(set(range(again.nodes)) - set(nodes))
    assert again.duration[others].tolist() == [plan.durations[node] for node in others]


def watched(plan, see):
    """A runner of `plan` on the CPU that shows `see` every call's node and results."""
    runner = Runner(plan, "cpu", None, lambda _: None)
    ended = runner._memory.ended
    runner._memory.ended = lambda node, results: (see(node, results), ended(node, results))
    return runner


def test_contents_stay_finite(tmp_path):
    """Training on random contents: variances are not negative, factors are 1, indices fit; twice from one state."""
    trace, _ = recorded_step(tmp_path)
    sums = [[], []]
    for each in sums:
        runner = watched(plan_of(read_traces(str(trace)), 0, "cpu"), lambda _, results, each=each: each.extend(
            float(result.double().sum()) for result in results))
        for _ in range(2):
            runner.begin()
            runner.once()
    assert all(map(math.isfinite, sums[0]))
    assert sums[0] == sums[1]


def test_results_go_on_and_free_their_memory():
    """y = x W, then y += y, then z = y W: what the calls see is what they gave."""
    builder = Recorded()
    x, w, y, z = tensor(1, 4, 4), tensor(2, 4, 4), tensor(3, 4, 4), tensor(4, 4, 4)
    builder.call(MM, [x, w], [y])
    builder.call(ADD, [y, y, 1], [y])
    builder.call(MM, [y, w], [z])
    plan = plan_of(traces_of_bytes([builder.encode()]), 0, "cpu")
    kept = {}
    runner = watched(plan, lambda node, results: kept.__setitem__(node, results[0].clone()))
    runner.begin()
    given = runner._memory.tensor(0, plan.items[0].call.values[1]).clone()
    runner.once()
    assert torch.allclose(kept[2], kept[1] @ given)
    assert torch.allclose(kept[1], 2 * kept[0])
    assert sorted(runner._memory._held) == [0, 1]      # x and W; y and z are freed


class FakeStream:
    """A stream of a GPU that there is not: writes down what it is asked."""

    def __init__(self, said, name):
        self.said, self.name = said, name

    def record_event(self):
        self.said.append(f"record on {self.name}")
        return f"event of {self.name}"

    def wait_event(self, event):
        self.said.append(f"{self.name} waits for {event}")


class FakeCuda:
    """What the runner asks of torch.cuda."""

    def __init__(self):
        self.said, self.made, self.now = [], 0, None

    def Stream(self):
        self.made += 1
        return FakeStream(self.said, f"stream {self.made}")

    def set_stream(self, stream):
        self.now = stream

    def current_stream(self):
        return self.now

    def synchronize(self):
        self.said.append("synchronize")


class FakeWire:
    def __init__(self, cuda):
        self.cuda = cuda

    def issue(self, message):
        self.cuda.said.append(f"all-reduce of {message.size} from {self.cuda.now.name}")
        return self, []

    def wait(self):
        self.cuda.said.append(f"{self.cuda.now.name} waits for the all-reduce")

    def give_back(self, held):
        pass


def test_streams_and_collectives_wait_on_the_device():
    """Two products on two streams, the second after the first; an all-reduce after it; a product on each after that."""
    builder = Recorded()
    w = tensor(1, 4, 4)
    calls = [builder.call(MM, [w, w], [tensor(10 + number, 4, 4)]) for number in range(5)]
    a = builder.kernel("a", calls[0])
    b = builder.kernel("b", calls[1], stream=9, after=[a])
    reduced = builder.nccl(calls[2], after=[b])
    builder.kernel("c", calls[3], after=[a, reduced])
    builder.kernel("d", calls[4], stream=9, after=[b, reduced])
    plan = plan_of(traces_of_bytes([builder.encode()] * 2), 0, "cpu")
    cuda = FakeCuda()
    runner = Runner(plan, "cpu", FakeWire(cuda), lambda _: None)
    runner._gpu = True
    runner._torch = type("Torch", (), {"cuda": cuda, "no_grad": torch.no_grad, "Tensor": torch.Tensor})
    runner.begin()
    cuda.said.clear()
    runner.once()
    assert cuda.said == [
        "record on stream 1", "stream 2 waits for event of stream 1", "record on stream 2",
        "stream 3 waits for event of stream 1", "stream 3 waits for event of stream 2",
        "all-reduce of 4096 from stream 3", "stream 1 waits for event of stream 2", "stream 1 waits for the all-reduce",
        "stream 2 waits for the all-reduce", "stream 2 waits for the all-reduce", "synchronize"]


def test_skipped_operators_take_their_recorded_time():
    """One that PyTorch does not have, of 30 ms, beside one of a microsecond."""
    builder = Recorded()
    builder.kernel("fused", builder.call("aten::no_such(Tensor self) -> Tensor", [tensor(1, 2)]), duration=30_000)
    w = tensor(2, 4, 4)
    builder.kernel("k", builder.call(MM, [w, w], [tensor(3, 4, 4)]))
    plan = plan_of(traces_of_bytes([builder.encode()]), 0, "cpu")
    with joined_group("gloo", "cpu", 1) as group:
        found = replay_operators(plan, group, repeat=1, skip=True, progress=lambda _: None)
        with pytest.raises(InputError, match="aten::no_such"):
            replay_operators(plan, group, repeat=1, skip=False, progress=lambda _: None)
    assert found.makespan[0] >= 0.03
    assert list(found.taken) == [1]


def test_one_rank_of_several_is_refused_or_skipped():
    """Its all-reduce has nobody to talk to."""
    builder = Recorded()
    w = tensor(1, 4, 4)
    builder.nccl(builder.call(MM, [w, w], [tensor(2, 4, 4)]))
    plan = plan_of(traces_of_bytes([builder.encode()]), 0, "cpu")
    assert [item.fault for item in plan.items] == ["a communication with ranks whose traces are not given"]


@pytest.mark.exam
def test_gloo_with_two_ranks(tmp_path):
    """Data-parallel training, and an all_to_all of unequal parts, whose messages go on together; both ranks write."""
    (tmp_path / "step.py").write_text("""
import torch, torch.distributed as dist
from astrarium.profile.collector import collect
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))
x = torch.randn(8, 64)
rank = dist.get_rank()
def step():
    model(x).square().mean().backward()
    dist.all_to_all_single(torch.empty(4 if rank else 6, 64), x[:6 if rank else 4], [1, 3] if rank else [3, 3],
                           [3, 3] if rank else [3, 1])
step()
with collect("out"):
    step()
dist.destroy_process_group()
""")
    run = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "step.py"],
                         cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    found = astrarium("trace", "replay", "out/trace.*.et", "--compute", "real", "-o", "again", "--json", cwd=tmp_path)
    assert found.returncode == 0, found.stderr[-3000:]
    rows = {row["operator"]: row for row in json.loads(found.stdout)["operators"]}
    assert rows["all_reduce"]["count"] == rows["send or receive"]["count"] == 1
    assert rows["aten::addmm"]["count"] == 1
    assert read_traces(str(tmp_path / "again.*.et")).ranks == 2


@GPU
def test_a_step_runs_again_on_a_gpu(tmp_path, capsys):
    """As many kernels as recorded for nearly every operator, and their sum within 20 % of the recorded."""
    trace, _ = recorded_step(tmp_path, "cuda", width=1024)
    assert dispatch(["trace", "replay", str(trace), "--compute", "real", "-o", str(tmp_path / "again"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["other_kernels"] <= 0.1 * sum(row["count"] for row in told["operators"])
    before, after = (sum(row[key] for row in told["operators"]) for key in ("recorded_ns", "replayed_ns"))
    assert after == pytest.approx(before, rel=0.2)
