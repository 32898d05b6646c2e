"""`astrarium trace suite`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from astrarium.trace import check, read_groups, read_traces

if TYPE_CHECKING:
    from tests.commands import Run


def test_list_card_design_and_make(run: Run, tmp_path: Path) -> None:
    assert "dense-train-32768" in run("trace", "suite", "list").out
    assert json.loads(run("trace", "suite", "list", "--json").out)["version"] >= 1
    card = json.loads(run("trace", "suite", "card", "vit-train-8").out)
    assert (card["ranks"], card["licence"]) == (8, "Apache-2.0")
    said = run("trace", "suite", "make", "vit-train-8", "-o", tmp_path / "v")
    assert said.code == 0, said.err
    traces = read_traces(tmp_path / "v")
    assert traces.nodes == card["nodes"]
    assert not [f for f in check(traces, read_groups(tmp_path / "v.groups.json")) if f.severity == "error"]
    assert json.loads((tmp_path / "v.card.json").read_text()) == card


def test_the_design_section_runs_without_files(run: Run, tmp_path: Path) -> None:
    network = "network: {dims: [{shape: switch, npus: 8, bandwidth: 50 GB/s, latency: 1 us}]}\n"
    text = run("trace", "suite", "design", "dlrm-train-8").out
    (tmp_path / "d.yaml").write_text(f"{text}{network}compute: {{model: roofline, peak: 100 TFLOP/s}}\n"
                                     "memory: {capacity: 80 GB, bandwidth: 2 TB/s}\n")
    said = run("run", tmp_path / "d.yaml", "--json")
    assert said.code == 0, said.err


def test_too_much_is_asked_for_twice(run: Run, tmp_path: Path) -> None:
    said = run("trace", "suite", "make", "dense-train-32768", "-o", tmp_path / "x")
    assert (said.code, "--force" in said.err) == (1, True), said.err
