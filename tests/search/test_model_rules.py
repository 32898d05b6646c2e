"""Rules of a workload as constraints: they say what the workload says, and nobody draws what it refuses."""

from __future__ import annotations

import itertools
import pickle
import random
from typing import Any

import pytest
from tests.draws import draws

import astrarium as ar
from astrarium.errors import InputError
from astrarium.search import Case, Space, search
from astrarium.search.expression import Const
from astrarium.search.scope import Scope
from astrarium.workload.inference.config import CONDITIONS as SERVING

TP_PP: dict[str, Any] = {"workload.tp": [1, 2, 4, 8, 24], "workload.pp": [1, 2, 4]}
TP_PP_CP: dict[str, Any] = {"workload.tp": [1, 2, 4, 8], "workload.pp": [1, 2, 4, 8], "workload.cp": [1, 2, 4]}
CHOICES: dict[str, Any] = TP_PP_CP | {
    "workload.zero": [0, 1, 2, 3], "workload.micro_batch": [1, 2, 4, 8], "workload.virtual_stages": [1, 2, 4],
    "workload.schedule": ["1f1b", "interleaved", "zero_bubble", "dualpipe", "gpipe"],
    "workload.recompute": ["none", "selective", "full"], "workload.attention": ["flash", "unfused"],
    "workload.tp_sequence": [True, False], "workload.global_batch": [128, 192, 256], "collective.chunks": [1, 2, 4]}
DP = {"workload.dp": "network.npus // (workload.tp * workload.pp * workload.cp)"}


def base(**more: Any) -> ar.Design:
    """256 NPUs."""
    return ar.Design(
        workload=ar.Transformer("llama3-8b", **{"global_batch": 256, "micro_batch": 1, "dp": 32, "tp": 8, **more}),
        network=ar.Network([ar.Switch(8, bandwidth="450 GB/s", latency="1 us"),
                            ar.Switch(32, bandwidth="50 GB/s", latency="1 us")]),
        compute=ar.Roofline(peak="989 TFLOP/s"), memory=ar.Memory(bandwidth="3.35 TB/s"))


def legal(space: Space, point: Any) -> bool:
    try:
        space.design(point)
    except InputError:
        return False
    return True


def test_no_point_that_the_workload_refuses_is_drawn() -> None:
    space, rng = Space(base(), CHOICES, (), DP), random.Random(0)
    assert all(legal(space, space.sample(rng)) for _ in range(100))
    assert 0 < space.count < space.nominal // 4


def test_no_legal_point_is_cut() -> None:
    """Every combination of the values, drawn without a rule: feasible in the space where the configuration takes it."""
    space, rng, counts = Space(base(), CHOICES, (), DP), random.Random(1), {True: 0, False: 0}
    for _ in range(250):
        point = tuple(rng.randrange(axis.size) for axis in space.axes)
        good = legal(space, point)
        counts[good] += 1
        assert (space.number(point) >= 0) == good, space.values(point)
    assert min(counts.values()) > 30


@pytest.mark.parametrize(("more", "choices"), [
    ({"uneven": "fractional"}, TP_PP_CP | {"workload.attention": ["flash", "unfused"]}),
    ({"ep": 2}, {"workload.ep": [1, 2, 3, 32, 64]}), ({}, {"workload.micro_batch": [1, 3, 8], "workload.dp": [32]}),
    ({}, {"workload.sp": [1, 2, 3], "workload.dp": [32, 16], "workload.sp_attention": ["gather", "all_to_all"]}),
    ({"seq": 4098}, TP_PP_CP), ({"schedule": "zero_bubble", "pp": 2, "dp": 16},
                               {"workload.offload": ["none", "activations"], "workload.recompute": ["none", "full"],
                                "workload.schedule": ["1f1b", "zero_bubble"]})], ids=str)
def test_rules_agree_with_the_configuration(more: dict[str, Any], choices: dict[str, Any]) -> None:
    first = moe() if "ep" in more else base(**more)
    space = Space(first, choices, (), {} if "workload.dp" in choices or "ep" in more or "pp" in more else DP)
    points = itertools.product(*(range(axis.size) for axis in space.axes))
    assert {point for point in points if legal(space, point)} == set(space.points())


