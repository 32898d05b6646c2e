"""The page of a search begins with its answer, and its plot of convergence shows what the line stands out from."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.report.test_study_interval import DESIGN

import astrarium as ar
from astrarium.report.pages.study import study_page
from astrarium.report.tables.study_answer import study_answer
from astrarium.report.tables.study_data import StudyReport, study_report
from astrarium.search.studyfile import load_study


def report(folder: Path, tp: int, *objectives: str, seeds: int = 1, require: str = "") -> StudyReport:
    (folder / "design.yaml").write_text(DESIGN.replace("tp: 8, dp: 2", f"tp: {tp}, dp: {16 // tp}"))
    space = ar.Space(ar.load_design(folder / "design.yaml"), {"workload.tp": [1, 2, 4, 8], "workload.micro_batch": [
        1, 2]}, derived={"workload.dp": "16 // workload.tp"})
    names = [str(folder / f"{tp}_{seed}.study") for seed in range(seeds)]
    for seed, name in enumerate(names):
        ar.search(space, list(objectives), agent="random", trials=8, seed=seed, study=name,
                  **({"require": require} if require else {}))
    return study_report([load_study(name) for name in names])


def test_the_best_against_the_base(tmp_path: Path) -> None:
    found = report(tmp_path, 8, "makespan")
    base, best = found.base.verdict.values[0], found.best[0][1].verdict.values[0]  # type: ignore[union-attr, index]
    share = f"{100 * (1 - best / base):.3g} % less than the base's"
    answer = study_answer(found)
    assert re.match(rf"Best makespan [\d.]+ s in trial \d+, {re.escape(share)} [\d.]+ s \(8 trials, ", answer)
    page = study_page(found)
    assert "<h1>llama3-8b on 16 x h100_sxm: makespan</h1>" in page
    assert f'<p class="lead">{answer.replace(chr(39), "&#x27;")}</p>' in page


def test_a_base_that_no_design_beats(tmp_path: Path) -> None:
    best = report(tmp_path, 8, "makespan").space.values(report(tmp_path, 8, "makespan").best[0][1].point)
    found = report(tmp_path, int(best["workload.tp"]), "makespan", "peak_memory")
    answer = study_answer(found)
    assert "as good as the base" in answer
    assert f"{len(found.front)} designs are on the Pareto front" in answer
    assert "Undecided: which design has the best makespan (" in answer


def test_a_base_that_the_space_lacks_is_not_called_the_base(tmp_path: Path) -> None:
    (tmp_path / "design.yaml").write_text(DESIGN)
    space = ar.Space(ar.load_design(tmp_path / "design.yaml"), {"network.dims[1].bandwidth": ["25 GB/s", "100 GB/s"]})
    assert space.axes[0].otherwise is None      # the base has bandwidth_per_npu
    study = ar.search(space, "makespan", agent="random", trials=2, study=str(tmp_path / "a.study"))
    assert re.search(r"\n  near base  +[\d.]+ s \(trial 0\)", str(study))
    answer = study_answer(study_report([load_study(str(tmp_path / "a.study"))]))
    assert "the design nearest to the base's " in answer or "as good as the design nearest to the base" in answer


def test_no_feasible_design(tmp_path: Path) -> None:
    found = report(tmp_path, 8, "makespan", require="peak_memory <= 1 GB")
    answer = study_answer(found)
    assert answer.startswith("No trial met every requirement (8 trials, ")
    assert found.nearest is not None
    number = found.nearest.trial.number
    assert f"Missed: peak_memory <= 1 GB: by 8 of 8 trials, trial {number} by " in answer
    page = study_page(found)
    assert f"Nearest to all requirements (trial {number})" in page
    assert f"trial{number}.yaml" in page
    assert "base.yaml" in page
    assert "best.yaml" not in page


@pytest.mark.parametrize("seeds", [1, 2])
def test_convergence_shows_designs_down_to_the_line(tmp_path: Path, seeds: int) -> None:
    found = report(tmp_path, 8, "makespan", seeds=seeds)
    plot = ar.plot.convergence(found)
    dots, line = (next(each for each in plot.layers if each.mark == mark).columns["y"].values
                  for mark in ("point", "line"))
    own = [value for each in found.convergence for value in each.own.tolist()]
    assert len(own) == sum(each.distinct - each.infeasible for each in found.summaries)
    assert min(dots) == min(own)
    assert max(dots) <= max(*line, sorted(own)[len(own) // 4])
    assert max(dots) > min(line)
    left = len(own) - len(dots)
    assert (f"{left} worse ones are left out" in plot.sentence) == (left > 0)
