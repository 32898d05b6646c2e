"""`print` of an answer shows the tables of its verb."""

from __future__ import annotations

from pathlib import Path

from tests.commands import Run

import astrarium as ar


def test_a_run(root: Path, run: Run) -> None:
    path = root / "examples" / "quickstart" / "design.yaml"
    said = run("run", path).out
    title, *lines = str(ar.simulate(ar.load_design(path), record=True)).splitlines()
    assert title == "run"
    assert [line for line in lines if line not in said] == []
    assert len(lines) > 10


def test_a_plan(run: Run) -> None:
    said = run("plan", "gpt2-small", "--device", "h100_sxm", "--gpus", 8, "--global-batch", 8, "--top", 2).out
    assert str(ar.plan("gpt2-small", "h100_sxm", 8, global_batch=8, top=2)).strip() == said.strip()


def test_a_search(root: Path) -> None:
    design = ar.load_design(root / "examples" / "quickstart" / "design.yaml")
    study = ar.search(ar.Space(design, {"collective.chunks": [1, 2]}), "makespan", agent="grid", trials=2)
    assert "best design (trial" in str(study)
    assert "2 feasible designs" in str(study)