def moe() -> ar.Design:
    return ar.replace(base(), "workload", ar.Transformer("mixtral-8x7b", global_batch=256, micro_batch=1, dp=32, tp=8,
                                                         ep=2))


def serving(model: str, **more: Any) -> ar.Design:
    return ar.replace(base(), "workload", ar.Inference(model, prompt=512, generated=16, dp=32, tp=8, batch=64, **more))


@pytest.mark.parametrize(("model", "more", "choices"), [
    ("llama3-8b", {}, TP_PP | {"workload.dp": [1, 4, 8, 32, 64], "workload.batch": [32, 48, 64]}),
    ("llama3-8b", {"uneven": "fractional"}, {"workload.tp": [3, 8, 64], "workload.dp": [4, 32],
                                             "workload.micro_batches": [1, 2, 3]}),
    ("mixtral-8x7b", {"ep": 2}, {"workload.ep": [1, 2, 3, 32], "workload.batch": [64, 65]})], ids=str)
def test_rules_of_inference_agree_with_the_configuration(model: str, more: dict[str, Any],
                                                         choices: dict[str, Any]) -> None:
    space = Space(serving(model, **more), choices)
    points = itertools.product(*(range(axis.size) for axis in space.axes))
    assert {point for point in points if legal(space, point)} == set(space.points())


def test_rules_that_cut_nothing_are_left_out() -> None:
    constraint = "workload.tp * workload.pp * workload.cp * workload.dp == network.npus"
    choices = TP_PP_CP | {"workload.dp": [1, 2, 4, 8, 16, 32, 64, 128, 256]}
    space, free = Space(base(uneven="fractional"), choices, constraint), Space(base(uneven="fractional"), choices)
    assert len(space.rules) == 1
    assert free.count == space.count
    assert len(free.rules) == 1


def test_every_condition_means_something() -> None:
    """Each one is true or false for a model with experts."""
    for design, conditions in ((moe(), moe().workload.conditions), (serving("mixtral-8x7b", ep=2), SERVING)):
        for texts in conditions:
            assert Scope(design, {}, {}).node(texts[-1], "x") == Const(True), texts


def test_rules_on_what_cases_change_say_nothing() -> None:
    """16 replicas of a batch of 24: refused by the base, legal in each case."""
    choices = {"workload.dp": [8, 16], "workload.pp": [2, 4], "workload.attention": ["flash", "unfused"]}
    space = Space(base(global_batch=24, dp=8, pp=4), choices)
    assert {space.values(point)["workload.dp"] for point in space.points()} == {8}
    assert space.for_cases(["workload.zero"]).count == space.count
    for path in ("workload.global_batch", "workload"):
        other = space.for_cases([path])
        assert {other.values(point)["workload.dp"] for point in other.points()} == {8, 16}
        assert pickle.loads(pickle.dumps(other)).count == other.count
    cases = [Case("small", 1.0, {"workload.global_batch": 32}), Case("large", 1.0, {"workload.global_batch": 64})]
    study = search(space, "makespan", agent="grid", trials=20, cases=cases)
    assert study.plan.space.count == study.trials == 4
    assert study.problem == ""


def test_contradictions_name_the_rule() -> None:
    with pytest.raises(InputError, match=r"no design meets .*workload.attention == 'unfused'.* and .*cp_attention"):
        Space(base(), {**TP_PP_CP, "workload.attention": ["flash", "unfused"]},
              ["workload.attention == 'unfused'", "workload.cp == 2"], DP)


def test_a_search_refuses_nothing() -> None:
    space = Space(base(), {**TP_PP_CP, "workload.attention": ["flash", "unfused"]}, (), DP)
    trials = min(space.count, draws(100).max_examples)
    study = search(space, "makespan", agent="grid", trials=trials)
    assert (study.trials, study.problem) == (trials, "")
