"""Studies read back, and what others get of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.search.designs import small_space

from astrarium.errors import InputError
from astrarium.search import Case, search
from astrarium.search.export import columns, rows, to_optuna, write_parquet, write_trajectory
from astrarium.search.studyfile import StoredStudy, load_study


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> StoredStudy:
    """A study with two objectives, a requirement and infeasible trials."""
    path = tmp_path_factory.mktemp("study") / "s.study"
    search(small_space(), ["makespan"], maximize={"speed": "1e9 / makespan"}, require="network_bandwidth <= 300",
           agent="random", trials=64, seed=4, study=path)
    return load_study(path)


def test_the_plan_comes_back(stored: StoredStudy, tmp_path: Path) -> None:
    plan = stored.plan
    assert plan.space.count == small_space().count
    assert [each.name for each in plan.goal.objectives] == ["makespan", "speed"]
    assert (plan.agent_name, plan.seed) == ("random", 4)
    assert stored.figures == ("makespan", "network_bandwidth")
    cases = [Case("a", 2.0), Case("b", 1.0, {"workload.payload": "1 MB"})]
    search(small_space(), "makespan", cases=cases, trials=10, study=tmp_path / "t")
    assert load_study(tmp_path / "t").plan.goal.cases == tuple(cases)
    assert load_study(tmp_path / "t").plan.described() == load_study(tmp_path / "t").plan.described()
    search(small_space(), lambda design, result: result.makespan_ps, trials=10, study=tmp_path / "f")
    again = load_study(tmp_path / "f")
    assert again.functions
    assert len(list(again.trials())) == 10


def test_rows_are_the_trials(stored: StoredStudy) -> None:
    found = list(rows(stored))
    assert len(found) == 64
    for row, trial in zip(found, stored.trials()):
        assert list(row) == list(columns(stored))
        assert row["feasible"] is trial.verdict.feasible
        assert row["knob:network.dims[0].bandwidth"] in (25.0, 50.0, 100.0)
        if trial.verdict.values:
            assert row["figure:makespan"] == row["objective:makespan"] == trial.verdict.values[0]
            assert row["slack:network_bandwidth <= 300"] == 300 - row["figure:network_bandwidth"] >= 0
        else:
            assert row["problem"] == "requirement network_bandwidth <= 300 is not met"
    assert {row["feasible"] for row in found} == {True, False}


def test_parquet_and_card(stored: StoredStudy, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    assert write_parquet(stored, str(tmp_path / "trials.parquet")) == 64
    table = parquet.read_table(tmp_path / "trials.parquet")
    assert table.to_pylist() == list(rows(stored))
    text = (tmp_path / "trials.md").read_text()
    assert all(f"`{name}`" in text for name in table.column_names)
    assert "closed_form" in text
    with pytest.raises(InputError, match="cannot be written"):
        write_parquet(stored, str(tmp_path / "no" / "trials.parquet"))


def test_trajectory(stored: StoredStudy, tmp_path: Path) -> None:
    assert write_trajectory(stored, str(tmp_path / "t.jsonl")) == 64
    lines = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == list(range(64))
    assert all((line["reward"] is None) == (line["observation"] is None) for line in lines)
    assert all(line["reward"] == -line["observation"]["makespan"] for line in lines if line["reward"] is not None)


@pytest.mark.filterwarnings("ignore")
def test_optuna(stored: StoredStudy, tmp_path: Path) -> None:
    optuna = pytest.importorskip("optuna")
    storage = f"sqlite:///{tmp_path / 'optuna.db'}"
    to_optuna(stored, storage, "ours")
    again = optuna.load_study(study_name="ours", storage=storage)
    assert len(again.trials) == 64
    good = [trial for trial in stored.trials() if trial.verdict.feasible]
    assert {trial.values[0] for trial in again.best_trials} <= {trial.verdict.values[0] for trial in good
                                                                if trial.verdict.values}
    with pytest.raises(InputError, match="already"):
        to_optuna(stored, storage, "ours")


def test_what_is_no_study_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no database " * 1000)
    for name, says in [("nothing", "is not a file"), ("text", "is not a study")]:
        with pytest.raises(InputError, match=says):
            load_study(tmp_path / name)
