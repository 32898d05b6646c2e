"""Objectives and requirements: what they are worth, and what is refused before the first trial."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.search.designs import network_space, small_space

import astrarium as ar
from astrarium.config import replace_all
from astrarium.errors import InputError
from astrarium.network.cost import network_bandwidth, network_cost
from astrarium.search import Space
from astrarium.search.evaluate import Evaluator, Judge
from astrarium.search.goal import NAMED, Case, goal_of
from astrarium.simulate import simulate


def points(space: Space, count: int) -> list[Any]:
    rng = random.Random(7)
    return [space.sample(rng) for _ in range(count)]


def test_values_are_those_of_simulate() -> None:
    space = small_space()
    evaluator = Evaluator(space, goal_of(["makespan", "runtime_x_bandwidth", "makespan / collective.chunks"],
                                         {"function": lambda design, result: design.network.npus / result.makespan}))
    for point in points(space, 20):
        design = space.design(point)
        makespan = simulate(design).makespan_ps / 1000
        verdict = evaluator(point)
        assert verdict.values == (makespan, makespan * network_bandwidth(design.network),
                                  makespan / design.collective.chunks, 64 / makespan)
        assert verdict.feasible


def test_a_design_without_a_price_is_infeasible_and_says_so() -> None:
    space = Space(small_space().base, {"network.dims[0].shape": ["ring", "mesh"]})
    evaluator = Evaluator(space, goal_of("runtime_x_cost"))
    good, bad = evaluator((0,)), evaluator((1,))
    design = space.design((0,))
    assert good.values == (simulate(design).makespan_ps / 1000 * network_cost(design.network),)
    assert bad.values is None
    assert "no price for mesh" in bad.problem


def test_requirements_give_slacks_and_those_on_the_design_come_first() -> None:
    space = small_space()
    late = Evaluator(space, goal_of("makespan", require="makespan <= 5e6"))
    early = Evaluator(space, goal_of("makespan", require=["network_bandwidth < 200", "makespan <= 5e6"]))
    seen = set()
    for point in points(space, 30):
        verdict = late(point)
        assert verdict.values is not None
        assert verdict.slacks == (5e6 - verdict.values[0],)
        assert verdict.feasible is (verdict.values[0] <= 5e6)
        bandwidth = network_bandwidth(space.design(point).network)
        assert (early(point).values is None) is (bandwidth >= 200)
        assert early(point).feasible is (bandwidth < 200 and verdict.feasible)
        seen.add((bandwidth < 200, verdict.feasible))
    assert len(seen) >= 3


def test_cases_add_times_with_their_weights() -> None:
    space = small_space()
    assert space.base is not None
    changes = {"workload.payload": "300 MB", "workload.op": "all_gather"}
    evaluator = Evaluator(space, goal_of("makespan", cases=[Case("train", 2.0), Case("serve", 0.5, changes)]))
    for point in points(space, 5):
        design = space.design(point)
        other = replace_all(design, changes)
        expected = 2.0 * simulate(design).makespan_ps / 1000 + 0.5 * simulate(other).makespan_ps / 1000
        assert evaluator(point).values == (expected,)


BAD: list[tuple[dict[str, Any], str]] = [
    ({}, "minimize: is empty"),
    ({"minimize": "makspan"}, "did you mean 'makespan'"),
    ({"minimize": "makespan", "maximize": "makespan"}, "twice"),
    ({"minimize": "collective.chunk"}, "did you mean 'collective.chunks'"),
    ({"minimize": "makespan < 3"}, "not a number"),
    ({"minimize": "'ring'"}, "not a number"),
    ({"minimize": 3}, "not an objective"),
    ({"minimize": "makespan / (collective.chunks - 4)"}, "divides by zero .for some collective.chunks"),
    ({"minimize": "makespan / 0"}, "divides by zero .always"),
    ({"minimize": "makespan / exposed_comm"}, "divides by zero .exposed_comm can be 0"),
    ({"minimize": "makespan", "require": "collective.chunks"}, "not a condition"),
    ({"minimize": "makespan", "cases": [Case("a", 0.0)]}, "weight"),
    ({"minimize": "makespan", "cases": [Case("a"), Case("a")]}, "twice"),
    ({"minimize": "makespan", "cases": [Case("a", 1.0, {"workload.pyload": "1 MB"})]}, "did you mean 'payload'"),
    ({"minimize": lambda design, result: 1.0, "cases": [Case("a"), Case("b")]}, "Python function"),
]


@pytest.mark.parametrize(("given", "says"), BAD)
def test_what_is_wrong_is_said_before_the_first_trial(given: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        Evaluator(small_space(), goal_of(**given))


def test_a_divisor_that_the_constraints_keep_from_zero_is_taken() -> None:
    space = small_space()
    both = Space(space.base, space.choices, [*space.where, "collective.chunks != 4"])
    evaluator = Evaluator(both, goal_of("makespan / (collective.chunks - 4)"))
    assert evaluator(both.point(0)).values is not None
    assert isinstance(both.design(both.point(0)), ar.Design)


def test_every_named_objective_can_be_asked_for() -> None:
    """Whether small or large is better: none of them divides by zero."""
    for name in NAMED:
        for goal in (goal_of(minimize=name), goal_of(maximize=name)):
            assert Judge(network_space(), goal).objectives
