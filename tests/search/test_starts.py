"""Starts of a search: designs of other files and studies come first, and agents learn from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.search.designs import network_space, ready, small_space, tiny_space

import astrarium as ar
from astrarium.errors import InputError
from astrarium.search import Space, Study, search
from astrarium.search.starts import starts_of
from astrarium.search.studyfile import load_study, tried

TPE = pytest.param("tpe", marks=pytest.mark.exam)      # Optuna's own time is 2 s in each
AGENTS = ("random", "grid", "annealing", "genetic", "ant_colony", "exact", "bayesian", TPE, "nsga2")


def test_a_design_a_mapping_and_a_csv_are_the_nearest_points(tmp_path: Path) -> None:
    space = small_space()
    point = space.point(space.count // 2)
    file, rows = tmp_path / "design.yaml", tmp_path / "rows.csv"
    ar.dump_design(space.design(point), file)
    values = space.values(point)
    rows.write_text("knob:" + ",knob:".join(values) + "\n" + ",".join(map(str, values.values())) + "\n")
    for start in (space.design(point), values, file, str(file), rows, [file, values]):
        assert starts_of(space, start).points == (point,)
    near = starts_of(space, {"collective.chunks": 5, "network.dims[0].npus": 4}).points[0]
    chunks = space.values(near)["collective.chunks"]
    assert abs(chunks - 5) == min(abs(each - 5) for each in space.axes[-1].values)
    assert space.number(near) >= 0


def test_a_base_that_leaves_a_knob_open_is_said_not_to_be_the_first_trial() -> None:
    """`null` is no choice: the first trial is the design nearest to the base."""
    base = ar.Design(workload=ar.Transformer("llama3-8b", global_batch=8, tp=4),
                     network=ar.Network([ar.Switch(4, bandwidth="100 GB/s", latency="1 us")]))
    space = Space(base, {"workload.micro_batch": [1, 2]})
    starts = starts_of(space, (), base=True)
    assert space.values(starts.points[0]) == {"workload.micro_batch": 1}
    assert starts.notes == ("starts: values that the space does not have, and their nearest: workload.micro_batch null "
                            "-> 1 (the base)",)


def test_a_study_of_another_space_starts_with_its_ten_best(tmp_path: Path) -> None:
    file = tmp_path / "tiny.study"
    found = search(tiny_space(), "makespan", agent="random", trials=40, study=file)
    study = search(small_space(), "makespan", agent="random", trials=12, start=file)
    starts = study.plan.starts[1:]      # the first is the base
    assert 1 <= len(starts) <= 10
    assert found.best is not None
    shared = {name: value for name, value in found.values().items() if name in small_space().values(starts[0])}
    assert shared.items() <= small_space().values(starts[0]).items()


@pytest.mark.parametrize("agent", [
    pytest.param(agent, marks=[pytest.mark.exam]) if agent == "ant_colony" else agent for agent in AGENTS])
def test_starts_come_first_and_a_study_goes_on(agent: str, tmp_path: Path) -> None:
    ready(agent)
    space, file = small_space(), tmp_path / "kept.study"
    best = search(space, "makespan", agent="random", trials=64, seed=5)
    starts = [space.values(trial.point) for trial in best.top]
    whole = search(space, "makespan", agent=agent, start=starts, trials=50, study=file)
    trials = list(load_study(str(file)).trials())
    base, *others = [trial.point for trial in trials[:len(starts) + 1]]
    assert others == [trial.point for trial in best.top]
    assert space.design(base) == space.base
    assert whole.best is not None
    assert best.best is not None
    assert whole.objectives()["makespan"] <= best.objectives()["makespan"]
    again = search(space, "makespan", agent=agent, start=starts, trials=20)
    resumed = search(space, "makespan", agent=agent, start=starts, trials=60, study=file)
    assert resumed.trials in (60, whole.trials)
    assert not any("another point" in note for note in (*again.notes, *resumed.notes))
    assert search(space, "makespan", agent=agent, trials=60, study=file).trials == resumed.trials
    with pytest.raises(InputError, match="holds a study with other starts"):
        search(space, "makespan", agent=agent, start=starts[1:], trials=60, study=file)


@pytest.fixture(scope="module")
def known() -> Study:
    """A random search of the networks."""
    return search(network_space(), "runtime_x_cost", agent="random", trials=200, seed=11)


@pytest.mark.parametrize("agent", [
    "annealing", "genetic", pytest.param("ant_colony", marks=pytest.mark.exam),
    pytest.param("bayesian", marks=pytest.mark.exam), TPE])
def test_what_an_agent_heard_it_uses(agent: str, known: Study) -> None:
    """From the optimum's neighbours agents are nearer to the optimum than without them."""
    ready(agent)
    space, trials = known.plan.space, 36 if agent == "bayesian" else 60
    starts: list[Any] = [space.values(trial.point) for trial in known.top]
    without = [search(space, "runtime_x_cost", agent=agent, trials=trials, seed=seed).objectives()
               for seed in range(3)]
    with_ = [search(space, "runtime_x_cost", agent=agent, start=starts, trials=trials, seed=seed)
             for seed in range(3)]
    assert sum(each.objectives()["runtime_x_cost"] for each in with_) < sum(each["runtime_x_cost"] for each in without)
    assert any(each.objectives()["runtime_x_cost"] < known.objectives()["runtime_x_cost"] for each in with_)


