"""Studies: the store, resuming, and what a kill at any instant leaves."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tests.search.designs import ready, small_space, tiny_space

import astrarium as ar
from astrarium.errors import InputError, PluginError
from astrarium.report.tables.study import study_tables
from astrarium.search import Space, Trial, search
from astrarium.search.agents import agent_options
from astrarium.search.agents.base import Batch, Options
from astrarium.search.goal import goal_of
from astrarium.search.store import MEMORY, Store
from astrarium.search.study import conduct
from astrarium.search.studyfile import Plan
from astrarium.search.workers import Workers

SCRIPT = Path(__file__).with_name("killed.py")


def rows(path: Path) -> list[Any]:
    """Every trial without its duration."""
    data = sqlite3.connect(path)
    try:
        columns = 'number, round, point, design, same_as, "values", figures, slacks, problem'
        return data.execute(f"SELECT {columns} FROM trial ORDER BY number").fetchall()
    finally:
        data.close()


@pytest.mark.parametrize("agent", ["random", "genetic", "grid", *(
    pytest.param(agent, marks=pytest.mark.exam) for agent in ("annealing", "ant_colony"))])
def test_a_study_in_pieces_is_the_whole_study(agent: str, tmp_path: Path) -> None:
    whole = search(small_space(), "makespan", agent=agent, trials=40, seed=3, study=tmp_path / "whole")
    for trials in (1, 17, 18, 40):
        pieces = search(small_space(), "makespan", agent=agent, trials=trials, seed=3, study=tmp_path / "pieces")
        assert pieces.trials == trials
    assert rows(tmp_path / "whole") == rows(tmp_path / "pieces")
    assert pieces.fresh == 22
    assert pieces.best is not None
    assert whole.best is not None
    assert (pieces.best.number, pieces.best.point) == (whole.best.number, whole.best.point)
    assert pieces.distinct == whole.distinct
    again = search(small_space(), "makespan", agent=agent, trials=40, seed=3, study=tmp_path / "whole")
    assert again.fresh == 0


def test_any_number_of_workers_gives_the_same_trials(tmp_path: Path) -> None:
    for jobs, processes in ((1, False), (3, False), (2, True)):
        search(small_space(), "makespan", trials=60, seed=1, jobs=jobs, processes=processes,
               study=tmp_path / f"{jobs}{processes}")
    assert rows(tmp_path / "1False") == rows(tmp_path / "3False") == rows(tmp_path / "2True")


def test_parts_of_a_batch_are_as_long_as_designs_take() -> None:
    """Slow designs go to workers one by one, quick ones many at a time: so there is progress, and no long wait."""
    space, sizes = small_space(), list[int]()
    with Workers(space, goal_of("makespan"), 2) as workers:
        original = workers.evaluator.all

        def seen(points: Any, cap: Any) -> Any:
            sizes.append(len(points))
            return original(points, cap)
        workers.evaluator.all = seen      # type: ignore[method-assign]
        points = [space.point(number) for number in range(40)]
        list(workers(points))
        assert workers._pace < 1
        workers._pace = 0.01
        list(workers(points))
        workers._pace = 5.0
        list(workers(points))
    assert sizes == [1] * 40 + [10] * 4 + [1] * 40


def test_equal_designs_are_simulated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    from astrarium.search import subject

    original = subject.prepare
    monkeypatch.setattr(subject, "prepare", lambda design, **rest: calls.append(design) or original(design, **rest))
    study = search(small_space(), "makespan", agent="ant_colony", trials=300)
    assert len(calls) == study.distinct < study.trials == 300
    assert len(set(calls)) == len(calls)


def test_the_front_is_what_brute_force_says(tmp_path: Path) -> None:
    study = search(small_space(), ["makespan", "network_bandwidth"], agent="random", trials=200, seed=2,
                   study=tmp_path / "s")
    with Store(str(tmp_path / "s")) as store:
        values = [trial.verdict.values for trial in store.trials() if trial.verdict.values]
    best = {one for one in values if not any(other != one and other[0] <= one[0] and other[1] <= one[1]
                                             for other in values)}
    assert {trial.verdict.values for trial in study.front} == best
    assert len(study.front) == len(best) > 1
    assert study.best is study.front[0]


def test_maximise_and_requirements(tmp_path: Path) -> None:
    study = search(small_space(), maximize={"speed": "1e9 / makespan"}, require="network_bandwidth <= 250",
                   trials=80, study=tmp_path / "s")
    assert study.best is not None
    with Store(str(tmp_path / "s")) as store:
        trials = list(store.trials())
    good = [trial for trial in trials if trial.verdict.feasible]
    assert 0 < len(good) < len(trials)
    best = max(trial.verdict.values[0] for trial in good if trial.verdict.values)
    assert study.objectives() == {"speed": best}
    assert ar.get(small_space().design(study.best.point), "network.dims[0].npus") >= 2


def test_other_plans_and_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "study"
    search(small_space(), "makespan", agent="genetic", trials=10, study=path)
    for change, says in [({"seed": 1}, r"another seed \(0 there, 1 here\)"),
                         ({"agent": "random"}, r"another agent \(agent: genetic there, random here\)"),
                         ({"require": "makespan < 1"}, r"other requirements \(none there, \["),
                         ({"options": {"mutation": 0.2}}, r"another agent \(mutation: .* there, 0\.2 here\)")]:
        with pytest.raises(InputError, match=says):
            search(small_space(), "makespan", **{"agent": "genetic", **change}, trials=10, study=path)
    space = small_space()
    with pytest.raises(InputError, match=r"another space \(constraints\[0\]: .* == 64 there, .* == 128 here\)"):
        search(Space(space.base, space.choices, "network.npus == 128"), "makespan", trials=10, study=path)
    chunks = {"collective.chunks": [1, 2], "network.dims[0].shape": ["ring"]}
    search(Space(space.base, chunks), "makespan", trials=1, study=tmp_path / "order")
    with pytest.raises(InputError, match=r"another space \(the same in another order\).*--study .*order\.2"):
        search(Space(space.base, dict(reversed(chunks.items()))), "makespan", trials=1, study=tmp_path / "order")
    with pytest.raises(InputError, match=r"other objectives \(min there, max here\)"):
        search(Space(space.base, chunks), maximize="makespan", trials=1, study=tmp_path / "order")
    other = tmp_path / "other.yaml"
    other.write_text("base: design.yaml\n" * 100)
    with pytest.raises(InputError, match="is not a study"):
        search(small_space(), "makespan", trials=10, study=other)
    data = sqlite3.connect(tmp_path / "data")
    data.execute("CREATE TABLE x (y)")
    data.close()
    with pytest.raises(InputError, match="but not a study"):
        search(small_space(), "makespan", trials=10, study=tmp_path / "data")
    with pytest.raises(InputError, match="cannot be written"):
        search(small_space(), "makespan", trials=10, study=tmp_path / "no" / "where")
    with pytest.raises(InputError, match="1 or more"):
        search(small_space(), "makespan", trials=0)


def test_a_study_without_a_feasible_design_says_why() -> None:
    study = search(small_space(), "peak_memory", trials=3, agent="random")
    assert study.best is None
    assert "peak_memory: is not known" in study.problem
    assert ("first problem", study.problem) in [row for table in study_tables(study, "s") for row in table.rows]
    assert search(small_space(), "makespan", trials=3, agent="random").problem == ""


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    with Store(str(tmp_path / "study")), pytest.raises(InputError, match="another process"), \
            Store(str(tmp_path / "study")):
        pass


def test_a_search_may_end_before_its_trials() -> None:
    study = search(tiny_space(), "makespan", agent="grid", trials=10**6)
    assert study.exhausted
    assert study.trials == study.distinct == tiny_space().count
    assert len(study.front) == 1
    assert isinstance(study.best, Trial)


def test_what_agents_are_told_depends_on_stored_trials_only(tmp_path: Path) -> None:
    """A resumed agent hears the same as one that never stopped, infeasible trials included."""
    heard: list[Any] = []
    for trials in ((96,), (40, 96)):
        options = agent_options("genetic")
        for number in trials:
            study = search(small_space(), "makespan", require="makespan < 2e6", agent=options, trials=number,      # type: ignore[arg-type]
                           study=tmp_path / f"{len(trials)}")
        heard.append([study.trials, study.distinct, rows(tmp_path / f"{len(trials)}")])
    assert heard[0] == heard[1]


def killed_many_times(path: Path, trials: int, kills: int, agent: str, jobs: int) -> int:
    """Start the study again and again, kill it at random instants, then let it end; how many kills met it at work."""
    rng, met = random.Random(11), 0
    command = [sys.executable, str(SCRIPT), str(path), str(trials), agent, str(jobs)]
    source = str(Path(ar.__file__).resolve().parents[1])
    environment = {**os.environ, "PYTHONPATH": source, "OPENBLAS_NUM_THREADS": "1"}
    for _ in range(kills):
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()           # it is at work, if only on what is stored
            time.sleep(rng.uniform(0, 0.3))     # short of the time that the whole study takes
            met += process.poll() is None
            process.send_signal(signal.SIGKILL)
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, timeout=300)
    return met


def check_kills(tmp_path: Path, trials: int, kills: int, agent: str, jobs: int) -> None:
    met = killed_many_times(tmp_path / "killed", trials, kills, agent, jobs)
    search(small_space(), "makespan", require="makespan < 2e7", agent=agent, trials=trials, seed=5,
           study=tmp_path / "whole")
    found = rows(tmp_path / "killed")
    assert [row[0] for row in found] == list(range(trials))
    assert found == rows(tmp_path / "whole")
    assert met >= kills // 2


def test_kills_lose_and_double_nothing(tmp_path: Path) -> None:
    check_kills(tmp_path, 300, 2, "genetic", 2)


@pytest.mark.exam
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("agent", "jobs", "trials", "kills"), [
    ("genetic", 1, 1_600, 20), ("random", 2, 40_000, 100), ("annealing", 1, 40_000, 100),
    ("ant_colony", 1, 20_000, 100), ("grid", 2, 1_500, 20), ("nsga2", 1, 1_600, 20),
    ("tpe", 1, 300, 20), ("bayesian", 1, 80, 10), ("ppo", 1, 600, 10)])
def test_many_kills_lose_and_double_nothing(agent: str, jobs: int, trials: int, kills: int, tmp_path: Path) -> None:
    ready(agent)
    check_kills(tmp_path, trials, kills, agent, jobs)


def test_an_agent_that_is_half_an_object_is_named() -> None:
    class Still(Options, frozen=True, kw_only=True):
        tag = "still"

    class Mute(Still, frozen=True, kw_only=True):
        def start(self, *_: object) -> object:
            return object()

    for options, says in ((Still(), r"Still: has no method start"), (Mute(), r"Mute: gave an object .* no method ask")):
        with Workers(tiny_space(), goal_of("makespan")) as workers, Store(MEMORY) as store, \
                pytest.raises(PluginError, match=says):
            conduct(Plan(tiny_space(), goal_of("makespan"), options, 0), 4, store, workers)     # type: ignore[arg-type]


class Careless(Options, frozen=True, kw_only=True):
    """An agent of somebody else, with a fault."""

    tag: ClassVar[str] = "careless"
    batch: Batch = 4
    fault: str = ""

    def start(self, space: Space, goal: Any, seed: int) -> Any:
        return _CarelessSearch(space, self.fault)


class _CarelessSearch:
    def __init__(self, space: Space, fault: str):
        self.space, self.fault = space, fault

    def ask(self, count: int) -> list[Any]:
        points = [self.space.point(number) for number in range(count)]
        return {"many": points * 2, "short": [(0,)], "outside": [(4,) * len(self.space.axes)],
                "words": [("a",) * len(self.space.axes)], "raises": None}.get(self.fault, points)      # type: ignore[return-value]

    def tell(self, told: Any) -> None:
        if self.fault == "deaf":
            raise KeyError("deaf")


@pytest.mark.parametrize(("fault", "says"), [
    ("many", "gave 8 points; expected at most 4"), ("short", "expected a value for each of 7 knobs"),
    ("outside", "which is not in the space"), ("words", "which is not in the space"),
    ("raises", "ask raised TypeError"), ("deaf", "tell raised KeyError")])
def test_an_agent_that_breaks_its_contract_is_named(fault: str, says: str) -> None:
    with pytest.raises(PluginError, match=rf"agent Careless: .*{says}"):
        search(small_space(), "makespan", agent=Careless(fault=fault), trials=8)
    assert search(small_space(), "makespan", agent=Careless(), trials=8).trials == 8
