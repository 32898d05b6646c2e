"""A newcomer's list of inputs of `serve`, `validate --serving` and `calibrate --serving`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from astrarium.cli.dispatch import dispatch

DESIGN = """
workload: {source: inference, model: llama3-8b, phase: decode, context: 1}
network: {dims: [{like: dgx_h100_nvswitch, npus: 1, latency: 0 ns}]}
compute: {model: roofline, peak: 989.4 TFLOP/s}
memory: {capacity: 80 GB, bandwidth: 3.35 TB/s}
"""
SERVING = "design: design.yaml\nrequests: {kind: poisson, rate: 2, count: 30, seed: 1, prompt: 500, output: 20}\n"


@pytest.fixture
def serving(tmp_path: Path) -> Path:
    (tmp_path / "design.yaml").write_text(DESIGN, encoding="utf-8")
    (tmp_path / "serving.yaml").write_text(SERVING, encoding="utf-8")
    return tmp_path / "serving.yaml"


def test_what_serve_writes_is_a_log_and_a_trace(serving: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, name = serving.with_name("requests.csv"), str(serving)
    assert dispatch(["serve", name, "--csv", str(log), "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert dispatch(["validate", str(log), "--serving", name, "--json"]) == 0
    found = {row["metric"]: row["error"] for row in json.loads(capsys.readouterr().out)["logs"]}
    assert found == {f"{metric}_mean_ms": pytest.approx(0, abs=1e-4) for metric in ("ttft", "tpot", "latency")}
    assert dispatch(["calibrate", str(log), "--serving", name, "--json"]) == 0
    fitted: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert fitted == {"overhead_us": pytest.approx(0, abs=0.1), "stream_offset_ms": pytest.approx(0, abs=1e-3)}
    serving.write_text("design: design.yaml\nrequests: {kind: trace, path: requests.csv}\n", encoding="utf-8")
    assert dispatch(["serve", name, "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["whole_run"]["ttft_mean_ms"] == pytest.approx(first["whole_run"]["ttft_mean_ms"], rel=1e-4)
