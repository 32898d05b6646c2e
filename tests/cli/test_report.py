"""`astrarium report`: tables, one HTML page, CSV and other exports of studies."""

from __future__ import annotations

import csv
import json
import re
import shutil
import sqlite3
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.commands import Run, write_design

import astrarium as ar
from astrarium.cli import main
from astrarium.search.evaluate import Evaluator
from astrarium.search.studyfile import load_study

from .conftest import write_traces

SPACE = """
base: design.yaml
choices:
  network.dims[0].shape: [ring, switch, fully_connected]
  network.dims[0].bandwidth: {from: 25 GB/s, to: 400 GB/s, step: 25 GB/s}
  collective.chunks: [1, 2, 4]
minimize: [makespan, network_bandwidth]
require: network_bandwidth <= 600
agent: random
trials: 60
"""


STUDIES = ["space.random-0.study", "space.random-1.study"]


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a search file and the studies of two seeds of it."""
    folder = tmp_path_factory.mktemp("searched")
    write_traces(folder / "et")
    write_design(folder)
    (folder / "space.yaml").write_text(SPACE)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for seed in ("0", "1"):
            assert main(["search", "space.yaml", "--seed", seed]) == 0
    return folder


@pytest.fixture
def studies(searched: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Two seeds of one search, in a copy of that folder."""
    shutil.copytree(searched, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return STUDIES


class _Page(HTMLParser):
    """Tags that are open, words, and everything that a page would load."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loads += [value or "" for name, value in attrs if name in ("src", "href")
                       and not (value or "").startswith(("#", "data:"))]
        if tag not in ("meta", "wbr"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loads += [value or "" for name, value in attrs if name in ("src", "href")
                       and not (value or "").startswith(("#", "data:"))]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_tables_and_page(studies: list[str], run: Run) -> None:
    said = run("report", *studies, "--html", "page.html", "--recheck")
    assert said.code == 0, said.err
    for words in ("best designs", "contention", "importance of knobs", "collective.chunks", "closed_form",
                  "Pareto front\n  makespan  network_bandwidth"):
        assert words in said.out
    assert "Pareto front\n  trial  makespan  network_bandwidth" in run("report", studies[0]).out
    text = Path("page.html").read_text(encoding="utf-8")
    page = _Page()
    page.feed(text)
    assert page.open == []
    assert page.loads == []
    assert "nan" not in re.sub(r"(?s)<p.*?</p>|<script.*?</script>|<a download.*?>", "", text)
    found = "".join(page.words)
    for words in ("Pareto front", "Convergence", "Importance of knobs", "One knob at a time", "collective.chunks"):
        assert words in found


def test_the_same_page_twice(studies: list[str], run: Run) -> None:
    made = []
    for _ in range(2):
        run("report", *studies, "--html", "a.html")
        made.append(Path("a.html").read_bytes())
    assert made[0] == made[1]


def test_json_and_csv(studies: list[str], run: Run) -> None:
    found = json.loads(run("report", *studies, "--json", "--recheck").out)
    assert [each["seed"] for each in found["studies"]] == [0, 1]
    assert sum(each["trials"] for each in found["studies"]) == 120
    assert found["best"][0]["contention"] > 0
    assert found["proxy"]["r2"] <= 1
    assert {each["knob"] for each in found["sensitivities"]} == set(found["importances"])
    run("report", *studies, "--csv", "trials.csv")
    with open("trials.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 120
    assert {row["seed"] for row in rows} == {"0", "1"}
    assert run("report", *studies, "--csv", "-").out == Path("trials.csv").read_text()


def test_a_report_starts_from_what_is_stored(studies: list[str], run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Users' report, issue 35 line 14: it simulated for 3 to 12 minutes. Memory, which no trial was judged by, is that
    which the search found of its best designs."""
    again = json.loads(run("report", studies[0], "--json", "--recheck").out)

    def refuse(*_: object) -> None:
        raise AssertionError("a report has simulated")

    monkeypatch.setattr(Evaluator, "all", refuse)
    said = run("report", studies[0], "--html", "page.html", "--json")
    assert said.code == 0, said.err
    found = json.loads(said.out)
    assert (found["sensitivities"], found["best"][0]["contention"]) == ([], None)
    assert again["sensitivities"]
    kept = {each["trial"]: each["peak_memory"] for each in found["best"] if each["peak_memory"] is not None}
    assert kept.items() <= {each["trial"]: each["peak_memory"] for each in again["best"]}.items()
    assert "those that the search simulated and stored; --recheck" in Path("page.html").read_text(encoding="utf-8")


def test_memory_of_the_best_designs_is_kept(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("base.yaml").write_text("workload: {source: transformer, model: gpt2-small, global_batch: 8, dp: 4}\nnetwork: "
                                 "{dims: [{shape: ring, npus: 4, bandwidth: 50 GB/s, latency: 500 ns}]}\ncompute: "
                                 "{model: roofline, peak: 100 TFLOP/s}\nmemory: {bandwidth: 1 TB/s}\n")
    Path("space.yaml").write_text("base: base.yaml\nchoices: {workload.zero: [0, 1, 3]}\n")
    found = json.loads(run("search", "space.yaml", "--agent", "random", "--trials", "3", "--json").out)["ten_best"]
    assert all(each["peak_memory"] > 1e8 for each in found)
    report = json.loads(run("report", "space.random-0.study", "--json").out)["best"]
    assert [each["peak_memory"] for each in report] == [each["peak_memory"] for each in found]


def test_exports(studies: list[str], run: Run) -> None:
    assert run("report", studies[0], "--trajectory", "t.jsonl").code == 0
    assert len(Path("t.jsonl").read_text().splitlines()) == 60
    said = run("report", *studies, "--trajectory", "t.jsonl")
    assert (said.code, said.out) == (1, "")
    assert "one study at a time" in said.err


def test_studies_of_different_goals_are_refused(studies: list[str], run: Run) -> None:
    assert run("search", "space.yaml", "--minimize", "makespan", "--study", "other").code == 0
    said = run("report", *studies, "other")
    assert said.code == 1
    assert "has other objectives" in said.err
    for name, says in [("space.yaml", "is not a study"), ("nothing", "is not a file")]:
        said = run("report", name)
        assert (said.code, said.out) == (1, "")
        assert says in said.err
    data = sqlite3.connect("empty")
    data.close()
    assert run("report", "empty").code == 1


def test_few_and_infeasible_trials(studies: list[str], run: Run) -> None:
    assert run("search", "space.yaml", "--require", "makespan < 1", "--trials", "5", "--study", "none").code == 0
    said = run("report", "none", "--html", "none.html")
    assert said.code == 0
    assert "No trial met every requirement" in Path("none.html").read_text()


def test_a_trial_as_a_design_file(studies: list[str], run: Run) -> None:
    said = run("report", studies[0], "--design", "7", "-o", "seven.yaml")
    assert (said.code, said.out) == (0, "")
    study = load_study(studies[0])
    trial = next(each for each in study.trials() if each.number == 7)
    assert ar.load_design("seven.yaml") == study.plan.space.design(trial.point)
    for arguments, says in [(["--design", "60", "-o", "x.yaml"], "has no such trial; expected 0 to 59"),
                            (["--design", "6"], "expected --design N -o FILE"), (["-o", "x.yaml"], "both of them")]:
        said = run("report", studies[0], *arguments)
        assert (said.code, said.out) == (1, "")
        assert says in said.err
    assert run("report", *studies, "--design", "7", "-o", "x.yaml").code == 1


def test_knobs_memory_and_cost_of_the_best(studies: list[str], run: Run) -> None:
    said = run("report", *studies)
    table = said.out[said.out.index("10 designs of the Pareto front"):].split("\n\n")[0]
    for words in ("trial", "makespan", "network_bandwidth", "network cost", "network.dims[0].bandwidth"):
        assert words in table
    found = json.loads(run("report", *studies, "--json").out)["best"]
    assert all(each["network_cost"] > 0 and "peak_memory" in each for each in found)
