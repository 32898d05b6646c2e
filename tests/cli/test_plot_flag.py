"""`--plot NAME=FILE`: pictures of what a verb found, refused before any work where they cannot be written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.commands import Run

DESIGN = """workload: {source: collective, op: all_reduce, payload: 1 MB}
network: {dims: [{shape: ring, npus: 4, bandwidth: 50 GB/s, latency: 1 us}]}
"""


def test_pictures_of_a_run(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("design.yaml").write_text(DESIGN)
    said = run("run", "design.yaml", "--plot", "breakdown=a.svg", "--plot", "links=b.json")
    assert said.code == 0
    assert Path("a.svg").read_text().startswith("<?xml")
    assert json.loads(Path("b.json").read_text())["title"]["text"] == "Busy links"


@pytest.mark.parametrize(("plot", "words"), [
    ("breakdown", "has no file; expected NAME=FILE"), ("pareto=a.svg", "draws what report find"),
    ("breakdown=a.bmp", "ends in '.bmp'; expected NAME.svg"), ("brakdown=a.svg", "did you mean 'breakdown'?"),
    ("breakdown=no/such/a.svg", "no/such"), ("pipeline=a.svg", "expected a Transformer")])
def test_refusals(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plot: str, words: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("design.yaml").write_text(DESIGN)
    said = run("run", "design.yaml", "--plot", plot)
    assert said.code == 1
    assert words in said.err
    assert not Path("a.svg").exists()


def test_two_designs_have_a_waterfall(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("design.yaml").write_text(DESIGN)
    said = run("explain", "design.yaml", "--set", "network.dims[0].bandwidth=100 GB/s", "--plot", "waterfall=w.json")
    assert said.code == 0
    rows = json.loads(Path("w.json").read_text())["layer"][0]["data"]["values"]
    assert [row["colour"] for row in rows] == ["makespan", "shorter", "makespan"]
    assert rows[0]["x2"] + rows[1]["adds"] == pytest.approx(rows[2]["x2"])
