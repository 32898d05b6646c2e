"""Every agent sits the exam: seeds replay, constraints hold, the median over seeds beats random search."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from tests.draws import draws
from tests.search.designs import four_dims, real_problem, small_space
from threadpoolctl import threadpool_info

from astrarium.errors import InputError
from astrarium.registry import names
from astrarium.search import Space
from astrarium.search.agents import agent_options, bayesian, gaussian
from astrarium.search.agents.base import AgentOptions, Merits, Scale, Scaled, Told
from astrarium.search.agents.sampling import Random
from astrarium.search.axes import Point
from astrarium.search.exam import GOAL, Problem, best_after, dominated_area, front_after, problems, sit
from astrarium.search.goal import Goal, goal_of
from astrarium.search.trial import Verdict

OWN = ("annealing", "genetic", "ant_colony", "bayesian")
FEW = {"bayesian": (60, 3)}      # distinct points and seeds of the exam, for an agent whose points cost time
PROBLEMS = {problem.name: problem for problem in problems()}
DEAR = {("bayesian", "tiers")}      # seconds of CPU: only the exam has it


@pytest.fixture(scope="module")
def _one_rival() -> Iterator[None]:
    """Random search of a problem from a seed is run once for all agents."""
    known: dict[tuple[str, int, int], tuple[float, Sequence[Point]]] = {}

    def best(options: AgentOptions, problem: Problem, distinct: int, seed: int) -> tuple[float, Sequence[Point]]:
        if options != Random():
            return best_after(options, problem, distinct, seed)
        key = problem.name, distinct, seed
        if key not in known:
            known[key] = best_after(options, problem, distinct, seed)
        return known[key]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules[sit.__module__], "best_after", best)      # `astrarium.search` is a function, too
        yield


@pytest.mark.usefixtures("_one_rival")
@pytest.mark.parametrize(("agent", "problem"), [
    pytest.param(agent, problem, marks=[pytest.mark.exam] * ((agent, problem) in DEAR))
    for agent in OWN for problem in PROBLEMS])
def test_beats_random(agent: str, problem: str) -> None:
    distinct, seeds = FEW.get(agent, (500, draws(15).max_examples))
    exam = sit(agent_options(agent), PROBLEMS[problem], distinct, range(seeds))
    assert exam.gain > 1.02, exam


@pytest.mark.exam
def test_beats_random_on_a_real_space() -> None:
    problem = real_problem()
    for agent in OWN:
        distinct, seeds = FEW.get(agent, (100, draws(15).max_examples))
        exam = sit(agent_options(agent), problem, distinct, range(seeds))
        assert exam.gain > 1, (agent, exam)


@pytest.mark.parametrize("agent", ["random", "grid", *OWN])
def test_replays_and_stays_within_constraints(agent: str) -> None:
    for problem in PROBLEMS.values():
        distinct = 24 if agent in FEW else 120
        first = best_after(agent_options(agent), problem, distinct, 3)
        assert first == best_after(agent_options(agent), problem, distinct, 3)
        if agent != "grid":
            assert first[1] != best_after(agent_options(agent), problem, distinct, 4)[1]


def test_models_are_made_on_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several wait for each other where other work runs: 200 trials took 43 s of CPU instead of 1."""
    seen, fit = list[int](), bayesian.fit

    def watched(*given: Any) -> gaussian.Model:
        seen.extend(each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas")
        return fit(*given)
    monkeypatch.setattr(bayesian, "fit", watched)
    best_after(agent_options("bayesian"), PROBLEMS["pairs"], 20, 0)
    assert set(seen) <= {1}     # a matrix library that says nothing of threads is not listed


def test_bayesian_ends_with_the_last_design() -> None:
    """More trials than designs, and more designs than its random start."""
    space = Space(four_dims(), {"collective.chunks": [1, 2, 4, 8, 16],
                                "network.dims[0].bandwidth": ["10 GB/s", "20 GB/s", "50 GB/s", "100 GB/s"]})
    agent, seen = agent_options("bayesian").start(space, GOAL, 0), set[Point]()
    while points := agent.ask(4):
        seen.update(points)
        agent.tell([Told(point, (float(sum(point)),)) for point in points])
    assert len(seen) == space.count == 20


def test_grid_sees_every_design_once() -> None:
    space = small_space()
    problem = Problem("all", space, lambda point: float(space.number(point)))
    best, points = best_after(agent_options("grid"), problem, 10**6, 0)
    assert len(points) == space.count
    assert best == 0
    spread = [space.number(point) for point in points[:8]]
    assert max(spread) - min(spread) > space.count / 2


@pytest.mark.parametrize("agent", ["random", *OWN])
def test_lives_on_when_everything_is_infeasible(agent: str) -> None:
    space = PROBLEMS["bowl"].space
    search = agent_options(agent).start(space, GOAL, 0)
    for _ in range(5):
        points = search.ask(16)
        assert all(space.number(point) >= 0 for point in points)
        search.tell([Told(point, (float("inf"),)) for point in points])


@pytest.mark.parametrize("agent", OWN)
def test_maximising_is_minimising_the_negative(agent: str) -> None:
    """Values below zero are searched as well as values above."""
    problem = PROBLEMS["bowl"]
    shifted = Problem("below zero", problem.space, lambda point: problem.value(point) - 1000.0)
    distinct, seeds = FEW.get(agent, (500, 5))
    bests = [best_after(agent_options(agent), shifted, distinct, seed)[0] for seed in range(seeds)]
    rival = [best_after(agent_options("random"), shifted, distinct, seed)[0] for seed in range(seeds)]
    assert sorted(bests)[seeds // 2] < sorted(rival)[seeds // 2]


@pytest.mark.parametrize("agent", ["random", "genetic", "annealing", "bayesian"])
def test_continua(agent: str) -> None:
    space = Space(four_dims(), {"network.dims[*].bandwidth": {"from": "10 GB/s", "to": "100 GB/s"},
                                "collective.chunks": [1, 2, 4]})
    problem = Problem("continua", space, lambda point: 1.0 + sum((each - 70.0) ** 2 for each in point[:4]))
    best, points = best_after(agent_options(agent), problem, FEW.get(agent, (300, 0))[0], 1)
    assert all(10 <= each <= 100 for point in points for each in point[:4])
    assert best < problem.value(space.sample(random.Random(0)))


def test_what_is_wrong_is_said() -> None:
    continuous = Space(None, variables={"x": {"from": 0.0, "to": 1.0}})
    for agent in ("grid", "ant_colony"):
        with pytest.raises(InputError, match="a step or values"):
            agent_options(agent).start(continuous, GOAL, 0)
    for agent in ("annealing", "genetic", "ant_colony"):
        with pytest.raises(InputError, match="one objective"):
            agent_options(agent).start(small_space(), goal_of(["makespan", "network_cost"]), 0)
    with pytest.raises(InputError, match="did you mean 'genetic'"):
        agent_options("genetics")
    with pytest.raises(InputError, match="did you mean 'mutation'"):
        agent_options("genetic", {"mutations": 0.1})
    assert set(OWN) <= set(names("agent"))


def test_scale_keeps_the_order_and_bounds_the_infeasible() -> None:
    scale = Scale()
    values = [5e11, 1e9, 1e12, -3.0, 0.0, 1e-3]
    found = [scale(value) for value in values]
    assert sorted(range(6), key=found.__getitem__) == sorted(range(6), key=values.__getitem__)
    scaled, infinite = Scaled(), (float("inf"),)
    told = [*[Told((), (value,)) for value in values], Told((), infinite, Verdict((1.0,), slacks=(-5.0,))),
            Told((), infinite, Verdict((1.0,), slacks=(-50.0,))), Told((), infinite)]
    behind = [scaled(each)[0] for each in told]
    assert behind[:6] == found
    assert max(found) < behind[6] < behind[7] < behind[8] < 100


def test_merit_orders_by_what_is_missed() -> None:
    """Feasible trials first, then smaller misses, each in units of its first; refusals without a margin last."""
    merit, infinite = Merits(), (float("inf"),)
    first = merit(Told((), infinite, Verdict((1.0,), slacks=(-1e9, 1.0))))
    both = merit(Told((), infinite, Verdict((1.0,), slacks=(-5e8, -3.0))))
    near = merit(Told((), infinite, Verdict(None, slacks=(-1e6, 0.0))))
    refused = merit(Told((), infinite, Verdict(None, problem="no")))
    assert [first[0], both[0]] == [1.0, 1.5]
    assert merit(Told((), (7.0,))) < merit(Told((), (8.0,))) < near < first < both < refused


@pytest.mark.parametrize("agent", OWN)
def test_hears_how_far_a_requirement_is_missed(agent: str) -> None:
    """Only margins lead to the feasible tenth of a thousandth of the points."""
    space = PROBLEMS["bowl"].space
    problem, met = PROBLEMS["bowl"], 0
    for seed in range(4):
        options = agent_options(agent)
        search, tried = options.start(space, Goal(GOAL.objectives, ("far",)), seed), 0
        while tried < (60 if agent in FEW else 400):
            told = []
            for point in search.ask(options.batch):
                slack = 40.0 - problem.value(point)
                verdict = Verdict((problem.value(point),), slacks=(slack,))
                told.append(Told(point, (problem.value(point) if slack >= 0 else float("inf"),), verdict))
                met += slack >= 0
            search.tell(told)
            tried += len(told)
    assert met > 4, met


def test_the_area_that_a_front_dominates() -> None:
    """Against the squares of a grid, counted."""
    draw = random.Random(5)
    for _ in range(50):
        points = [(draw.randrange(12), draw.randrange(12)) for _ in range(draw.randrange(8))]
        squares = sum(any(a <= x and b <= y for a, b in points) for x in range(10) for y in range(10))
        assert dominated_area(points, (10, 10)) == squares


def test_the_front_of_what_an_agent_saw() -> None:
    space = small_space()
    found = front_after(agent_options("grid"), space, lambda point: (float(point[0]), -float(point[0])),
                        goal_of(["makespan", "network_bandwidth"]), space.count, 0)
    assert all(not (a[0] <= b[0] and a[1] <= b[1]) for a in found for b in found if a != b)
    assert {value for value, _ in found} == {float(each) for each in range(5)}
