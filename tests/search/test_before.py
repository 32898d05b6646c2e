"""What lower bounds rule out is refused before it runs; the best of a space stays the best."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import astrarium as ar
from astrarium.errors import InputError
from astrarium.search import Space, evaluate, search, subject
from astrarium.search.agents import agent_options, sampling
from astrarium.search.evaluate import Evaluator
from astrarium.search.goal import goal_of
from astrarium.search.store import MEMORY, Store
from astrarium.search.study import conduct
from astrarium.search.studyfile import Plan, load_study
from astrarium.search.workers import Workers


def layouts(**more: Any) -> Space:
    """Layouts of a small model on 8 NPUs, of which some do not fit into the memory."""
    base = ar.Design(
        workload=ar.Transformer("gpt2-small", global_batch=16, seq=512, tp=2, dp=4),
        compute=ar.Roofline(peak="20 TFLOP/s"),
        memory=ar.Memory(bandwidth="500 GB/s", capacity="2 GB"),
        network=ar.Network([ar.Switch(4, bandwidth="20 GB/s", latency="500 ns"),
                            ar.Ring(2, bandwidth="10 GB/s", latency="2 us")]),
        collective=ar.Collective(choice="none", chunks=2))
    return Space(base, {"workload.tp": [1, 2, 4], "workload.zero": [0, 1, 3], "workload.recompute": ["none", "full"],
                        "memory.capacity": ["1 GB", "2 GB", "4 GB"], **more},
                 derived={"workload.dp": "8 // workload.tp"})


@pytest.fixture
def unbounded(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Evaluates points without lower bounds."""
    def made(space: Space, goal: Any, points: Any) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(evaluate, "lower_bounds", lambda *_: {})
            return list(Evaluator(space, goal).all(points))
    return made


