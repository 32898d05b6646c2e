"""`calibrate`: timings in, a device that a design can name out."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from astrarium.compute.kernels import load

from .conftest import Run

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


def test_what_is_missing_is_named(run: Run, tmp_path: Path) -> None:
    timings(tmp_path / "t.csv", 1.0)
    assert "--peak: is missing" in run("calibrate", tmp_path / "t.csv").err
    assert "did you mean 'h100_sxm'" in run("calibrate", tmp_path / "t.csv", "--base", "h100_sxn").err
    assert "there are no timings" in run("calibrate").err
    assert run("calibrate", tmp_path / "t.csv", "--base", "h100_sxm", "--units", "3").code == 1
