"""What a recorded run takes without its profilers: programs run with and without them, and recordings of others."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import astrarium as ar
from astrarium.cli import main
from astrarium.cli.replay_design import replay_design
from astrarium.cli.trace_clock import slower
from astrarium.errors import InputError
from astrarium.profile.link import link, write_linked
from astrarium.profile.link.unrecorded import Ran, Slower
from astrarium.trace import read_traces
from astrarium.trace.linked import unrecorded_line
from astrarium.trace.transform import load_job, transform, write_job

from .machine import Json, node
from .paired import event, kernel, of_events

LATENCY, GAP = 5.0, 1.5      # us from a launch to its kernel on an idle stream, between two kernels


class Program:
    """A host that runs operators one after the other, and a stream; each profiler's work is done as an operator begins
    and ends: `into` and `out` us, and `text` us per 100 bytes that the host trace has of it."""

    def __init__(self, into: float, out: float, text: float) -> None:
        self.into, self.out, self.text = into, out, text
        self.at, self.free = 0.0, 0.0
        self.events: list[Json] = []
        self.nodes: list[Json] = []

    def operator(self, name: str, own: float, inside: tuple[tuple[str, float], ...] = (), kernels: float = 0.0,
                 shape: tuple[int, ...] = (1, 2)) -> None:
        number = len(self.nodes) + 2
        made = node(number, name, 1, number)
        made["inputs"] = {"values": [list(shape)] * 3, "shapes": [list(shape)] * 3, "types": ["Tensor(float)"] * 3}
        size = len(json.dumps(made["inputs"]))
        self.nodes.append(made)
        self.at += (self.into + self.text * size / 100) if self.into else 0
        start = self.at
        self.at += own / 2
        for name_inside, own_inside in inside:
            self.operator(name_inside, own_inside)
        if kernels:
            self.launch(kernels)
        self.at += own / 2 + ((self.out + self.text * size / 100) if self.into else 0)
        self.events.append(event("cpu_op", name, start, self.at - start, Record_function_id=number))

    def launch(self, length: float) -> None:
        number = len(self.events) + 1
        self.events.append(event("cuda_runtime", "cudaLaunchKernel", self.at, 4, correlation=number))
        start = max(self.at + LATENCY, self.free + GAP)
        self.events.append(kernel("k", start, length, number))
        self.free = start + length
        self.at += 4

    def step(self, number: int, length: float) -> None:
        begin = self.at
        for layer in range(40):
            self.operator("aten::t", 0.2, (("aten::transpose", 0.3), ("aten::as_strided", 0.3)))
            self.operator("aten::view", 0.3, shape=(1, 2, 3) * (layer % 3))
            self.operator("aten::slice", 0.3, (("aten::as_strided", 0.3),))
            self.operator("aten::mm", 8, kernels=length)
            self.operator("aten::add", 5, kernels=length / 4)
        self.wait(number, begin)

    def compiled(self, number: int, length: float) -> None:
        """A step of compiled layers: no views, but gradients that are kept (`detach`), which profilers slow less."""
        begin = self.at
        for layer in range(40):
            self.operator("Torch-Compiled Region: 0/0", 1, (("CompiledFunction", 1.0),), shape=(1, 2, 3) * (layer % 4))
            for name in ("aten::mm", "triton_poi_fused_mul_0", "aten::mm"):
                self.operator(name, 3, kernels=length)
            self.into, self.out, usual = self.into / 2, self.out / 2, (self.into, self.out)
            self.operator("torch::autograd::AccumulateGrad", 0.5, (("aten::detach", 0.2), ("detach", 0.2)))
            self.into, self.out = usual
        self.wait(number, begin)

    def wait(self, number: int, begin: float) -> None:
        """The end of a step: the host waits for the GPU."""
        wait = max(self.free, self.at) - self.at + 2
        self.events.append(event("cuda_runtime", "cudaDeviceSynchronize", self.at, wait, correlation=10**6 + number))
        self.at += wait
        self.events.append(event("user_annotation", f"## step {number} ##", begin, self.at - begin))

    def steps(self, length: float) -> Program:
        for number in range(3):
            self.step(number, length)
        return self


@pytest.mark.parametrize("length", [2.0, 30.0, 120.0], ids=["host", "both", "gpu"])
@pytest.mark.parametrize("text", [0.0, 0.6])
def test_the_run_without_profilers(tmp_path: Path, length: float, text: float) -> None:
    truth = Program(0, 0, 0).steps(length)
    seen = Program(2.5, 5.0, text).steps(length)
    found = of_events(tmp_path, seen.events, seen.nodes)
    report = found.report
    assert report.steps == 3
    assert report.unrecorded_us == pytest.approx(truth.at, rel=0.05)
    assert report.measured_us == pytest.approx(seen.at, abs=1)
    assert report.observers_us == pytest.approx(7.5 + text * 2.4, rel=0.1)
    assert any(line.startswith(f"unrecorded: {report.unrecorded_us / 3000:.1f} ms a step (recorded ")
               for line in report.lines())


def test_a_compiled_run_without_profilers(tmp_path: Path) -> None:
    """Few operators are views there: the cost is that of the shortest stretches."""
    truth, seen = Program(0, 0, 0), Program(4.0, 7.0, 0.6)
    for program in (truth, seen):
        for number in range(3):
            program.compiled(number, 12.0)
    report = of_events(tmp_path, seen.events, seen.nodes).report
    assert report.measured_us > 1.5 * truth.at
    assert report.unrecorded_us == pytest.approx(truth.at, rel=0.1)


def test_the_trace_without_profilers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its replay takes as long as the report says."""
    seen = Program(2.0, 4.0, 1.0).steps(30.0)
    of_events(tmp_path, seen.events, seen.nodes)
    assert main(["run", "--trace", f"{tmp_path / 'w'}.*.et"]) == 0
    assert "`astrarium trace link --unrecorded` writes the trace without them" in capsys.readouterr().err
    (tmp_path / "d.yaml").write_text(f"""
workload: {{source: trace, path: {tmp_path / 'w'}.*.et}}
compute: {{model: replay, missing: 0 ns}}
network: {{dims: [{{shape: switch, npus: 1, bandwidth: 1 GB/s, latency: 1 us}}]}}
""")
    assert main(["explain", str(tmp_path / "d.yaml"), "--trace", f"{tmp_path / 'w'}.*.et"]) == 0
    assert "unrecorded: 1.6 ms a step (recorded 3.7 ms" in capsys.readouterr().err
    quiet = link(tmp_path / "host.json", tmp_path / "device.json", quiet=True)
    write_linked(tmp_path / "q", quiet)
    run = ar.simulate(replay_design(f"{tmp_path / 'q'}.*.et"))
    assert quiet.report.unrecorded_us is not None
    assert run.makespan / 1000 == pytest.approx(quiet.report.unrecorded_us, rel=0.01)
    assert quiet.report.gap_share == pytest.approx(2 * GAP / (30 + 7.5 + 2 * GAP), abs=0.005)     # of its own path
    for name, found in (("q", "these nodes have the times without profilers"), ("w", "`astrarium trace link --unrec")):
        assert found in (unrecorded_line(read_traces([tmp_path / f"{name}.0.et"]).classes) or "")
    write_job(transform([load_job(str(tmp_path / "w"))], ["scale_durations:by=0.5"]), str(tmp_path / "c"))
    assert unrecorded_line(read_traces([tmp_path / "c.0.et"]).classes) is None