def test_what_does_not_fit_is_refused_without_a_run(unbounded: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Designs that a run finds to fit are those that run, with equal values; the others hear how much is missing."""
    space, goal = layouts(), goal_of("makespan", require="peak_memory <= memory.capacity")
    points = random.Random(1).sample([space.point(number) for number in range(space.count)], 12)
    ran: list[Any] = []
    original = subject.prepare
    monkeypatch.setattr(subject, "prepare", lambda *given, **rest: ran.append(given) or original(*given, **rest))
    found = list(Evaluator(space, goal).all(points))
    count = len(ran)
    whole = unbounded(space, goal, points)
    assert {each.feasible for each in whole} == {True, False}
    for mine, other in zip(found, whole):
        assert mine.feasible == other.feasible
        if mine.values is not None:
            assert replace(mine, seconds=0.0) == replace(other, seconds=0.0)
        else:
            assert other.slacks[0] <= mine.slacks[0] < 0
            assert mine.problem.startswith("requirement peak_memory <= memory.capacity is not met: peak_memory is at "
                                           "least ")
    refused = sum(each.values is None for each in found)
    assert count == len(points) - refused < len(points) - 2


@pytest.mark.parametrize(("require", "refused"), [("peak_memory <= '10 GB'", 0), ("peak_memory >= '10 GB'", 0),
                                                  ("memory.capacity - 2 * peak_memory >= 0", 1),
                                                  ("2e9 / max(1, peak_memory) >= 4", 1)])
def test_any_comparison_that_a_bound_decides(require: str, refused: int) -> None:
    space = layouts()
    point = space.point_of({"workload.tp": 1, "workload.zero": 0, "workload.recompute": "none",
                            "memory.capacity": "1 GB"})
    verdict = Evaluator(space, goal_of("makespan", require=require))(point)
    assert (verdict.values is None) == bool(refused)
    assert verdict.feasible == (require == "peak_memory <= '10 GB'")


BOUNDED = {
    "makespan": ({"workload.micro_batch": [1, 2]}, {"minimize": "makespan"}),
    "cost": ({"network.dims[1].bandwidth": ["5 GB/s", "40 GB/s"], "workload.zero": [0]},
             {"minimize": "makespan * memory.capacity"}),
    "rate": ({"collective.chunks": [1, 4]}, {"maximize": "1e12 / makespan"}),
    "sum": ({"system.comm_streams": [1, 2]}, {"minimize": "makespan / 1e6 + memory.capacity / 1e9"}),
    "schedule": ({"collective.scheduling": ["fifo", "lifo"]}, {"minimize": "makespan * peak_memory"}),
    "ring": ({"network.dims[0].shape": ["ring", "switch"]}, {"minimize": "runtime_x_bandwidth"}),
    "tight": ({"workload.micro_batch": [1, 4]}, {"minimize": "makespan", "require": "peak_memory <= '1.2 GB'"}),
    "offset": ({"collective.composition": ["baseline", "blueconnect"]}, {"minimize": "makespan - 1e12"}),
    "largest": ({"compute.peak": ["10 TFLOP/s", "40 TFLOP/s"]}, {"maximize": "2 - makespan / 1e9"}),
    "contention": ({"network.backend": ["closed_form", "contention"]}, {"minimize": "max(makespan, 1e7)"}),
}


@pytest.mark.parametrize("name", ["cost", *[pytest.param(name, marks=pytest.mark.exam) for name in BOUNDED
                                            if name != "cost"]])
def test_bounds_and_caps_leave_the_best_as_it_is(name: str, unbounded: Any) -> None:
    """Of spaces of which every design is simulated without either."""
    more, goal = BOUNDED[name]
    space = layouts(**{"workload.recompute": ["none"], **more})
    goal = {"require": "peak_memory <= memory.capacity", **goal}
    points = [space.point(number) for number in range(space.count)]
    found = search(space, **goal, agent="grid", trials=space.count, cap=1.0)
    made = found.plan.goal
    whole = unbounded(space, made, points)
    sign = -1 if made.objectives[0].maximize else 1
    best = min((sign * each.values[0] for each in whole if each.feasible), default=None)
    assert found.trials == len(points)
    assert found.best is not None
    assert found.best.verdict.values is not None
    assert sign * found.best.verdict.values[0] == best
    assert any("designs were stopped, sure to be worse than 1 times" in text for text in found.notes)


def test_a_cap_stops_what_is_worse_and_resumes_alike(tmp_path: Path, unbounded: Any) -> None:
    """Each stopped design is worse than the cap; a study that goes on has the same trials."""
    space, study = layouts(), str(tmp_path / "s")
    points = random.Random(2).sample([space.point(number) for number in range(space.count)], 12)
    plan = Plan(space, goal_of("makespan"), agent_options("random", {"batch": 4}), 3, tuple(points[:6]), 1.2)
    with Store(study) as store, Workers(space, plan.goal) as workers:
        conduct(plan, 9, store, workers)
        whole = conduct(plan, 14, store, workers)
    trials = list(load_study(study).trials())
    with Store(MEMORY) as store, Workers(space, plan.goal, 2) as workers:
        conduct(plan, 14, store, workers)
        again = list(store.trials())
    assert [replace(each, verdict=replace(each.verdict, seconds=0.0)) for each in trials] == [
        replace(each, verdict=replace(each.verdict, seconds=0.0)) for each in again]
    stopped = [each for each in trials if each.verdict.beyond]
    assert stopped
    assert f"cap 1.2: {len(stopped)} designs were stopped" in whole.notes[0]
    values = unbounded(space, plan.goal, [each.point for each in stopped])
    for trial, verdict in zip(stopped, values):
        before = [each.verdict.values[0] for each in trials if each.round < trial.round and each.verdict.values]
        assert verdict.values[0] > 1.2 * min(before)
        how = "the makespan is more than" if trial.verdict.bound is None else "makespan is at least"
        assert trial.verdict.problem.startswith(f"beyond the cap: {how} ")
        if trial.verdict.bound is not None:
            assert 1.2 * min(before) < trial.verdict.bound <= verdict.values[0]


@pytest.mark.parametrize(("goal", "sign"), [({"minimize": "2 * makespan"}, 1), ({"maximize": "1e12 / makespan"}, -1)])
def test_a_lower_bound_beyond_the_cap_spares_the_run(goal: dict[str, str], sign: int, monkeypatch: pytest.MonkeyPatch
                                                     ) -> None:
    """And the agent hears it; a design that runs until the cap is worth the cap."""
    space = layouts(**{"workload.micro_batch": [1], "compute.peak": ["1 TFLOP/s", "200 TFLOP/s"]})
    points = [space.point_of({"workload.tp": 2, "workload.zero": 1, "workload.recompute": "none",
                              "memory.capacity": "4 GB", "workload.micro_batch": 1, "compute.peak": peak})
              for peak in ("200 TFLOP/s", "1 TFLOP/s")]
    heard: list[Any] = []
    monkeypatch.setattr(sampling._Random, "tell", lambda _, told: heard.extend(told))
    monkeypatch.setattr(sampling._Random, "ask", lambda *_: [points[1]])
    made = Plan(space, goal_of(**goal), agent_options("random", {"batch": 1}), 0, (points[0],), 1.0)
    ran: list[Any] = []
    original = subject.prepare
    monkeypatch.setattr(subject, "prepare", lambda *given, **rest: ran.append(given) or original(*given, **rest))
    with Store(MEMORY) as store, Workers(space, made.goal) as workers:
        conduct(made, 2, store, workers)
        first, second = store.trials()
    (value,) = first.verdict.values or (0.0,)
    worse = Evaluator(space, made.goal)(points[1]).values or (0.0,)
    assert second.verdict.beyond
    assert second.verdict.bound is not None
    assert sign * value < second.verdict.bound <= sign * worse[0]
    assert heard[-1].values == (second.verdict.bound,)
    assert len(ran) == 2


@pytest.mark.parametrize(("cap", "minimize"), [(0.5, "makespan"), (float("nan"), "makespan"),
                                               (2, ("makespan", "network_bandwidth")), (2, lambda design, result: 1.0)])
def test_impossible_caps_are_refused(cap: float, minimize: Any) -> None:
    with pytest.raises(InputError, match="cap"):
        search(layouts(), minimize, cap=cap, trials=1)
