"""`calibrate` from recordings: Chakra traces, Kineto's files, execution traces beside them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.commands import Run

from astrarium.compute.kernels import load
from astrarium.compute.timings import read_timings

SLOWER = 1.25


def kineto(path: Path, *, shapes: bool = True) -> Path:
    """Five products at 1.25 times what an H100 takes, each twice, and one collective of 7 ms."""
    events: list[dict[str, Any]] = []

    def add(cat: str, name: str, ts: float, dur: float, **args: Any) -> None:
        events.append({"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur, "args": args})

    at = 0.0
    for number in range(10):
        m = 1024 * (1 + number % 5)
        shape = np.array([[1.0], [m], [4096.0], [4096.0]])
        us = SLOWER * float(load("h100_sxm").latency_ns("gemm", "bf16", shape)[0]) / 1000
        args = {"Input Dims": [[m, 4096], [4096, 4096]], "Input type": ["c10::BFloat16"] * 2} if shapes else {}
        add("cpu_op", "aten::mm", at, 10, **args)
        add("cuda_runtime", "cudaLaunchKernel", at + 1, 5, correlation=number + 1)
        add("kernel", "nvjet", at + 20, us, correlation=number + 1, stream=7, device=0)
        at += us + 100
    add("kernel", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", at, 7000, correlation=99, stream=7, device=0)
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return path


def test_a_kineto_file_makes_a_device(run: Run, tmp_path: Path) -> None:
    said = run("calibrate", kineto(tmp_path / "k.json"), "--base", "h100_sxm", "-o", tmp_path / "mine.toml", "--rows",
               tmp_path / "rows.csv", "--json")
    assert said.code == 0
    assert "11 GPU operations" in said.err
    assert "make 5 rows; 100.0 % of the time of kernels that compute" in said.err
    assert "7.000 ms" in said.err
    recorded = json.loads(said.out)["recorded"]
    assert (recorded["operations"], recorded["used_operations"], recorded["rows"]) == (11, 10, 5)
    assert recorded["unused"] == [{"why": "communication", "operations": 1, "recorded_ns": 7_000_000}]
    assert recorded["used_ns"] + 7_000_000 == recorded["recorded_ns"]
    (before, _), (after, _) = (json.loads(said.out)["classes"]["gemm/bf16"][name] for name in ("before", "after"))
    assert before == pytest.approx(20, abs=0.1)     # 1 / 1.25 - 1
    assert after < 1
    assert [timing.kernel.shape[1] for timing in read_timings(str(tmp_path / "rows.csv"))] == [1024 * n for n in
                                                                                             range(1, 6)]


def test_what_has_no_shapes_is_refused_with_where_the_time_went(run: Run, tmp_path: Path) -> None:
    said = run("calibrate", kineto(tmp_path / "k.json", shapes=False), "--base", "h100_sxm")
    assert said.code == 1
    assert "operator aten::mm, whose shapes were not recorded" in said.err
    assert "holds no kernel whose shape and time are both known" in said.err


def test_arguments_that_do_not_fit_are_refused(run: Run, tmp_path: Path) -> None:
    host = tmp_path / "host.json"
    host.write_text('{"schema": "1.0.2-chakra.0.0.4", "nodes": []}')
    assert "1 execution traces and 0 Kineto files" in run("calibrate", host, "--base", "h100_sxm").err
    table = tmp_path / "t.csv"
    table.write_text("kind,m,n,k,us\ngemm,1024,1024,1024,9\n")
    assert "--rows: has no effect" in run("calibrate", table, "--base", "h100_sxm", "--rows", tmp_path / "r.csv").err
    assert "no rank has one" in run("calibrate", tmp_path / "prefix", "--base", "h100_sxm").err
    assert "cannot be read" in run("calibrate", tmp_path / "none.csv", "--base", "h100_sxm").err


@pytest.mark.shared
def test_a_real_pair_and_the_trace_linked_from_it_give_the_same_rows(run: Run, tmp_path: Path, shared: Path) -> None:
    """Megatron on A100: 7 products, 40 layers of them; 68 % of what computes."""
    pair = [shared / "traces" / "real" / f"megatron_tp8_{what}_0.json.gz" for what in ("et", "kineto")]
    assert run("trace", "link", *pair, "-o", tmp_path / "meg").code == 0
    rows = []
    for files in (pair, pair[1:], [tmp_path / "meg"], [tmp_path / "meg.0.et"]):
        said = run("calibrate", *files, "--base", "a100_sxm", "--rows", tmp_path / "r.csv")
        assert said.code == 0
        assert "gemm/fp16: 7 rows" in said.err
        assert "not used: 84, 241" in said.err      # ms of communication
        rows.append({timing.kernel: timing.ns for timing in read_timings(str(tmp_path / "r.csv"))})
    assert rows[0] == rows[1]
    for linked in rows[2:]:
        assert linked.keys() == rows[0].keys()
        assert all(abs(ns - rows[0][kernel]) <= 1000 for kernel, ns in linked.items())
    assert rows[0][next(kernel for kernel in rows[0] if kernel.shape == (1, 8192, 1536, 4096))] == 400_000


@pytest.mark.shared
def test_a_real_recording_without_shapes_names_its_operators(run: Run, tmp_path: Path, shared: Path) -> None:
    data = gzip.decompress((shared / "traces" / "real" / "deepseek_train_device.json.gz").read_bytes())
    (tmp_path / "d.json").write_bytes(data)
    said = run("calibrate", tmp_path / "d.json", "--base", "h100_sxm")
    assert said.code == 1
    assert "operator RopeLoraFlashAttnVarlenFuncBackward, which no rule" in said.err
