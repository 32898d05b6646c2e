"""Importances, sensitivities, convergence: on functions whose answers are known."""

from __future__ import annotations

import math
import random
from pathlib import Path

import numpy as np
import pytest
from tests.search.designs import small_space

from astrarium.errors import InputError
from astrarium.search import Space, search
from astrarium.search.analysis import (
    Importance,
    around_mean,
    best_trials,
    fit,
    importances,
    knob_importances,
    most_important,
    rechecked,
    sensitivities,
)
from astrarium.search.convergence import contest, convergence, leading
from astrarium.search.evaluate import Evaluator
from astrarium.search.studyfile import StoredStudy, load_study


def test_the_surrogate_finds_what_matters() -> None:
    """exp(3 a + b) over four knobs: a matters nine times as much as b (variance), c and d not at all."""
    space = Space(None, variables={name: range(8) for name in "abcd"})
    rng = random.Random(0)
    points = list({space.sample(rng) for _ in range(1500)})
    values = [float(np.exp(0.3 * a + 0.1 * b)) for a, b, _, _ in points]
    model = fit(points, values)
    assert model.r2 > 0.98
    assert model.relative_error < 0.15
    found = importances(model).mean(axis=0)
    assert found[0] == pytest.approx(2 * 0.9, rel=0.15)      # shuffling a knob doubles its share of the variance
    assert found[1] == pytest.approx(2 * 0.1, rel=0.35)
    assert max(found[2:]) < 0.01
    fresh = [space.sample(rng) for _ in range(200)]
    truth = np.array([np.exp(0.3 * a + 0.1 * b) for a, b, _, _ in fresh])
    assert float(np.median(np.abs(model.predict(fresh) / truth - 1))) < 0.08
    assert np.array_equal(fit(points, values).predict(fresh), model.predict(fresh))


def test_too_few_trials_are_refused() -> None:
    with pytest.raises(InputError, match="too few"):
        fit([(0,)] * 19, [1.0] * 19)


@pytest.fixture(scope="module")
def studies(tmp_path_factory: pytest.TempPathFactory) -> list[StoredStudy]:
    """Three seeds of two agents."""
    folder = tmp_path_factory.mktemp("studies")
    for agent in ("random", "genetic"):
        for seed in range(3):
            search(small_space(), "makespan", agent=agent, trials=120, seed=seed, study=folder / f"{agent}{seed}")
    return [load_study(path) for path in sorted(folder.iterdir()) if not path.name.endswith(".lock")]


def test_best_trials_are_distinct_and_sorted(studies: list[StoredStudy]) -> None:
    best = best_trials(studies[0])
    values = [trial.verdict.values[0] for trial in best if trial.verdict.values]
    assert values == sorted(values)
    assert len({trial.design for trial in best}) == len(best) == 10


def test_importances_name_the_knobs(studies: list[StoredStudy]) -> None:
    model, found = knob_importances(studies)
    assert [each.share for each in found] == sorted((each.share for each in found), reverse=True)
    assert all(each.low <= each.share <= each.high for each in found)
    assert {each.knob for each in found} == {axis.name for axis in small_space().axes}
    assert model.r2 > 0.5


def test_a_knob_leads_only_beyond_its_interval(tmp_path: Path) -> None:
    """Few trials, or two knobs alike: undecided. One knob that decides: it leads."""
    assert most_important([Importance("a", 1.0, 0.6, 1.4), Importance("b", 0.4, 0.2, 0.5)]) == "a"
    assert most_important([Importance("a", 1.0, 0.6, 1.4), Importance("b", 0.8, 0.4, 1.2)]) is None

    def leader(name: str, trials: int, weights: tuple[float, float]) -> str | None:
        space = Space(None, variables={each: range(4) for each in "abcd"})

        def noisy(point: tuple[int, ...]) -> float:
            noise = random.Random(repr(point)).gauss(0, 0.3)
            return math.exp(weights[0] * point[0] + weights[1] * point[1] + noise)

        rng = random.Random(1)
        points = list(dict.fromkeys(space.sample(rng) for _ in range(2 * trials)))[:trials]
        shares = importances(fit(points, [noisy(point) for point in points]))
        found = [Importance(each, *around_mean(shares[:, place])) for place, each in enumerate("abcd")]
        return most_important(sorted(found, key=lambda each: -each.share))

    assert leader("clear", 160, (1.0, 0.2)) == "a"
    assert leader("alike", 160, (1.0, 1.0)) is None
    assert leader("few", 20, (1.0, 0.7)) is None


def test_agents_differ_only_beyond_their_seeds(studies: list[StoredStudy]) -> None:
    """One seed decides nothing, nor do seeds that spread as much as the agents differ."""
    one = [study for study in studies if study.plan.seed == 0]
    assert contest(one[:1]) is None
    alone = contest(one)
    assert alone is not None
    assert alone.best is None
    assert "undecided" in alone.words
    near, far, wide = np.array([1.0, 1.01, 1.02]), np.array([2.0, 2.1, 1.9]), np.array([1.0, 3.0, 2.0])
    assert leading({"far": far, "near": near}) == "near"
    assert leading({"far": far, "near": near, "wide": wide}) is None
    assert leading({"near": near, "far": np.array([2.0])}) is None
    assert leading({"near": near, "far": np.array([2.0, math.inf, 2.0])}) is None


def test_sensitivities_change_one_knob_and_say_what_else_moved(studies: list[StoredStudy]) -> None:
    space, trial = small_space(), best_trials(studies[0], 1)[0]
    judge = Evaluator(space, studies[0].plan.goal)
    found = sensitivities(studies[0], trial)
    assert {each.knob for each in found} == {axis.name for axis in space.axes}
    start = space.values(trial.point)
    for each in found:
        values = {**start, each.knob: each.value}
        if "npus" in each.knob:
            assert each.moved == (f"network.dims[{'1' if '[0]' in each.knob else '0'}].npus",)
        else:
            assert each.moved == ()
            assert judge(space.point_of(values)).values == each.verdict.values


def test_recheck_on_contention(studies: list[StoredStudy]) -> None:
    best = best_trials(studies[0], 3)
    for each, trial in zip(rechecked(studies[0], best), best):
        assert each.trial == trial
        assert each.other is not None
        assert each.other > 0
    same = rechecked(studies[0], best, "closed_form")
    assert [each.other for each in same] == [trial.verdict.values[0] for trial in best if trial.verdict.values]


def test_convergence_is_over_distinct_designs(studies: list[StoredStudy], tmp_path: Path) -> None:
    for each in convergence(studies):
        assert each.seeds == 3
        assert (np.diff(each.median) <= 0).all()
        assert (each.low <= each.median).all()
        assert (each.median <= each.high).all()
        ends = [best_trials(study, 1)[0].verdict.values for study in studies if study.plan.agent_name == each.agent]
        assert min(value[0] for value in ends if value) <= each.median[-1]