def test_products_take_longer_at_the_clock_of_a_gpu_that_does_not_wait(tmp_path: Path) -> None:
    """40 products of 40 us a step, which take 10 us longer."""
    asked: list[tuple[str, int, int]] = []

    def clock(device: str, ran: Sequence[Ran], recorded: int, without: int) -> Slower:
        asked.append((device, recorded, without))
        return Slower(np.array([1.25 if each.operator.name == "aten::mm" else 1.0 for each in ran]), 1.4, 700.0)

    seen = Program(2.5, 5.0, 0.0).steps(40.0)
    of_events(tmp_path, seen.events, seen.nodes, deviceProperties=[{"id": 0, "name": "NVIDIA H100 80GB HBM3"}])
    report = link(tmp_path / "host.json", tmp_path / "device.json", clock=clock).report
    plain = link(tmp_path / "host.json", tmp_path / "device.json").report
    assert report.unrecorded_us is not None
    assert plain.unrecorded_us is not None
    assert report.unrecorded_us - plain.unrecorded_us == pytest.approx(3 * 40 * 10, rel=0.02)
    (device, recorded, without), = asked
    assert (device, recorded) == ("NVIDIA H100 80GB HBM3", pytest.approx(plain.measured_us * 1000))
    assert without == pytest.approx(plain.unrecorded_us * 1000, rel=0.01)
    assert "products take 25.0 % longer than recorded, at 1.40 GHz" in "".join(report.lines())


