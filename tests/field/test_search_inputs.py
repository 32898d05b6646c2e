"""Studies that go on after a file of theirs has changed. Source: users' report, issue 35 line 12b."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.commands import Run

MICRO = """workload: {source: micro, pattern: collectives, count: 4, payload: %s}
network: {dims: [{shape: ring, npus: 4, bandwidth: 50 GB/s, latency: 1 us}]}
"""
SPACE = """base:
  workload: {source: trace, path: tr/m, groups: tr/m.groups.json}
  network: {dims: [{shape: ring, npus: 4, bandwidth: 50 GB/s, latency: 1 us}]}
  collective: {choice: none, all_reduce: [ring], all_gather: [ring], reduce_scatter: [ring], all_to_all: [direct]}
choices:
  network.dims[0].bandwidth: {from: 10 GB/s, to: 500 GB/s, step: 10 GB/s}
  collective.chunks: [1, 2, 4, 8]
minimize: makespan
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> Path:
    """A folder with a search over a trace, and ten trials of it in s.study."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").write_text(SPACE)
    (tmp_path / "tr").mkdir()
    trace(tmp_path, run, "1 MB")
    assert searched(run, 10).code == 0
    return tmp_path


def trace(folder: Path, run: Run, payload: str) -> None:
    (folder / "w.yaml").write_text(MICRO % payload)
    assert run("trace", "write", "w.yaml", "-o", "tr/m").code == 0


def searched(run: Run, trials: int, study: str = "s.study"):      # type: ignore[no-untyped-def]
    return run("search", "s.yaml", "--agent", "random", "--trials", trials, "--study", study)


def test_a_trace_16_times_as_large_is_refused(here: Path, run: Run) -> None:
    trace(here, run, "16 MB")
    said = searched(run, 20)
    assert said.code == 1
    assert "holds trials of other inputs: file tr/m.0.et has changed" in said.err
    assert "--study s.2.study" in said.err


def test_both_ways_on(here: Path, run: Run) -> None:
    """The new study takes no trial of the old one; with the old trace back, the old study goes on."""
    trace(here, run, "16 MB")
    new = searched(run, 20, "s.2.study")
    assert "20 trials in" in new.out
    assert "makespan       102.9 us" not in new.out
    trace(here, run, "1 MB")
    old = searched(run, 20)
    assert "10 trials in" in old.out
    assert "makespan       102.9 us" in old.out


def test_a_search_that_finds_nothing_names_the_requirement_and_the_nearest_design(
        run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It said `none: no trial met every requirement`, and not which one, nor by how much."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").write_text(
        "base:\n  workload: {source: collective, op: all_reduce, payload: 1 MB}\n"
        "  network: {dims: [{shape: ring, npus: 4, bandwidth: 50 GB/s, latency: 500 ns}]}\n"
        "choices:\n  network.dims[0].bandwidth: [50 GB/s, 100 GB/s]\n  collective.chunks: [1, 2]\n")
    search = ("search", "s.yaml", "--agent", "grid", "--trials", "4", "--no-study")
    said = run(*search, "--require", "makespan <= 1 us", "--require", "network_cost <= 1600")
    assert "missed         makespan <= 1 us: by 2 of 4 trials, trial " in said.out      # the others did not run
    assert "missed         network_cost <= 1600: by 2 of 4 trials, trial " in said.out
    assert "nearest to all requirements (trial " in said.out
    kept = run("search", "s.yaml", "--agent", "grid", "--require", "makespan <= 1 us", "--best", "b.yaml", "--html",
               "s.html", "--study", "s.study")
    assert kept.code == 1
    assert "missed         makespan <= 1 us: by 4 of 4 trials, trial " in kept.out
    assert "--best: no trial met every requirement, so there is no best design" in kept.err
    assert "Missed: makespan &lt;= 1 us: by 4 of 4 trials, trial " in (tmp_path / "s.html").read_text()
    assert not (tmp_path / "b.yaml").exists()
    assert "missed  makespan <= 1 us: by 4 of 4 trials, trial " in run("report", "s.study").out
    found = json.loads(run(*search, "--json", "--require", "makespan <= 1 us").out)
    near, all_of_them = found["nearest"], json.loads(run(*search, "--json").out)
    assert near["missed_by"] == {"makespan <= 1 us": all_of_them["best"]["objectives"]["makespan"] - 1000}
    assert near["trials_that_miss"] == {"makespan <= 1 us": 4}
    assert near["design"] == all_of_them["best"]["design"]
    assert found["best"] is None
    assert "nearest" not in all_of_them
