"""Host threads that poll the GPU: found where the host follows the GPU, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from astrarium.profile.link import link, write_linked

from .machine import PROGRAMS, Json, Machine, run
from .paired import columns_of, event, kernel, kernels_by, linked, of_events, replayed_us

BUSY = (2000.0, 600.0, 3500.0)      # us of kernels before each one that is polled


def polling(busy: Sequence[float], hole: Callable[[float, float], float]) -> list[Json]:
    """Per turn a long kernel and one of 300 us behind it, launched by an operator that goes on at `hole(begin, end)` of
    the second kernel's launch and end."""
    events, now, number = list[Json](), 0.0, 0
    for length in busy:
        number += 2
        ends = now + 20 + length + 300
        until = hole(now + 20, ends)
        events += [event("cpu_op", "aten::mm", now, 8), event("cpu_op", "moe::exchange", now + 8, until + 6 - now - 8),
                   event("cuda_runtime", "cudaLaunchKernel", now + 2, 5, correlation=number),
                   event("cuda_runtime", "cudaLaunchKernel", now + 15, 5, correlation=number + 1),
                   event("cpu_op", "aten::empty", until, 4),
                   kernel("gemm", now + 10, length + 10, number), kernel("notify", ends - 300, 300, number + 1)]
        now = max(until, ends) + 10
    return events


def test_a_host_that_ends_with_the_kernel_it_launched_waits_for_it(tmp_path: Path) -> None:
    found = of_events(tmp_path, polling(BUSY, lambda begin, end: end - 30)).report
    assert found.host_spins == found.host_waits == 3
    assert found.spins_us == pytest.approx(sum(BUSY) + 3 * 270)
    assert replayed_us(tmp_path) == pytest.approx(found.measured_us, rel=0.02)
    assert replayed_us(tmp_path, kernels_by(0.5)) == pytest.approx(0.5 * found.measured_us, rel=0.04)


def test_a_host_that_reads_the_value_after_the_kernel_waits_too(tmp_path: Path) -> None:
    found = of_events(tmp_path, polling(BUSY, lambda begin, end: end + 40)).report
    assert found.host_spins == 3
    assert replayed_us(tmp_path) == pytest.approx(found.measured_us, rel=0.001)


def test_a_loop_of_queries_waits_too(tmp_path: Path) -> None:
    """`while cudaEventQuery(done) == cudaErrorNotReady`: every query is a call, none of them waits."""
    events = polling(BUSY, lambda begin, end: end + 5)
    loops = [each for each in events if each["name"] == "moe::exchange"]
    queries = [event("cuda_runtime", "cudaEventQuery", loop["ts"] + at, 3, correlation=10_000 + int(loop["ts"]) + at)
               for loop in loops for at in range(20, int(loop["dur"]) - 10, 9)]
    found = of_events(tmp_path, events + queries).report
    assert found.host_spins == 3
    assert replayed_us(tmp_path, kernels_by(0.5)) == pytest.approx(0.5 * found.measured_us, rel=0.04)


@pytest.mark.parametrize(("hole", "busy"), [
    (lambda begin, end: end - 30, BUSY[:1]),                        # once: may be chance
    (lambda begin, end: end - 30, (2000.0,) * 3),                   # always as long: may be the host's own work
    (lambda begin, end: begin + 2290, BUSY),                        # as long, near one of the ends
    (lambda begin, end: end - 280, BUSY),                           # far from the end
    (lambda begin, end: end + 150, BUSY),                           # the same, after it
    (lambda begin, end: begin + 190, BUSY)], ids=["once", "constant", "one-of-three", "early", "late", "short"])
def test_host_work_stays_host_work(tmp_path: Path, hole: Callable[[float, float], float],
                                   busy: Sequence[float]) -> None:
    found = of_events(tmp_path, polling(busy, hole)).report
    assert found.host_spins == 0
    assert replayed_us(tmp_path) == pytest.approx(found.measured_us, rel=0.001)


def test_another_thread_that_ends_then_explains_it(tmp_path: Path) -> None:
    events = polling(BUSY, lambda begin, end: end - 30)
    helpers = [event("cpu_op", "aten::index", each["ts"] - 500, 490, tid=9) for each in events
               if each["name"] == "aten::empty"]
    assert of_events(tmp_path, events + helpers).report.host_spins == 0


@pytest.mark.parametrize("program", [program for name, program in PROGRAMS.items() if name != "experts"])
def test_recorded_waits_are_no_spins(tmp_path: Path, program: Callable[[Machine], None]) -> None:
    assert linked(tmp_path, run(program)).report.host_spins == 0


def test_an_operation_that_began_in_the_tail_of_another_streams_waited_for_it(tmp_path: Path) -> None:
    """Two streams in turn: each kernel begins when the last blocks of the one before leave room."""
    calls = [event("cuda_runtime", "cudaLaunchKernel", 6 * number, 5, correlation=number) for number in range(6)]
    kernels = [kernel("gemm", 10 + 480 * number, 500, number, stream=7 + number % 2) for number in range(6)]
    found = of_events(tmp_path, calls + kernels).report
    assert found.stream_waits_inferred == 5
    assert replayed_us(tmp_path) == pytest.approx(found.measured_us, rel=0.001)
    assert replayed_us(tmp_path, kernels_by(0.5)) == pytest.approx(0.5 * found.measured_us, rel=0.02)


@pytest.mark.shared
def test_deepseeks_host_polls_the_gpu(shared: Path, tmp_path: Path) -> None:
    """129.6 ms with the GPU busy for 99.6 %: kernels twice as fast halve it. 66 ms on the host are four polls."""
    found = link(None, shared / "traces" / "real" / "deepseek_train_device.json.gz")
    write_linked(tmp_path / "w", found)
    report = found.report
    assert (report.host_spins, report.communications) == (4, {"all_to_all": 16, "barrier": 16})
    assert replayed_us(tmp_path) == pytest.approx(report.measured_us, rel=0.001)
    assert 0.49 < replayed_us(tmp_path, kernels_by(0.5)) / report.measured_us < 0.53
    assert int(columns_of(tmp_path).comm_node.sum()) > 0


@pytest.mark.shared
@pytest.mark.parametrize("name", ["sglang_decode_bs32", *(pytest.param(name, marks=pytest.mark.exam) for name in (
    "resnet50_v100_a", "megatron_tp8_kineto_0", "megatron_tp8_kineto_6"))])
def test_other_recordings_have_no_polls(shared: Path, tmp_path: Path, name: str) -> None:
    found = link(None, shared / "traces" / "real" / f"{name}.json.gz").report
    assert found.host_spins == 0
    assert found.replayed_us == pytest.approx(found.measured_us, rel=0.001)
