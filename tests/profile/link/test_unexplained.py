"""How much of a linked trace's critical path no recorded operator, call or kernel accounts for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import astrarium as ar
from astrarium.cli import main
from astrarium.cli.replay_design import replay_design
from astrarium.profile.link import link
from astrarium.trace.anonymise import anonymise
from astrarium.trace.linked import headline
from astrarium.trace.transform import load_job, transform, write_job

from .machine import Json
from .paired import event, kernel, nodes_of, of_events

SENTENCE = "% of this replay's critical path is unexplained gap"


def op(name: str, ts: float, dur: float, cat: str = "cpu_op") -> Json:
    return event(cat, name, ts, dur)


def share(folder: Path) -> float | None:
    return ar.simulate(replay_design(f"{folder / 'w'}.*.et")).unexplained


@pytest.mark.parametrize(("events", "expected"), [
    ([op("aten::a", 0, 60), op("aten::b", 60, 40)], 0.0),
    ([op("aten::a", 0, 60), op("aten::b", 90, 10)], 0.3),                                        # no operator is open
    ([op("step", 0, 100, "user_annotation"), op("aten::a", 20, 55)], 0.45),                      # only an annotation is
    ([op("nccl:all_reduce", 0, 100, "user_annotation"), op("aten::a", 20, 55)], 0.0),            # which says what runs
    ([op("ProfilerStep#1", 0, 100), op("aten::a", 20, 55)], 0.45),                               # of before 2022
], ids=["none", "outside", "annotation", "collective", "step"])
def test_host_time_that_nothing_names(tmp_path: Path, events: list[Json], expected: float) -> None:
    assert of_events(tmp_path, events).report.gap_share == pytest.approx(expected)
    assert share(tmp_path) == pytest.approx(expected)


def test_idle_streams_and_what_follows_a_wait(tmp_path: Path) -> None:
    """5 us from a launch to its kernel, 9 between the kernel's end and the end of the call that waits for all."""
    found = of_events(tmp_path, [
        op("aten::mm", 0, 10), event("cuda_runtime", "cudaLaunchKernel", 1, 4, correlation=1),
        kernel("mm", 10, 80, 1), event("cuda_runtime", "cudaDeviceSynchronize", 11, 88, correlation=2),
        op("aten::add", 110, 10)]).report
    assert (found.gaps_us, found.idle_us, found.unexplained_us) == (5, 12, 0)
    assert found.gap_share == pytest.approx((5 + 11) / 120, abs=1e-6)
    assert share(tmp_path) == pytest.approx((5 + 11) / 120)


def test_only_what_a_wait_got_of_a_node_is_unexplained(tmp_path: Path) -> None:
    """Nothing is known between the kernel's end at 90 and the launch after the wait: 30 us are added to the 6 us that
    are left of the waiting call."""
    found = of_events(tmp_path, [
        op("aten::mm", 0, 10), event("cuda_runtime", "cudaLaunchKernel", 1, 4, correlation=1),
        kernel("mm", 5, 80, 1), event("cuda_runtime", "cudaDeviceSynchronize", 11, 80, correlation=2)])
    marked = [each.attr("unexplained_share").value for each in nodes_of(tmp_path)
              if each.attr("unexplained_share") is not None]
    assert marked
    assert all(0 < each <= 1 for each in marked)
    assert share(tmp_path) == pytest.approx(found.report.gap_share, abs=0.005)


def test_the_report_and_the_run_lead_with_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = of_events(tmp_path, [op("aten::a", 0, 60), op("aten::b", 90, 10)])
    assert found.report.lines()[0].startswith(f"30.0 {SENTENCE}")
    assert "the other 70.0 % at most" in found.report.lines()[0]
    assert found.report.plain()["gap_share"] == pytest.approx(0.3)
    assert main(["run", "--trace", f"{tmp_path / 'w'}.*.et"]) == 0
    assert capsys.readouterr().out.startswith(f"30.0 {SENTENCE}")
    assert main(["run", "--json", "--trace", f"{tmp_path / 'w'}.*.et"]) == 0
    assert json.loads(capsys.readouterr().out)["summary"]["unexplained_share"] == pytest.approx(0.3)


def test_changed_traces_say_as_much(tmp_path: Path) -> None:
    """Anonymised, stripped, coalesced, or with faster kernels: the share is of each node's time, whatever that is."""
    of_events(tmp_path, [op(f"aten::{number}", number * 20, 14) for number in range(10)])
    before = share(tmp_path)
    assert before == pytest.approx(54 / 194)
    for number, steps in enumerate((["strip:attrs=[unread]"], ["coalesce"], ["scale_durations:by=0.5"])):
        write_job(transform([load_job(str(tmp_path / "w"))], steps), str(tmp_path / f"changed{number}"))
        changed = ar.simulate(replay_design(f"{tmp_path / f'changed{number}'}.*.et"))
        assert changed.unexplained == pytest.approx(before, abs=0.002)
    write_job(anonymise(load_job(str(tmp_path / "w")), seed=1).job, str(tmp_path / "secret"))
    assert ar.simulate(replay_design(f"{tmp_path / 'secret'}.*.et")).unexplained == pytest.approx(before, abs=0.03)


def test_other_runs_say_nothing_of_it(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    design = tmp_path / "d.yaml"
    design.write_text("""
workload: {source: collective, op: all_reduce, payload: 1 MB}
network: {dims: [{shape: switch, npus: 2, bandwidth: 1 GB/s, latency: 1 us}]}
""")
    assert main(["run", str(design)]) == 0
    assert "unexplained" not in capsys.readouterr().out


def test_nothing_unexplained_is_said_as_such() -> None:
    assert headline(0.0) == f"0.0 {SENTENCE}: the recording names what ran all along it."


@pytest.mark.shared
@pytest.mark.parametrize(("name", "low", "high"), [
    ("sglang_decode_bs32", 0.5, 0.6), ("deepseek_train_device", 0.01, 0.05), ("megatron_tp8_kineto_0", 0.05, 0.2)])
def test_recordings(shared: Path, name: str, low: float, high: float) -> None:
    assert low < link(None, shared / "traces" / "real" / f"{name}.json.gz").report.gap_share < high
