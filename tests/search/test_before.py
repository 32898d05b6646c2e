"""What lower bounds rule out is refused before it runs; the best of a space stays the best."""

from __future__ import annotations

import random
from typing import Any

import pytest
from msgspec.structs import replace

import astrarium as ar
from astrarium.search import Space, evaluate, subject
from astrarium.search.evaluate import Evaluator
from astrarium.search.goal import goal_of


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
