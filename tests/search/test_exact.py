"""The exact agent: floors hold for whatever is simulated, optima are those of exhaustive search, gaps are honest."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from tests.search.designs import tiny_space

import astrarium as ar
from astrarium.collective.algorithms import supporting
from astrarium.errors import InputError
from astrarium.search import Case, Space, search
from astrarium.search.bounds.archive import Archive
from astrarium.search.bounds.branches import branches_of
from astrarium.search.evaluate import Evaluator, Judge
from astrarium.search.expression import Node, compiled
from astrarium.search.goal import Goal, goal_of
from astrarium.search.studyfile import load_study
from astrarium.vocab import CommOp

OPS = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast", "reduce", "gather", "scatter",
       "barrier")


def many(op: str, *, per_npu: bool) -> Space:
    """Three dims of any size and shape, every algorithm that has the operation, all compositions."""
    rate = "bandwidth_per_npu" if per_npu else "bandwidth"
    base = ar.Design(
        workload=ar.SingleCollective(op=op, payload="3 MB"),
        network=ar.Network([ar.Ring(4, latency="10 ns", **{rate: "50 GB/s"}),
                            ar.Switch(2, latency="20 ns", **{rate: "50 GB/s"}),
                            ar.FullyConnected(3, latency="30 ns", **{rate: "25 GB/s"})]),
        collective=ar.Collective(**{op: ["ring"] * 3}))
    return Space(base, {
        "network.dims[*].npus": [1, 2, 3, 4], "network.dims[*].shape": ["ring", "switch", "fully_connected", "mesh"],
        f"network.dims[*].{rate}": ["10 GB/s", "40 GB/s", "300 GB/s"],
        f"collective.{op}[*]": list(supporting(CommOp[op.upper()])),
        "collective.chunks": [1, 3, 8], "collective.composition": ["baseline", "blueconnect", "themis"],
        "network.backend": ["closed_form", "contention"]}, "1 < network.npus <= 64")


def only_tree(space: Space, goal: Goal) -> Node:
    """The lower bound of a space that is one branch."""
    branch, = branches_of(Judge(space, goal), None).open(Archive(1))
    return branch.tree


@pytest.mark.parametrize("op", OPS)
def test_no_simulation_falls_below_its_floor(op: str) -> None:
    rng, seen = random.Random(OPS.index(op)), 0
    for per_npu in (False, True):
        space = many(op, per_npu=per_npu)
        goal = goal_of("makespan * network_bandwidth")
        floor = compiled(only_tree(space, goal), {axis.name: at for at, axis in enumerate(space.axes)})
        judge = Evaluator(space, goal)
        for _ in range(25):
            point = space.sample(rng)
            verdict = judge(point)
            if verdict.values is not None:
                seen += 1
                assert verdict.values[0] >= floor(space.numbers(point)) * (1 - 1e-9), space.values(point)
    assert seen > 10


def test_floors_of_design_figures_are_exact() -> None:
    space = Space(tiny_space().base, {"network.dims[*].shape": ["ring", "switch", "fully_connected"],
                                       "network.dims[*].npus": [2, 4, 8, 32],
                                       "network.dims[*].bandwidth": ["25 GB/s", "100 GB/s"]})
    for name in ("network_cost", "network_bandwidth"):
        judge = Evaluator(space, goal_of(f"makespan * {name}"))
        tree = only_tree(space, goal_of(name))
        floor = compiled(tree, {axis.name: at for at, axis in enumerate(space.axes)})
        for point in list(space.points())[::7]:
            verdict = judge(point)
            if verdict.values is not None:
                figure = verdict.figures[judge.judge.figures.index(name)]
                assert floor(space.numbers(point)) == pytest.approx(figure, rel=1e-12)


GOALS = ("makespan", "runtime_x_bandwidth", "runtime_x_cost", "makespan + network_cost")


@pytest.fixture(scope="module")
def optima(tmp_path_factory: pytest.TempPathFactory) -> dict[str, float]:
    """The least value of each goal, by looking at every design."""
    path = tmp_path_factory.mktemp("every") / "study"
    every = search(tiny_space(), GOALS, agent="grid", trials=10**6, study=path)
    assert every.distinct == tiny_space().count
    values = [trial.verdict.values for trial in load_study(path).trials() if trial.verdict.values]
    return {name: min(each[place] for each in values) for place, name in enumerate(GOALS)}


@pytest.mark.parametrize("minimize", [
    pytest.param(goal, marks=[pytest.mark.exam] * (goal == "runtime_x_bandwidth")) for goal in GOALS])
def test_the_optimum_is_that_of_exhaustive_search(minimize: str, optima: dict[str, float]) -> None:
    space = tiny_space()
    found = search(space, minimize, agent="exact", options={"warm": 32}, trials=10**6)
    assert found.proof is not None
    assert found.proof.complete
    assert found.proof.gap == 0
    assert found.best is not None
    assert found.best.verdict.values == (optima[minimize],)
    assert found.exhausted
    assert found.distinct < space.count


def test_a_search_that_is_stopped_has_an_honest_gap(optima: dict[str, float]) -> None:
    space, optimum = tiny_space(), optima["runtime_x_bandwidth"]
    last = -math.inf
    for trials in (32, 48, 64, 96):
        found = search(space, "runtime_x_bandwidth", agent="exact", options={"warm": 32, "batch": 16}, trials=trials)
        assert found.proof is not None
        best = found.objectives()["runtime_x_bandwidth"]
        assert last <= found.proof.bound <= optimum <= best
        if found.proof.gap == 0:
            assert best == optimum
        last = found.proof.bound
    near = search(space, "runtime_x_bandwidth", agent="exact", options={"warm": 32, "gap": 0.3}, trials=10**6)
    assert near.proof is not None
    assert near.proof.complete
    assert near.proof.gap <= 0.3
    assert near.objectives()["runtime_x_bandwidth"] * 0.7 <= optimum


def test_a_floor_of_your_own(optima: dict[str, float]) -> None:
    space = tiny_space()
    floor = "1e6 * if(network.dims[0].bandwidth < 30, 1, 0)"
    found = search(space, "makespan", agent="exact", options={"floor": floor, "warm": 256}, trials=10**6)
    assert found.proof is not None
    assert found.proof.complete
    assert found.objectives() == {"makespan": optima["makespan"]}


BAD: list[tuple[dict[str, Any], str]] = [
    ({"minimize": "exposed_comm"}, "exposed_comm has no lower bound"), ({"maximize": "makespan"}, "may fall"),
    ({"minimize": "-1 * makespan"}, "may fall"), ({"minimize": "1 / makespan"}, "may fall"),
    ({"minimize": lambda design, result: 1.0}, "Python function"),
    ({"minimize": ["makespan", "network_cost", "network_bandwidth"]}, "one objective"),
    ({"minimize": "makespan", "cases": [Case("a")]}, "one workload")]


@pytest.mark.parametrize(("goal", "says"), BAD)
def test_what_has_no_floor_is_refused(goal: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        search(tiny_space(), agent="exact", trials=10, **goal)


def test_continua_and_one_way_rings_are_refused() -> None:
    base = tiny_space().base
    continuous = Space(base, {"network.dims[0].bandwidth": {"from": "1 GB/s", "to": "2 GB/s"}})
    with pytest.raises(InputError, match="a step or values"):
        search(continuous, "makespan", agent="exact", trials=10)
    one_way = Space(base, {"network.dims[0].one_way": [True, False]})
    with pytest.raises(InputError, match="one-way"):
        search(one_way, "makespan", agent="exact", trials=10)
