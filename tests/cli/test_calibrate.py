"""`calibrate`: timings in, a device that a design can name out."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.commands import Run

from astrarium.compute.kernels import load
from astrarium.trace import TraceBuilder
from astrarium.validate.calibrate import class_sentence
from astrarium.vocab import CommOp

DESIGN = """
workload: {source: transformer, global_batch: 2, tp: 2,
           model: {family: decoder, layers: 2, d_model: 128, heads: 4, ffn: 256, vocab: 512, seq: 64}}
network: {dims: [{shape: switch, npus: 2, latency: 500 ns, bandwidth: 450 GB/s}]}
compute: {model: calibrated, file: mine.toml}
memory: h100_sxm
"""


def timings(path: Path, slower: float) -> None:
    lines = ["kind,m,n,k,ns"]
    for m in range(1024, 9000, 512):
        ns = load("h100_sxm").latency_ns("gemm", "bf16", np.array([[1.0], [m], [4096.0], [4096.0]]))[0]
        lines.append(f"gemm,{m},4096,4096,{slower * ns}")
    path.write_text("\n".join(lines))


def test_a_slower_device_makes_a_slower_run(run: Run, tmp_path: Path) -> None:
    spans = []
    for slower in (1.0, 2.0):
        timings(tmp_path / "t.csv", slower)
        folder = tmp_path / str(slower)
        folder.mkdir()
        said = run("calibrate", tmp_path / "t.csv", "--base", "h100_sxm", "-o", folder / "mine.toml")
        assert said.code == 0
        assert "gemm/bf16: 16 rows" in said.err
        (folder / "design.yaml").write_text(DESIGN)
        said = run("run", folder / "design.yaml")
        assert said.code == 0
        spans.append(float(said.out.split("makespan")[1].split()[0]))
    assert spans[1] > 1.2 * spans[0]


def test_what_is_missing_is_named(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    timings(tmp_path / "t.csv", 1.0)
    assert "--peak: is missing" in run("calibrate", tmp_path / "t.csv").err
    assert "did you mean 'h100_sxm'" in run("calibrate", tmp_path / "t.csv", "--base", "h100_sxn").err
    assert "there are no timings" in run("calibrate").err
    assert run("calibrate", tmp_path / "t.csv", "--base", "h100_sxm", "--units", "3").code == 1
    assert "--limit: has no effect" in run("calibrate", tmp_path / "t.csv", "--limit", "9").err
    assert "--out: is missing" in run("calibrate", "--measure").err
    monkeypatch.setitem(sys.modules, "torch", None)
    assert "PyTorch is not installed" in run("calibrate", "--measure", "-o", tmp_path / "mine.toml").err


@pytest.mark.parametrize(("flag", "value", "words"), [
    ("--units", "0", "--units: '0'; expected a whole number above 0"),
    ("--units", "9" * 30, "expected a whole number above 0"),
    ("--peak", "0 TFLOP/s", "--peak: '0 TFLOP/s' is 0; expected the rate of a data sheet, above 0"),
    ("--bandwidth", "0 TB/s", "--bandwidth: '0 TB/s' is 0")])
def test_a_data_sheet_of_nothing_is_refused(flag: str, value: str, words: str, run: Run, tmp_path: Path) -> None:
    timings(tmp_path / "t.csv", 1.0)
    sheet = {"--peak": "989 TFLOP/s", "--bandwidth": "3.35 TB/s", "--units": "132", flag: value}
    said = run("calibrate", tmp_path / "t.csv", *(word for pair in sheet.items() for word in pair))
    assert said.code in (1, 2)
    assert words in said.err


TWO_HOSTS = """
workload: {source: trace, path: w.*.et}
network: {dims: [{shape: switch, npus: 8, latency: 500 ns, bandwidth: 450 GB/s, fabric: dgx_h100_nvswitch},
                 {shape: switch, npus: 2, latency: 2 us, bandwidth: 50 GB/s, fabric: my_nics}]}
collective: {model: measured}
"""


def logged_us(size: int) -> float:
    return min(60 + size / 40e3, 90 + size / 350e3)


def nccl_log(path: Path, hosts: int) -> Path:
    """An all_reduce of 8 ranks in each host."""
    lines = [f"#  Rank {n:2d} Group  0 Pid 9 on node-{n // 8} device {n % 8} [0x{n % 8}] NVIDIA"
             for n in range(8 * hosts)]
    lines.append("#  size count type redop root time algbw busbw #wrong")
    lines += [f"{2**n} {2**n // 4} float sum -1 {logged_us(2**n):.2f} 1 1 0" for n in range(10, 31)]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_logs_of_two_hosts_make_a_design_take_what_they_took(run: Run, tmp_path: Path) -> None:
    said = run("calibrate", nccl_log(tmp_path / "all_reduce_perf.log", 2), "--fabric", "my_nics",
               "--link-bandwidth", "50 GB/s", "--inside", "dgx_h100_nvswitch", "-o", tmp_path / "mine.toml", "--json")
    assert said.code == 0
    fit = json.loads(said.out)["median_errors"]["all_reduce of 2 x 8 ranks"]
    assert "all_reduce of 2 x 8 ranks: median error" in said.err
    (tmp_path / "design.yaml").write_text(TWO_HOSTS)
    for size in (2**12, 2**20, 2**28):
        for rank in range(16):
            trace = TraceBuilder()
            trace.coll("sum", CommOp.ALL_REDUCE, size)
            trace.write(tmp_path / f"w.{rank}.et")
        ran = run("run", tmp_path / "design.yaml", "--catalog", tmp_path / "mine.toml", "--json")
        assert ran.code == 0
        took = json.loads(ran.out)["summary"]["makespan_ns"] / 1e3
        assert took == pytest.approx(logged_us(size), rel=max(3 * fit, 0.002))


def test_fabrics_that_do_not_fit_together_are_refused(run: Run, tmp_path: Path) -> None:
    two, one = nccl_log(tmp_path / "all_reduce_2.log", 2), nccl_log(tmp_path / "all_reduce_1.log", 1)
    flags = ("--fabric", "mine", "--link-bandwidth", "50 GB/s")
    assert "of one host and of several" in run("calibrate", two, one, *flags).err
    assert "--inside: is missing" in run("calibrate", two, *flags).err
    assert "lies between hosts" in run("calibrate", two, *flags, "--inside", "efa_p5").err
    assert "did you mean 'dgx_h100_nvswitch'" in run("calibrate", two, *flags, "--inside", "dgx_h100_nvswich").err
    assert "--inside: has no effect" in run("calibrate", one, *flags, "--inside", "dgx_h100_nvswitch").err


def test_a_class_without_a_correction_says_so() -> None:
    said = [class_sentence("gemm/bf16", 5, ((9.0, 20.0), after)) for after in ((9.0, 20.0), (3.0, 8.0))]
    assert "p90 20 %; not corrected" in said[0]
    assert "3 %, 8 % after" in said[1]
