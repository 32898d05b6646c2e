"""`run --trace` without a design: what `--set` says takes effect (users' report, issue 35 line 11)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.commands import Run

from astrarium.trace import TraceBuilder
from astrarium.vocab import CommOp


@pytest.fixture
def traces(tmp_path: Path) -> str:
    """Two ranks: 300 us of compute, then an all_reduce of 100 MB that took 1 ms."""
    for rank in range(2):
        trace = TraceBuilder()
        forward = trace.comp("forward", duration=300)
        trace.coll("gradients", CommOp.ALL_REDUCE, 100_000_000, after=[forward], duration=1000)
        trace.write(tmp_path / f"rec.{rank}.et")
    return str(tmp_path / "rec.*.et")


def makespan(run: Run, *words: str) -> float:
    said = run("run", "--json", *words)
    assert said.code == 0, said.err
    return float(json.loads(said.out)["summary"]["makespan_ns"])


def test_alone_it_replays(run: Run, traces: str) -> None:
    assert makespan(run, "--trace", traces) == 1.3e6


def test_a_network_is_used(run: Run, traces: str) -> None:
    words = ("--trace", traces, "--set", "network.dims[0].bandwidth=1 MB/s", "--set", "network.dims[0].latency=0 ns")
    assert makespan(run, *words) == 300e3 + 100e9      # 100 MB out of either NPU
    said = run("run", *words)
    assert "compute.model replay, communication from network.backend closed_form (switch of 2)" in said.err


def test_what_a_network_lacks_is_asked_for(run: Run, traces: str) -> None:
    for words, path in ((("network.dims[0].bandwidth=1 MB/s",), "network.dims[0].latency: is missing"),
                        (("collective.all_reduce=[ring]",), "network.dims[0].latency: is missing"),
                        (("compute.everything=false", "network.dims[0].latency=1 us"), "network.dims[0].bandwidth")):
        said = run("run", "--trace", traces, *(word for text in words for word in ("--set", text)))
        assert (said.code, said.out) == (1, "")
        assert path in said.err


def test_one_rank_on_a_network_of_more(run: Run, traces: str) -> None:
    alone = traces.replace("*", "0")
    assert makespan(run, "--trace", alone) == 1.3e6
    said = run("run", "--trace", alone, "--set", "network.dims[0].bandwidth=1 MB/s")
    assert "network.dims[0]: there is no entry 0" in said.err
    dims = "network.dims=[{shape: switch, npus: 2, bandwidth: 1 MB/s, latency: 0 ns}]"
    assert makespan(run, "--trace", alone, "--set", dims) == 300e3 + 100e9


def test_other_fields_keep_the_recorded_times(run: Run, traces: str) -> None:
    for text in ("compute.missing=5 ns", "system.comm_streams=2"):
        assert makespan(run, "--trace", traces, "--set", text) == 1.3e6


def test_fields_that_do_nothing_are_refused(run: Run, traces: str) -> None:
    """A newcomer's report: `--set memory.bandwidth=...` without a design changed nothing, and nothing was said."""
    for text in ("memory.bandwidth=1 MB/s", "stack=vllm", "system.placement=[1, 0]", "npu_types=[]"):
        said = run("run", "--trace", traces, "--set", text)
        assert said.code == 1
        assert "does nothing where every node takes its recorded time" in said.err


def test_check_refuses_what_run_refuses(run: Run, traces: str, tmp_path: Path) -> None:
    """A newcomer's report: 0 errors for traces without kernels on a measured device, or kernels without a device."""
    design = tmp_path / "design.yaml"
    for work, compute, words in (
            (f"{{source: trace, path: '{traces}'}}", "{model: measured, device: h100_sxm}", "names no kernel"),
            ("{source: inference, model: gpt2-small, phase: decode, context: 8, tp: 2}", "{model: replay}",
             "compute: is missing: the workload is generated")):
        design.write_text(f"workload: {work}\ncompute: {compute}\nmemory: h100_sxm\n"
                          "network: {dims: [{shape: switch, npus: 2, bandwidth: 1 GB/s, latency: 0 ns}]}\n")
        checked, ran = run("check", str(design)), run("run", str(design))
        assert (checked.code, ran.code) == (1, 1)
        assert words in checked.out
        assert words in ran.err


def test_traces_in_the_place_of_another_workload(run: Run, traces: str, tmp_path: Path) -> None:
    """The workload of the file is of another size than the network that `--set` makes; parts of the workload are those
    of the traces."""
    design = tmp_path / "design.yaml"
    design.write_text("workload: {source: transformer, model: gpt2-small, global_batch: 8, dp: 8}\n"
                      "compute: {model: replay}\n"
                      "network: {dims: [{shape: switch, npus: 8, bandwidth: 1 GB/s, latency: 0 ns}]}\n")
    words = (str(design), "--trace", traces, "--set", "network.dims[0].npus=2", "--set", "workload.dependencies=data")
    assert makespan(run, *words) == 300e3 + 100e6
