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
SERVING = "design: design.yaml\nrequests: {kind: poisson, rate: 2, count: 8, seed: 1, prompt: 500, output: 20}\n"


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
    assert found == {f"{metric}_mean_ns": pytest.approx(0, abs=1e-4) for metric in ("ttft", "tpot", "latency")}
    assert dispatch(["calibrate", str(log), "--serving", name, "--json"]) == 0
    fitted: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert fitted["overhead_ns"] == pytest.approx(0, abs=100)
    assert fitted["stream_offset_ns"] == pytest.approx(0, abs=1e3)
    assert fitted["tpot_mean_measured_ns"] == pytest.approx(first["whole_run"]["tpot_mean_ns"], rel=1e-4)
    assert dispatch(["calibrate", str(log), "--serving", name, "-o", str(log)]) == 1
    assert "--out" in (said := capsys.readouterr().err)
    assert "is one of the files that are read" in said
    assert dispatch(["validate", str(log), "--serving", str(serving.with_name("design.yaml"))]) == 1
    assert "is a design, not a serving file" in capsys.readouterr().err
    assert dispatch(["validate", str(log)]) == 1
    assert "or, with --serving, a log of requests" in capsys.readouterr().err
    serving.write_text("design: design.yaml\nrequests: {kind: trace, path: requests.csv}\n", encoding="utf-8")
    assert dispatch(["serve", name, "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["whole_run"]["ttft_mean_ns"] == pytest.approx(first["whole_run"]["ttft_mean_ns"], rel=1e-4)


def write(serving: Path, sections: dict[str, str], requests: str, policy: str) -> str:
    """A design with some sections of its own, and a serving file; its name."""
    text = dict(line.split(": ", 1) for line in DESIGN.split("\n") if line) | sections
    serving.with_name("design.yaml").write_text("\n".join(f"{name}: {each}" for name, each in text.items()))
    serving.write_text(f"design: design.yaml\nrequests: {{kind: closed_loop, concurrency: 1, count: 2, {requests}}}\n"
                       f"policy: {{{policy}}}\n")
    return str(serving)


def model(text: str) -> dict[str, str]:
    return {"workload": f"{{source: inference, phase: decode, context: 1, model: {text}}}"}


SHORT = "prompt: 500, output: 20"


@pytest.mark.parametrize(("sections", "requests", "policy", "message"), [
    ({"compute": "{model: replay}"}, SHORT, "", "compute: is missing: the workload is generated"),
    ({"memory": "{capacity: 8 GB, bandwidth: 3.35 TB/s}"}, SHORT, "",
     "memory.capacity: has no room for a cache: weights take 16.06 GB, working memory of 2,048 tokens"),
    ({"memory": "{capacity: 8 GB, bandwidth: 3.35 TB/s}"}, SHORT, "memory_share: 0.5",
     "a block of 16 tokens 2.097 MB, and policy.memory_share leaves 4 GB of an NPU for all"),
    ({"memory": "b200_sxx"}, SHORT, "", "did you mean 'b200'?"),
    ({"memory": "H100_SXMM"}, SHORT, "", "did you mean 'h100_sxm'?"),
    (model("llama3-8b, sp: 2"), SHORT, "", "2 does not divide 1 tokens of a decode step (batch: 1 sequences, a token "
     "each); expected 1, another batch, or uneven"),
    (model("llama3-8b, exchange: deepep"), SHORT, "", "deepep has no effect here: the model has no experts"),
    (model("mixtral-8x7b, exchange: deepep"), SHORT, "", "deepep has no effect here: ranks of dp share no experts"),
    (model("gpt2-small"), "prompt: 500, output: 600", "", "request 0 has 1,100 tokens (prompt and answer); expected at "
     "most 1,024"),
    (model("llama3-8b, host_launch: 30 us"), SHORT, "", "policy.launch: 30 us in the serving file, and none here"),
    ({"stack": "megatron-lm"}, SHORT, "", "stack: megatron-lm trains, and does not serve"),
    ({"stack": "vllm"}, SHORT, "graphs: []", "policy.graphs: are none, where stack vllm has some"),
    ({}, SHORT, "graphs: [8, 4]", "policy.graphs: [8, 4] are not in ascending order; expected [4, 8]"),
    ({}, SHORT, "graphs: [1000000000000]", "policy.graphs[0]: 1000000000000 is impossible; expected 1 or more, below"),
    ({}, SHORT, "tiers: [{capacity: 1 kB, bandwidth: 1 GB/s}]", "policy.tiers[0].capacity: 1 kB is less than a block"),
    ({}, SHORT, "tiers: [{capacity: 1 TB, bandwidth: 1 GB/s}], prefix_cache: false", "policy.tiers: have no effect")])
def test_what_cannot_be_meant_is_refused(serving: Path, capsys: pytest.CaptureFixture[str], sections: dict[str, str],
                                         requests: str, policy: str, message: str) -> None:
    assert dispatch(["serve", write(serving, sections, requests, policy)]) == 1
    assert message in capsys.readouterr().err


def test_what_does_nothing_is_said(serving: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = write(serving, model("llama3-8b, exchange: all_gather"), "prompt: 500, output: 8000", "")
    assert dispatch(["serve", name, "--set", "buckets.context=8", "--set", "requests.concurrency=5"]) == 0
    said = capsys.readouterr().err
    assert "workload.exchange: all_gather does nothing" in said
    assert dispatch(["serve", write(serving, {}, "prompt: 5, output: 1", "")]) == 0
    assert "for each user" not in capsys.readouterr().out
    assert "2 of 2 requests have more tokens (prompt and answer) than the 8,192 of the model, up to 8,500" in said
    assert "requests.concurrency: 5 users, but only 2 requests" in said
    assert "buckets: do nothing" in said
    assert "launch (host time to launch a kernel outside CUDA graphs)" in said


def test_a_field_of_the_design_is_changed_as_one_of_the_file(serving: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name, times = write(serving, {}, "prompt: 5, output: 8", ""), []
    for bandwidth in ("3 TB/s", "6 TB/s"):
        assert dispatch(["serve", name, "--set", f"memory.bandwidth={bandwidth}", "--json"]) == 0
        times.append(json.loads(capsys.readouterr().out)["tpot_mean_ns"])
    assert times[0] == pytest.approx(2 * times[1], rel=0.01)
    assert dispatch(["serve", name, "--set", "memory.bandwith=1 GB/s"]) == 1
    assert "did you mean 'bandwidth'" in capsys.readouterr().err


def test_a_stack_with_another_compute_model_is_said(serving: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["serve", write(serving, {"stack": "vllm"}, "prompt: 5, output: 2", "")]) == 0
    assert "compute: model roofline has no framework" in capsys.readouterr().err


def test_without_graphs_the_host_launches_every_kernel(serving: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A newcomer's report: `graphs: []` made vLLM faster. Then a step takes the launches of its kernels, if these take
    longer than the kernels."""
    times = []
    for policy in ("graphs: [1]", "graphs: [1], launch: 50 us", "launch: 0 ns", "launch: 1 us", "launch: 50 us",
                   "launch: 100 us"):
        assert dispatch(["serve", write(serving, {}, SHORT, policy), "--json"]) == 0
        times.append(json.loads(capsys.readouterr().out)["tpot_mean_ns"])
    graphs, covered, none, hidden, slow, slower = times
    assert graphs == covered == none == hidden
    assert slow > 2 * none
    assert slower == pytest.approx(2 * slow, rel=1e-3)
    first = []
    for schedule, launch in (("chunked", "0"), ("chunked", "900"), ("prefill_first", "0"), ("prefill_first", "900")):
        policy = f"schedule: {schedule}, graphs: [512], launch: {launch} us"
        assert dispatch(["serve", write(serving, {}, SHORT, policy), "--json"]) == 0
        first.append(json.loads(capsys.readouterr().out)["ttft_mean_ns"])
    assert first[0] == first[1]                     # vLLM's graphs hold prompts, too
    assert first[3] > 10 * first[2]                 # SGLang's are of decode steps alone


def test_a_log_in_other_units_is_said(serving: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = serving.with_name("log.csv")
    log.write_text("arrival,prompt,output,ttft,tpot,cached\n2024-05-01 00:00:00,500,20,8000,4000,100\n"
                   "2024-05-01 00:00:02.5,500,20,,,0\n")
    assert dispatch(["validate", str(log), "--serving", str(serving), "--json"]) == 0
    said = capsys.readouterr()
    assert [row["requests"] for row in json.loads(said.out)["logs"]] == [1, 1]
    assert "ttft_mean_ns is far from the prediction: times are seconds" in said.err
    assert "10.0 % of the prompts' tokens were cached" in said.err
    log.write_text("arrival,prompt,output,ttft_ms,tpot_ms\n0,500,20,0.02,0.005\n")
    assert dispatch(["calibrate", str(log), "--serving", str(serving)]) == 0
    assert "mean tpot is predicted too long without any host time" in capsys.readouterr().err
