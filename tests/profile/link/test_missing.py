"""Events of accelerators and profilers that are new here, and host traces of another run: read, or named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import astrarium as ar
from astrarium.cli import main
from astrarium.profile.link import LinkReport, link, write_linked
from astrarium.trace.counts import statistics

from .machine import PROGRAMS, Json, Machine, run
from .paired import columns_of, event, linked, nodes_of, of_events, pair

MTIA = "mtia_ccp_events"


@pytest.mark.parametrize("host", [True, False])
def test_a_recording_of_nothing_is_refused(host: bool, tmp_path: Path) -> None:
    (tmp_path / "host.json").write_text('{"schema": "1.1.1-chakra.0.0.4", "nodes": []}')
    (tmp_path / "device.json").write_text('{"traceEvents": []}')
    with pytest.raises(ar.InputError, match="has no operator, no call of a runtime, no GPU operation"):
        link(tmp_path / "host.json" if host else None, tmp_path / "device.json")


def test_mtia_jobs_are_kernels_and_its_dma_are_copies(tmp_path: Path) -> None:
    report = of_events(tmp_path, [
        event("cpu_op", "aten::add", 0, 40), event("mtia_runtime", "runFunction - job_prep", 5, 30, correlation=7),
        event(MTIA, "dma_request", 38, 6, pid=9, tid=4, stream=1, direction="HOST_TO_DEVICE", size=512),
        event(MTIA, "add-dtype_Float", 50, 20, pid=9, tid=4, stream=1, correlation=7)]).report
    assert (report.gpu_operations, report.launched, report.streams) == (2, 1, 1)
    counted = statistics(columns_of(tmp_path))
    assert (counted.gpu_kernels, counted.gpu_memcpys) == (1, 1)
    job = next(node for node in nodes_of(tmp_path) if node.name == "add-dtype_Float")
    assert job.duration == 20
    assert "1 GPU operations whose launching call is not in the trace" in report.missing


@pytest.mark.shared
@pytest.mark.exam
def test_an_mtia_recording_keeps_its_device_events(shared: Path, tmp_path: Path) -> None:
    found = link(None, shared / "traces" / "real" / "mtia_rank_0.json.gz")
    write_linked(tmp_path / "w", found)
    assert (found.report.gpu_operations, found.report.launched) == (25_814, 3_453)
    assert statistics(columns_of(tmp_path)).gpu_memcpys == 22_361
    assert found.report.replayed_us == pytest.approx(found.report.measured_us, rel=1e-6)


def test_events_of_unknown_categories_are_named(tmp_path: Path) -> None:
    """Those that lie around others, such as Python's frames, are no work of their own."""
    events: list[Json] = [event("cpu_op", "aten::a", 0, 10), event("python_function", "f", 0, 10),
                          *(event("npu_job", "x", at, 1) for at in range(3)),
                          *(event(f"other{number}", "x", 0, 1) for number in range(9))]
    missing = of_events(tmp_path, events).report.missing
    assert missing[1] == "3 events of category 'npu_job', which is not read"
    assert missing[2] == "1 events of category 'other0', which is not read"
    assert missing[-1] == "2 events of 2 further categories"
    assert not any("python_function" in what for what in missing)


def two_runs(folder: Path, shift: int) -> tuple[Path, Path]:
    """The host trace of one run and the device trace of another, whose ids are so many further on."""
    def first(m: Machine) -> None:
        for _ in range(shift):
            m.op("aten::warm_up")
        PROGRAMS["two_streams"](m)

    other = folder / "other"
    other.mkdir()
    host, _ = pair(folder, run(first))
    _, device = pair(other, run(PROGRAMS["two_streams"]))
    return host, device


@pytest.mark.parametrize("shift", [5, 7])
def test_traces_of_different_runs_are_warned_of_first(tmp_path: Path, shift: int,
                                                      capsys: pytest.CaptureFixture[str]) -> None:
    host, device = two_runs(tmp_path, shift)
    report = link(host, device).report
    assert len(report.warnings) == 1
    assert report.lines()[0].startswith("WARNING: only ")
    assert f"{host} and {device} look like recordings of different runs" in report.warnings[0]
    assert any("host node of another name" in what for what in report.missing)
    assert main(["trace", "link", str(host), str(device), "-o", str(tmp_path / "w"), "--json"]) == 0
    out, error = capsys.readouterr()
    assert "WARNING: only " in error
    assert json.loads(out)["rows"][0]["warnings"] == list(report.warnings)


@pytest.mark.parametrize("name", PROGRAMS)
def test_traces_of_one_run_are_not(tmp_path: Path, name: str) -> None:
    assert linked(tmp_path, run(PROGRAMS[name])).report.warnings == ()


@pytest.mark.shared
def test_real_pairs(shared: Path) -> None:
    """Right pairs are not warned of; ids that agree by chance (5,422 here) do not join what has another name."""
    folder = shared / "traces"

    def report(host: str, device: str) -> LinkReport:
        return link(folder / host, folder / device).report

    assert report("real/megatron_tp8_et_0.json.gz", "real/megatron_tp8_kineto_0.json.gz").warnings == ()
    wrong = report("real/megatron_tp8_et_0.json.gz", "resnet_device.json.gz")
    assert wrong.joined == 175
    assert "only 175 of 5,422 host nodes join" in wrong.warnings[0]
