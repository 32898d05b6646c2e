"""Trials of a batch go through their steps together: verdicts and their order are as one by one."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.search.designs import small_space
from tests.search.test_study import rows

from astrarium.errors import InputError
from astrarium.lower.kept import BYTES
from astrarium.search import Space, evaluate, search, subject
from astrarium.search.evaluate import Evaluator
from astrarium.search.goal import goal_of
from astrarium.search.study import cache_of
from astrarium.search.trial import Verdict
from astrarium.search.workers import Workers

MESHES = Space(small_space().base, {"network.dims[0].shape": ["ring", "mesh"], "collective.chunks": [1, 2, 4, 8]})


def drawn(space: Space, count: int) -> list[Any]:
    rng = random.Random(3)
    return [space.sample(rng) for _ in range(count)]


def told(verdict: Verdict) -> Verdict:
    return replace(verdict, seconds=0.0)


@pytest.mark.parametrize("moment", [0.0, 0.05])
def test_a_batch_is_judged_as_its_points_one_by_one(moment: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluate, "MOMENT", moment)
    goal = goal_of(["runtime_x_cost", "makespan"], require="makespan <= 3e6")     # a mesh has no price: it is refused
    points = drawn(MESHES, 70)
    one_by_one = [told(Evaluator(MESHES, goal)(point)) for point in points]
    assert {verdict.values is None for verdict in one_by_one} == {True, False}
    assert [told(verdict) for verdict in Evaluator(MESHES, goal).all(points)] == one_by_one


def test_steps_of_several_trials_follow_each_other_and_slow_ones_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    space = small_space()
    points, log, original = drawn(space, 40), list[str](), subject.prepare

    def logged(*given: Any, **rest: Any) -> Any:
        log.append("prepared")
        run = original(*given, **rest)

        def logged_run() -> Any:
            log.append("ran")
            return run()
        return logged_run
    monkeypatch.setattr(subject, "prepare", logged)
    monkeypatch.setattr(evaluate, "MOMENT", 60.0)
    assert len(list(Evaluator(space, goal_of("makespan")).all(points))) == 40
    assert log == ["prepared"] * 32 + ["ran"] * 32 + ["prepared"] * 8 + ["ran"] * 8
    log.clear()
    monkeypatch.setattr(evaluate, "MOMENT", 0.0)
    verdicts = Evaluator(space, goal_of("makespan")).all(points)
    for done in range(1, 4):
        next(verdicts)
        assert log == ["prepared", "ran"] * done


def test_what_was_judged_before_an_interruption_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    space, original, left = small_space(), subject.prepare, 10
    points = drawn(space, 20)

    def interrupted(*given: Any, **rest: Any) -> Any:
        run = original(*given, **rest)

        def or_not() -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise KeyboardInterrupt
            return run()
        return or_not
    monkeypatch.setattr(subject, "prepare", interrupted)
    monkeypatch.setattr(evaluate, "MOMENT", 0.0)
    verdicts = Evaluator(space, goal_of("makespan")).all(points)
    assert all(next(verdicts).feasible for _ in range(10))
    with pytest.raises(KeyboardInterrupt):
        next(verdicts)


def test_the_seconds_of_a_trial_are_those_of_its_steps() -> None:
    verdicts = list(Evaluator(MESHES, goal_of("runtime_x_cost")).all(drawn(MESHES, 10)))
    assert all(0 < verdict.seconds < 5 for verdict in verdicts)


def test_the_cache_has_a_size_and_no_influence(tmp_path: Path) -> None:
    """`--cache` and its default are bytes that Evaluator and worker processes get; trials are the same."""
    assert cache_of("512 MiB") == BYTES
    assert Workers(MESHES, goal_of("makespan"), cache=1 << 20).evaluator._kept.most == 1 << 20
    found = [search(small_space(), "makespan", trials=20, cache=cache, study=tmp_path / f"{number}.study")
             for number, cache in enumerate(("1 kB", "1 GB"))]
    assert rows(tmp_path / "0.study") == rows(tmp_path / "1.study")
    assert found[0].objectives() == found[1].objectives()
    for wrong in ("0 B", "much", -1):
        with pytest.raises(InputError, match="cache"):
            search(small_space(), "makespan", trials=1, cache=wrong)
