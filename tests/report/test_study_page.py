"""The page of a search begins with its answer, and its plot of convergence shows what the line stands out from."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.report.test_study_interval import DESIGN

import astrarium as ar
from astrarium.report.pages.study import study_page
from astrarium.report.tables.study import best_table, short_names
from astrarium.report.tables.study_answer import hidden_plots, infeasible_words, study_answer
from astrarium.report.tables.study_data import StudyReport, study_report
from astrarium.report.tables.study_fit import capacity_of
from astrarium.search.analysis import most_important
from astrarium.search.studyfile import load_study
from astrarium.units import format_bytes


def report(folder: Path, tp: int, *objectives: str, seeds: int = 1, require: str = "",
           cap: float | None = None) -> StudyReport:
    folder.mkdir(exist_ok=True)
    (folder / "design.yaml").write_text(DESIGN.replace("tp: 8, dp: 2", f"tp: {tp}, dp: {16 // tp}"))
    space = ar.Space(ar.load_design(folder / "design.yaml"), {"workload.tp": [1, 2, 4, 8], "workload.micro_batch": [
        1, 2]}, derived={"workload.dp": "16 // workload.tp"})
    names = [str(folder / f"{tp}_{seed}.study") for seed in range(seeds)]
    for seed, name in enumerate(names):
        ar.search(space, list(objectives), agent="random", trials=8, seed=seed, study=name, cap=cap,
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


def test_designs_that_do_not_fit_are_marked(tmp_path: Path) -> None:
    """Where no requirement keeps them out: in the answer, the table and the page; and memory is on the page."""
    found = report(tmp_path, 8, "makespan", require="peak_memory > 1 GB")
    page, best = study_page(found), found.best[0][1]
    memory = [found.memory[trial.design] for _, trial in found.best]
    capacity = capacity_of(found.space, best)
    assert capacity is not None
    large = [peak > capacity for peak in memory]
    assert 0 < sum(large) < len(large)
    assert page.count("B: does NOT fit</td>") == sum(large)
    assert all(format_bytes(peak) in page for peak in memory)
    cells = next(row for table in best_table(found.ranked, found.space, found.goal) for row in table.rows
                 if row[0].strip() == "of memory.capacity")
    assert [cell == "does NOT fit" for cell in cells[1:]] == large
    answer = study_answer(found)
    assert (f"Trial {best.number} does NOT fit" in answer) == large[0]
    asked = report(tmp_path / "asked", 8, "makespan", require="peak_memory <= memory.capacity")
    assert "does NOT fit" not in study_page(asked)


def test_infeasible_trials_are_refused_or_miss_a_requirement(tmp_path: Path) -> None:
    found = report(tmp_path, 8, "makespan", require="peak_memory <= memory.capacity")
    one = found.summaries[0]
    assert one.infeasible > 0
    words = infeasible_words(found)
    assert words.startswith(f"{one.infeasible} infeasible: ")
    assert sum(map(int, re.findall(r"\d+", words.partition(": ")[2]))) == one.infeasible
    assert words in study_answer(found)
    assert f"{words}." in study_page(found)
    assert infeasible_words(report(tmp_path / "all", 8, "makespan")) == ""


def test_what_the_cap_stops_is_no_miss_of_a_requirement(tmp_path: Path) -> None:
    found = report(tmp_path, 1, "makespan", cap=1.0)
    one = found.summaries[0]
    assert one.capped > 0
    assert one.infeasible == 0
    assert infeasible_words(found) == f"{one.capped} stopped at the cap"


def test_a_requirement_that_is_sure_to_be_missed_is_refused_without_a_run(tmp_path: Path) -> None:
    found = report(tmp_path, 8, "makespan", require="peak_memory <= 1 MB")
    assert infeasible_words(found) == "8 infeasible: 8 refused without a run"


def test_an_objective_that_is_a_knob_is_shown_once_with_its_unit(tmp_path: Path) -> None:
    path = "network.dims[1].bandwidth_per_npu"
    (tmp_path / "design.yaml").write_text(DESIGN)
    space = ar.Space(ar.load_design(tmp_path / "design.yaml"), {path: ["25 GB/s", "50 GB/s"], "workload.tp": [4, 8]},
                     derived={"workload.dp": "16 // workload.tp"})
    ar.search(space, ["makespan", path], agent="grid", trials=4, study=str(tmp_path / "a.study"))
    found = study_report([load_study(str(tmp_path / "a.study"))])
    page = re.sub("<wbr>", "", study_page(found))
    assert len(re.findall(r"<th[^>]*>dims\[1\]\.bandwidth_per_npu</th>", page)) == 2       # the best, and the front
    assert f"best {path} 25 GB/s" in study_answer(found)
    assert "best network.dims[1].bandwidth_per_npu 25 GB/s." in ar.plot.pareto(found).sentence


@pytest.mark.parametrize("knob", ["network.dims[0].latency", "workload.seq"])
def test_what_is_undecided_has_no_chart(tmp_path: Path, knob: str) -> None:
    (tmp_path / "design.yaml").write_text(DESIGN)
    values = ["1 us", "2 us", "3 us"] if "latency" in knob else [1024, 4096, 8192]
    space = ar.Space(ar.load_design(tmp_path / "design.yaml"), {
        knob: values, "network.dims[1].latency": ["3 us", "4 us", "5 us"], "workload.vocab_multiple": [1, 2, 128]})
    ar.search(space, "makespan", agent="grid", trials=27, study=str(tmp_path / "a.study"))
    found = study_report([load_study(str(tmp_path / "a.study"))])
    assert found.importances
    assert (most_important(found.importances) is None) == ("latency" in knob)
    page, undecided = study_page(found), most_important(found.importances) is None
    assert ("<details><summary>The estimates</summary>" in page) == undecided
    assert ("how much a model of the trials errs more" in page.partition("<details><summary>The estimates")[0]
            ) != undecided
    assert hidden_plots(found) == (("importance",) if undecided else ())


def test_names_of_knobs_are_short_where_that_is_unique() -> None:
    assert short_names(["workload.tp", "network.backend", "memory.bandwidth"]) == {
        "workload.tp": "tp", "network.backend": "backend", "memory.bandwidth": "memory.bandwidth"}
    assert short_names(["collective.model", "workload.model"]) == {
        "collective.model": "collective.model", "workload.model": "workload.model"}
