"""Agents that stand on other libraries: the same exam, where the libraries are installed."""

from __future__ import annotations

import math
import random
import re
import statistics
from typing import Any

import pytest
from tests.search.designs import four_dims, ready, real_problem, small_space

from astrarium.errors import InputError, install_line
from astrarium.search import Space, search
from astrarium.search.agents import agent_options
from astrarium.search.agents.base import Told, needed
from astrarium.search.axes import Point
from astrarium.search.evaluate import Evaluator
from astrarium.search.exam import GOAL, Problem, best_after, dominated_area, front_after, problems, sit
from astrarium.search.goal import goal_of

PROBLEMS = {problem.name: problem for problem in problems()}
DISTINCT = {"tpe": 150}

pytestmark = pytest.mark.filterwarnings("ignore")      # what the libraries say about each other


@pytest.mark.parametrize("agent", ["tpe", "nsga2"])
def test_replays_and_stays_within_constraints(agent: str) -> None:
    ready(agent)
    for problem in PROBLEMS.values():
        first = best_after(agent_options(agent), problem, 40, 3)
        assert first == best_after(agent_options(agent), problem, 40, 3)
        assert first[1] != best_after(agent_options(agent), problem, 40, 4)[1]


@pytest.mark.parametrize("agent", ["tpe", "nsga2"])
def test_lives_on_when_everything_is_infeasible(agent: str) -> None:
    ready(agent)
    space = PROBLEMS["bowl"].space
    agent_ = agent_options(agent).start(space, GOAL, 0)
    for _ in range(4):
        points = agent_.ask(16)
        assert points
        assert all(space.number(point) >= 0 for point in points)
        agent_.tell([Told(point, (float("inf"),)) for point in points])


def test_nsga2_goes_on_without_new_children() -> None:
    """It ended after 379 of these 1,620 designs, "there are no more"."""
    ready("nsga2")
    space, known = small_space(), set[Point]()
    agent = agent_options("nsga2").start(space, GOAL, 5)
    while points := agent.ask(32):
        known.update(points)
        agent.tell([Told(point, (float(sum(point)),)) for point in points])
    assert len(known) == space.count


@pytest.mark.parametrize("agent", ["tpe", "nsga2"])
def test_continua_and_conditions(agent: str) -> None:
    ready(agent)
    space = Space(four_dims(), {"network.dims[0].bandwidth": {"from": "10 GB/s", "to": "100 GB/s"},
                                "collective.chunks": [1, 2, 4],
                                "collective.active_chunks": {"values": [1, 2], "when": "collective.chunks > 1"}})
    problem = Problem("mixed", space, lambda point: 1.0 + abs(point[0] - 70.0) + point[1])
    best, points = best_after(agent_options(agent), problem, 60, 1)
    assert best < problem.value(space.sample(random.Random(0)))
    assert {point[2] for point in points} == {-1, 0, 1}
    assert all((point[2] == -1) == (point[1] == 0) for point in points)


@pytest.mark.parametrize("agent", ["nsga2", "bayesian"])
def test_several_objectives(agent: str) -> None:
    ready(agent)
    study = search(small_space(), ["makespan", "network_bandwidth"], agent=agent, trials=96, options={"batch": 24})
    assert len(study.front) > 2
    again = search(small_space(), ["makespan", "network_bandwidth"], agent=agent, trials=96, options={"batch": 24})
    assert [trial.point for trial in again.front] == [trial.point for trial in study.front]


def test_an_absent_library_is_named_with_its_pip_line() -> None:
    with pytest.raises(InputError, match="needs no_such_library.*" + re.escape(install_line("search"))):
        needed("tpe", "search", "no_such_library")


@pytest.mark.exam
@pytest.mark.parametrize("agent", ["tpe", "nsga2", "ppo"])
def test_beats_random_on_a_real_space(agent: str) -> None:
    ready(agent)
    exam: Any = sit(agent_options(agent), real_problem(), 150, range(10))
    assert exam.gain > 1, exam


@pytest.mark.exam
@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("agent", ["tpe", "nsga2", "ppo"])
def test_beats_random(agent: str, problem: str) -> None:
    ready(agent)
    exam: Any = sit(agent_options(agent), PROBLEMS[problem], DISTINCT.get(agent, 500), range(10))
    assert exam.gain > 1, exam


@pytest.mark.exam
@pytest.mark.parametrize("agent", ["nsga2", "bayesian"])
def test_fronts_beat_random(agent: str) -> None:
    """The median area that fronts of makespan and bandwidth dominate, on logarithmic scales, over 10 seeds."""
    ready(agent)
    space, goal = small_space(), goal_of(["makespan", "network_bandwidth"])
    judge = Evaluator(space, goal)
    known: dict[Any, tuple[float, ...]] = {}

    def values(point: Any) -> tuple[float, ...]:
        if point not in known:
            known[point] = judge(point).values or (math.inf, math.inf)
        return known[point]

    def area(name: str, seed: int) -> float:
        found = front_after(agent_options(name), space, values, goal, 150, seed)
        return dominated_area([(math.log(one), math.log(two)) for one, two in found], (math.log(1e9), math.log(1e6)))
    medians = [statistics.median(area(name, seed) for seed in range(10)) for name in (agent, "random")]
    assert medians[0] > medians[1], medians
