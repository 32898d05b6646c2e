"""Designs of which each one that is finished is replaced at once: order, replay, kills."""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.search.designs import ready, small_space, tiny_space
from tests.search.test_study import SCRIPT, killed_many_times, rows

import astrarium as ar
from astrarium.errors import InputError
from astrarium.search import Study, search
from astrarium.search.agents import agent_options
from astrarium.search.evaluate import Evaluator
from astrarium.search.goal import goal_of
from astrarium.search.store import Store
from astrarium.search.study import conduct
from astrarium.search.studyfile import Plan, load_study
from astrarium.search.trial import Verdict
from astrarium.search.workers import Workers

AGENTS = ("random", "genetic", "ant_colony", "bayesian", "tpe")


class Shuffled(Workers):
    """Points finish in a random order; after `most` of them the search is interrupted."""

    def __init__(self, seed: int, most: int):
        super().__init__(tiny_space(), goal_of("makespan"))
        self.draw, self.most = random.Random(seed), most

    def finished(self) -> tuple[int, Verdict]:
        self.most -= 1
        if self.most < 0:
            raise KeyboardInterrupt
        self._begun.rotate(self.draw.randrange(len(self._begun)))
        return super().finished()


def shuffled(path: Path, agent: str, seed: int, most: int) -> Study:
    """A search of 24 trials with five in flight."""
    plan = Plan(tiny_space(), goal_of("makespan"), agent_options(agent, {"in_flight": 5}), 2)
    with Shuffled(seed, most) as workers, Store(str(path)) as store:
        return conduct(plan, 24, store, workers)


@pytest.mark.parametrize("agent", [
    pytest.param(agent, marks=[pytest.mark.exam] * (agent == "ant_colony")) for agent in AGENTS])
def test_any_order_of_results_is_replayed(agent: str, tmp_path: Path) -> None:
    """Interrupted twice, and finished in other orders: the agent proposes all stored points again."""
    ready(agent)
    path, stored = tmp_path / "study", list[Any]()
    for seed, most in ((1, 7), (2, 9), (3, 1000)):
        if most < 1000:
            with pytest.raises(KeyboardInterrupt):
                shuffled(path, agent, seed, most)
        else:
            assert not shuffled(path, agent, seed, most).notes
        found = rows(path)
        assert found[:len(stored)] == stored
        stored = found
    assert [row[0] for row in stored] == list(range(24))
    assert sorted(row[1] for row in stored) == list(range(24))      # every ask has one trial
    assert [row[1] for row in stored] != list(range(24))
    judge = Evaluator(tiny_space(), goal_of("makespan"))
    for trial in load_study(tmp_path / "study").trials():
        assert trial.verdict.values == judge(trial.point).values
    assert not shuffled(path, agent, 4, 0).notes      # nothing is left to run


def test_a_study_in_pieces_is_the_whole_study(tmp_path: Path) -> None:
    more: dict[str, Any] = {"agent": "genetic", "options": {"in_flight": 3}}
    search(tiny_space(), "makespan", trials=60, study=tmp_path / "whole", **more)
    for trials in (1, 34, 35, 60):
        assert search(tiny_space(), "makespan", trials=trials, study=tmp_path / "pieces", **more).trials == trials
    assert rows(tmp_path / "whole") == rows(tmp_path / "pieces")


def test_processes_find_the_same(tmp_path: Path) -> None:
    """Grid needs no results: its trials are the same in any order."""
    studies = [search(tiny_space(), "makespan", agent="grid", options={"in_flight": 4}, trials=60, jobs=jobs,
                      study=tmp_path / name, processes=jobs > 1) for name, jobs in (("one", 1), ("two", 2))]
    assert studies[0].objectives() == studies[1].objectives()
    one, two = ({(row[2], row[5]) for row in rows(tmp_path / name)} for name in ("one", "two"))
    assert one == two


def test_a_finished_design_is_replaced_at_once() -> None:
    """A design waits until ten others are finished, which a batch would not allow."""
    calls, go = itertools.count(), threading.Event()

    def objective(_: ar.Design, result: Any) -> float:
        call = next(calls)      # 0: the base
        if call == 1:
            assert go.wait(20)
        elif call == 11:
            go.set()
        return float(result.makespan)

    found = search(tiny_space(), objective, agent="random", options={"in_flight": 2}, trials=14, jobs=2)
    assert found.trials == 14
    assert found.refused == 0


def test_equal_designs_run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    judged = Counter[Any]()
    judge = Evaluator.all

    def counted(self: Evaluator, points: Any, cap: Any = None) -> Any:
        judged.update(points)
        return judge(self, points, cap)

    monkeypatch.setattr(Evaluator, "all", counted)
    found = search(tiny_space(), "makespan", agent="random", options={"in_flight": 8}, trials=250)
    assert found.distinct == len(judged) < 250
    assert set(judged.values()) == {1}


def test_an_agent_with_batches_only_says_so() -> None:
    with pytest.raises(InputError, match="in_flight"):
        agent_options("annealing", {"in_flight": 2})


def test_a_cap_is_of_rounds() -> None:
    with pytest.raises(InputError, match="cap: is that of the rounds of a search"):
        search(tiny_space(), "makespan", agent="random", options={"in_flight": 8}, trials=9, cap=2)


@pytest.mark.exam
def test_kills_lose_and_double_nothing(tmp_path: Path) -> None:
    path, trials = tmp_path / "study", 1_500
    killed_many_times(path, trials, 12, "genetic:4", 2)
    found = rows(path)
    assert [row[0] for row in found] == list(range(trials))
    assert sorted(row[1] for row in found) == list(range(trials))
    again = search(small_space(), "makespan", require="makespan < 2e7", agent="genetic", options={"in_flight": 4},
                   trials=trials, seed=5, study=path)
    assert again.fresh == 0
    assert not again.notes


@pytest.mark.exam
def test_of_two_processes_one_works(tmp_path: Path) -> None:
    path, trials = tmp_path / "study", 600
    command = [sys.executable, str(SCRIPT), str(path), str(trials), "genetic:4", "2"]
    environment = {**os.environ, "PYTHONPATH": str(Path(ar.__file__).resolve().parents[1])}
    both = [subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            for _ in range(2)]
    said = [process.communicate(timeout=120)[1] for process in both]
    refused = ["another process works on this study" in text for text in said]
    assert [process.returncode for process in both] == [int(each) for each in refused]
    assert sum(refused) == 1
    assert sorted(row[1] for row in rows(path)) == list(range(trials))