def test_a_step_that_was_measured_without_profilers(tmp_path: Path) -> None:
    """`collect(step=…)` writes it: the host is what is adapted, a GPU that never waits for it takes what it takes."""
    seen = Program(2.5, 5.0, 0.0).steps(2.0)
    report = of_events(tmp_path, seen.events, seen.nodes, unrecorded_us=1200.0).report
    assert report.unrecorded_us == pytest.approx(3 * 1200, rel=0.01)
    assert "measured 1.2 ms, to which host operators were shortened" in "".join(report.lines())


def test_the_steps_of_a_recording(tmp_path: Path) -> None:
    """Those of the profiler count first; the last one of `collect` is empty where each step was ended."""
    seen = Program(2.5, 5.0, 0.0).steps(2.0)
    begins = [0.0, seen.at / 2, seen.at]
    marks = [event("user_annotation", f"ProfilerStep#{number}", begin, end - begin)
             for number, (begin, end) in enumerate(zip(begins, [*begins[1:], seen.at + 20], strict=True))]
    assert of_events(tmp_path, [*seen.events, *marks], seen.nodes).report.steps == 2
    others = [event("user_annotation", "Optimizer.step#AdamW.step", seen.at * turn / 9, 9) for turn in range(9)]
    assert of_events(tmp_path, [*seen.events, *others], seen.nodes).report.steps == 3


def test_too_few_operators_assume_what_profilers_take(tmp_path: Path) -> None:
    few = Program(2.0, 4.0, 1.0)
    few.operator("aten::mm", 8, kernels=20)
    assert "assumed" in "".join(of_events(tmp_path, few.events, few.nodes).report.lines())
    more = Program(6.0, 9.0, 0.0)
    for _ in range(20):
        more.operator("aten::view", 0.3)
    report = of_events(tmp_path, more.events, more.nodes).report      # one class: the usual cost, in proportion
    assert "as this recording shows" in "".join(report.lines())
    assert report.observers_us == pytest.approx(15, rel=0.15)
    with pytest.raises(InputError, match="does not say what the profilers took"):
        link(None, tmp_path / "device.json", quiet=True)
    assert of_events(tmp_path, few.events).report.unrecorded_us is None      # nor does a host trace say what they wrote


@pytest.mark.shared
@pytest.mark.parametrize(("name", "low", "high"), [
    pytest.param("llama1b_mbs1", 84, 90, marks=pytest.mark.exam), ("decode_eager", 8, 20)])
def test_recordings(shared: Path, name: str, low: float, high: float) -> None:
    """The training step takes 87.1 ms unrecorded, with the host waiting for each."""
    folder = shared / "traces" / "h100"
    report = link(folder / f"{name}_host.json.gz", folder / f"{name}_device.json.gz", clock=slower).report
    assert report.unrecorded_us is not None
    assert low < report.unrecorded_us / report.steps / 1000 < high
