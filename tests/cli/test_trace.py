"""`astrarium trace` and `run --trace`: files in, a trace and its replay out; what is wrong is said in words."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from tests.commands import Run

from astrarium.trace import TraceBuilder
from astrarium.vocab import CommOp

EVENTS = [
    {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 0, "dur": 20,
     "args": {"Record function id": 5}},
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 5, "dur": 5,
     "args": {"correlation": 3}},
    {"ph": "X", "cat": "kernel", "name": "sgemm", "pid": 0, "tid": 7, "ts": 12, "dur": 40,
     "args": {"correlation": 3, "stream": 7, "device": 0}}]
NODE = {"id": 2, "name": "aten::mm", "ctrl_deps": 1, "inputs": {"values": [], "shapes": [], "types": []},
        "outputs": {"values": [], "shapes": [], "types": []},
        "attrs": [{"name": "rf_id", "type": "uint64", "value": 5}]}


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    host, device = tmp_path / "host.json", tmp_path / "device.json.gz"
    host.write_text(json.dumps({"schema": "1.1.1-chakra.0.0.4", "nodes": [NODE]}))
    device.write_bytes(gzip.compress(json.dumps({"traceEvents": EVENTS}).encode()))
    return host, device


def test_link_show_run(run: Run, files: tuple[Path, Path], tmp_path: Path) -> None:
    said = run("trace", "link", *files, "-o", tmp_path / "w", "--json")
    report: dict[str, Any] = json.loads(said.out)["rows"][0]
    assert (said.code, said.err) == (0, "")
    assert (report["path"], report["joined"], report["gpu_operations"]) == (str(tmp_path / "w.0.et"), 1, 1)
    shown = json.loads(run("trace", "show", tmp_path / "w.0.et", "--json").out)
    assert (shown["nodes"], shown["gpu_operations"], shown["streams"]) == (5, 1, {"7": {"operations": 1,
                                                                                        "recorded_ns": 40_000}})
    replayed = run("run", "--trace", tmp_path / "w.*.et", "--json")
    assert json.loads(replayed.out)["summary"]["makespan_ns"] == 52_000
    assert "every node takes its recorded time" in replayed.err


def test_a_pattern_links_every_rank(run: Run, files: tuple[Path, Path], tmp_path: Path) -> None:
    host, device = files
    for rank in (0, 3):
        (tmp_path / f"h.{rank}.json").write_bytes(host.read_bytes())
        (tmp_path / f"d.{rank}.json.gz").write_bytes(device.read_bytes())
    every = run("trace", "link", tmp_path / "d.*.json.gz", tmp_path / "h.*.json", "-o", tmp_path / "w", "--json")
    assert [(row["rank"], row["path"], row["joined"]) for row in json.loads(every.out)["rows"]] == [
        (rank, str(tmp_path / f"w.{rank}.et"), 1) for rank in (0, 3)]
    lines = run("trace", "link", tmp_path / "d.*.json.gz", tmp_path / "h.*.json", "-o", tmp_path / "w").err.splitlines()
    assert [line.partition(" nodes, measured 0.1 ms")[0] for line in lines[:2]] == ["rank 0: 5", "rank 3: 5"]
    assert lines[1].endswith(f"; wrote {tmp_path / 'w.3.et'}")
    assert len(lines) == 3
    some = run("trace", "link", tmp_path / "d.[1-9].json.gz", tmp_path / "h.?.json", "-o", tmp_path / "v")
    assert "names no file of rank 0" in some.err
    assert run("trace", "link", tmp_path / "d.[1-9].json.gz", tmp_path / "h.[3].json", "-o", tmp_path / "v").code == 0
    assert sorted(path.name for path in tmp_path.glob("v.*")) == ["v.3.et"]
    (tmp_path / "d.3.json.gz").unlink()
    for first, second, message in (
            ("h.*.json", "d.*.json.gz", "names no file of rank 3"), ("h.0.json", "d.*.json.gz", "is one file"),
            ("x.*.json", "y.*.json", "names no file;")):
        said = run("trace", "link", tmp_path / first, tmp_path / second, "-o", tmp_path / "w")
        assert said.code == 1
        assert message in said.err
    assert "--rank" in run("trace", "link", tmp_path / "h.*.json", "-o", tmp_path / "w", "--rank", "1").err


def test_one_rank_of_a_job_runs_alone(run: Run, files: tuple[Path, Path], tmp_path: Path) -> None:
    assert run("trace", "link", *files, "-o", tmp_path / "w", "--rank", "3").code == 0
    for words in (["w.*.et", "--rank", "3"], ["w.3.et"], ["w", "--rank", "3"]):
        said = run("run", "--trace", tmp_path / words[0], *words[1:], "--json")
        found = json.loads(said.out)
        assert found["summary"]["makespan_ns"] == 52_000
        assert {found["summary"]["last_rank"], found["ranks"][0]["rank"], found["critical_path"][0]["rank"]} == {3}
        assert "rank 3 alone" in said.err
    assert "rank 3 finishes last" in run("run", "--trace", tmp_path / "w.3.et").out
    for name in ("w.*.et", "w"):
        refused = run("run", "--trace", tmp_path / name)
        assert refused.code == 1
        assert "w.0.et does not exist; ranks that have one: 3" in refused.err
        assert "--rank 3" in refused.err
    (tmp_path / "d.yaml").write_text("workload: {source: trace, path: w.*.et, rank: 3}\n"
                                     "network: {dims: [{shape: switch, npus: 1, bandwidth: 1 GB/s, latency: 0 ns}]}\n")
    assert run("check", tmp_path / "d.yaml").code == 0
    assert "w.4.et does not exist" in run("run", "--trace", tmp_path / "w.*.et", "--rank", "4").err
    (tmp_path / "w").write_text("a file that has the name of a prefix")
    assert run("trace", "link", *files, "-o", tmp_path / "w", "--rank", "0").code == 0
    (tmp_path / "w.3.et").unlink()
    assert run("run", "--trace", tmp_path / "w", "--json").code == 0
    (tmp_path / "w.0.et").unlink()
    assert run("trace", "link", *files, "-o", tmp_path / "w", "--rank", "3").code == 0
    assert run("trace", "link", *files, "-o", tmp_path / "w", "--rank", "5").code == 0
    assert "ranks that have one: 3, 5" in run("run", "--trace", tmp_path / "w.*.et").err


def test_people_read_the_report_on_stderr(run: Run, files: tuple[Path, Path], tmp_path: Path) -> None:
    said = run("trace", "link", *files, "-o", tmp_path / "w", "--rank", "3")
    assert said.out == ""
    assert "joined: 1 host nodes by rf_id; 1 GPU operations to their launching calls" in said.err
    assert (tmp_path / "w.3.et").exists()
    assert "GPU streams" in run("trace", "show", tmp_path / "w.3.et").out


def test_either_alone(run: Run, files: tuple[Path, Path], tmp_path: Path) -> None:
    host, device = files
    assert run("trace", "link", device, "-o", tmp_path / "d").code == 0
    assert run("trace", "link", host, "-o", tmp_path / "h").code == 0
    said = run("run", "--trace", tmp_path / "h.*.et")
    assert said.code == 1
    assert "records no durations at all; expected a profiled trace, or a design in addition to --trace" in said.err


@pytest.mark.parametrize(("arguments", "code", "words"), [
    (("trace",), 2, "required: VERB"), (("trace", "lnk"), 2, "invalid choice: 'lnk'"),
    (("trace", "link", "-o", "x"), 2, "required: FILE"),
    (("trace", "link", "absent.json", "-o", "x"), 1, "absent.json: cannot be read (No such file or directory)"),
    (("trace", "link", "a", "b"), 2, "required: -o"), (("trace", "link", "a", "b", "-o", "absent/x"), 1, "no folder"),
    (("trace", "show"), 2, "required: FILE"), (("run",), 2, "DESIGN.yaml or --trace PATTERN"),
    (("run", "--trace", "absent.*.et"), 1, "absent.0.et does not exist")])
def test_mistakes(run: Run, arguments: tuple[str, ...], code: int, words: str) -> None:
    said = run(*arguments)
    assert said.code == code
    assert words in said.err


def test_a_trace_whose_collectives_have_no_time_needs_a_design(run: Run, tmp_path: Path) -> None:
    for rank in range(2):
        trace = TraceBuilder()
        trace.coll("reduce", CommOp.ALL_REDUCE, 1_000_000, after=[trace.comp("a", 10)])
        trace.write(tmp_path / f"w.{rank}.et")
    said = run("run", "--trace", tmp_path / "w.*.et")
    assert said.code == 1
    assert "none of its 1 collectives and messages has a recorded duration; expected a design" in said.err
    (tmp_path / "d.yaml").write_text("workload: {source: collective, op: all_reduce, payload: 1 MB}\n"
                                     "network: {dims: [{shape: ring, npus: 2, bandwidth: 1 GB/s, latency: 0 ns}]}\n")
    said = run("run", tmp_path / "d.yaml", "--trace", tmp_path / "w.*.et", "--json")
    assert json.loads(said.out)["summary"]["makespan_ns"] == 10_000 + 1_000_000


def test_a_trace_of_another_source_has_one_lane_of_a_kind(run: Run, tmp_path: Path) -> None:
    """Without the order of streams in its dependencies, a trace may not run everything at once."""
    trace = TraceBuilder()
    for _ in range(4):
        trace.comp("k", 10)
    trace.write(tmp_path / "w.0.et")
    assert json.loads(run("run", "--trace", tmp_path / "w.*.et", "--json").out)["summary"]["makespan_ns"] == 40_000