@pytest.mark.parametrize(("start", "says"), [
    ({"colour": 1}, "has none of the space's knobs"), (3, "is no design"), ("none.yaml", "cannot be read"),
    ({"network.dims[0].bandwidth": "fast"}, "is no value of it")])
def test_a_start_that_is_none_is_refused(start: Any, says: str) -> None:
    with pytest.raises(InputError, match=says):
        starts_of(small_space(), start)


@pytest.mark.parametrize(("text", "says"), [("collective.chunks\n", "has no designs"), ("", "has no designs"),
                                            ("collective.chunks\nnan\n", "2: collective.chunks: nan is no value"),
                                            ("collective.chunks\n1e400\n", "inf is no value")])
def test_a_csv_without_designs_is_refused(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(text)
    with pytest.raises(InputError, match=says):
        starts_of(small_space(), tmp_path / "rows.csv")


def test_far_away_the_last_value_is_the_nearest() -> None:
    space = small_space()
    for value, nearest in ((1e30, 8), (-1e30, 1)):
        point = starts_of(space, {"collective.chunks": value}).points[0]
        assert space.values(point)["collective.chunks"] == nearest


def test_conditional_knobs_and_continua_have_starts() -> None:
    base = small_space().base
    space = Space(base, {"collective.chunks": [1, 2, 4],
                         "network.dims[0].bandwidth": {"from": "10 GB/s", "to": "90 GB/s"},
                         "system.comm_streams": {"values": [1, 2], "when": "collective.chunks > 1"}})
    [point] = starts_of(space, {"collective.chunks": 1, "network.dims[0].bandwidth": "33 GB/s"}).points
    assert point == (0, 33.0, -1)
    assert starts_of(space, {"collective.chunks": 2}).points[0][::2] == (1, 0)


def test_the_base_is_tried_first_wherever_it_is_near() -> None:
    space = small_space()
    assert space.base is not None
    first = search(space, "makespan", agent="grid", trials=1)
    assert first.best is not None
    assert space.design(first.best.point) == space.base
    assert not first.notes
    tiny = search(tiny_space(), "makespan", agent="grid", trials=10**6)      # 50 GB/s is not there
    assert tiny.trials == tiny.distinct == tiny_space().count
    assert tiny.notes == ("starts: values that the space does not have, and their nearest: network.dims[0].bandwidth "
                          "50 GB/s -> 25 GB/s (the base); network.dims[1].bandwidth 50 GB/s -> 25 GB/s (the base)",)
    other = Space(space.base, {"network.dims[0].shape": ["switch", "fully_connected"], "collective.chunks": [1, 2]})
    found = search(other, "makespan", agent="grid", trials=10)
    assert found.trials == 4
    assert found.notes == ("the base is not tried: network.dims[0].shape of the base is ring, which is not a choice",)
    assert search(space, "makespan", agent="random", start=(), trials=1).plan.starts == ()


def test_a_space_that_grew_keeps_what_was_tried(tmp_path: Path) -> None:
    """Values and knobs are added: no design of the study runs again, and its verdicts are those of a new run."""
    small = Space(small_space().base,
                  {"collective.chunks": [1, 2], "network.dims[0].bandwidth": ["25 GB/s", "50 GB/s"]})
    file = tmp_path / "small.study"
    old = search(small, "makespan", agent="grid", trials=4, study=file)
    grown = Space(small.base, {"collective.chunks": [1, 2, 4], "network.dims[0].bandwidth": ["25 GB/s", "50 GB/s"],
                               "network.dims[1].bandwidth": ["50 GB/s", "100 GB/s"]})
    plan = search(grown, "makespan", agent="grid", trials=1).plan
    assert len(tried(load_study(str(file)), plan)) == old.distinct == 4
    again = search(grown, "makespan", agent="grid", start=str(file), trials=12, study=tmp_path / "grown.study")
    whole = search(grown, "makespan", agent="grid", trials=12)
    assert again.distinct == whole.distinct == 12
    assert again.objectives() == whole.objectives()
    stored = {trial.verdict.seconds for trial in load_study(str(file)).trials()}
    mine = list(load_study(str(tmp_path / "grown.study")).trials())
    assert sum(trial.verdict.seconds in stored for trial in mine) == 4      # CPU times of the old study
    slower = Space(ar.replace_all(small.base, {"network.dims[1].latency": "1 us"}), grown.choices)
    other = search(slower, "makespan", agent="grid", trials=1).plan
    assert tried(load_study(str(file)), other) == {}
