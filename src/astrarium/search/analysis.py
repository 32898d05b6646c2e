"""What a study says: the best designs, which knobs matter, what a change of one knob does, how agents converged."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.config import replace
from astrarium.errors import InputError
from astrarium.search.evaluate import Evaluator, Verdict
from astrarium.search.space import Point, Space
from astrarium.search.store import Trial
from astrarium.search.stored import StoredStudy
from astrarium.search.surrogate import Surrogate, fit, importances

__all__ = ["Convergence", "Recheck", "Sensitivity", "best_trials", "convergence", "knob_importances", "rechecked",
           "sensitivities"]

F64 = npt.NDArray[np.float64]
Told = Callable[[str, int, int], None]      # what is simulated, how many are done, of how many
CHECKS = 80      # instants at which convergence is shown


class Sensitivity(Struct, frozen=True):
    """One knob of the best design at another value, the other knobs moved only as far as the constraints ask for."""

    knob: str
    value: Any
    moved: tuple[str, ...]
    verdict: Verdict


class Recheck(Struct, frozen=True):
    """A design's first objective on another network model; `other` is None where that model refuses it (`problem`)."""

    trial: Trial
    other: float | None
    problem: str = ""


class Convergence(Struct, frozen=True):
    """Best objective so far of one agent over its seeds: quartiles at some numbers of distinct designs."""

    agent: str
    seeds: int
    designs: npt.NDArray[np.int64]
    low: F64
    median: F64
    high: F64


def sign(study: StoredStudy) -> float:
    """1 where less of the first objective is better, else -1."""
    return -1.0 if study.plan.goal.objectives[0].maximize else 1.0


def value_of(trial: Trial) -> float:
    """The first objective of a trial that has one."""
    assert trial.verdict.values is not None
    return trial.verdict.values[0]


def best_trials(study: StoredStudy, count: int = 10) -> list[Trial]:
    """The best distinct feasible designs by the first objective, the earlier of equals first."""
    good = (trial for trial in study.trials() if trial.same_as is None and trial.verdict.feasible)
    return heapq.nsmallest(count, good, key=lambda trial: (sign(study) * value_of(trial), trial.number))


def knob_importances(studies: Sequence[StoredStudy]) -> tuple[Surrogate, list[tuple[str, float]]]:
    """A surrogate of the distinct feasible trials of studies of one space, and its knobs by permutation importance, the
    most important first. Raises InputError where there are too few trials."""
    known: dict[Point, float] = {}
    for study in studies:
        for trial in study.trials():
            if trial.same_as is None and trial.verdict.feasible:
                known.setdefault(trial.point, value_of(trial))
    model = fit(list(known), list(known.values()))
    names = [axis.name for axis in studies[0].plan.space.axes]
    found = list(zip(names, importances(model).tolist()))
    return model, sorted(found, key=lambda each: -each[1])


def sensitivities(study: StoredStudy, trial: Trial, progress: Told | None = None) -> list[Sensitivity]:
    """Every knob at every other value (a continuum at its ends), one at a time around a trial; each is simulated."""
    judge, wanted = Evaluator(study.plan.space, study.plan.goal), list(_around(study.plan.space, trial))
    found = list[Sensitivity]()
    for knob, value, moved, point in wanted:
        if progress is not None:
            progress("sensitivities", len(found), len(wanted))
        found.append(Sensitivity(knob, value, moved, judge(point)))
    return found


def _around(space: Space, trial: Trial) -> Iterator[tuple[str, Any, tuple[str, ...], Point]]:
    """(knob, its value, the knobs that move with it, the point) of every knob's other values around a trial."""
    for place, axis in enumerate(space.axes):
        ends = range(axis.size) if axis.size else (axis.domain.low, axis.domain.high)
        for wanted in ends:
            if wanted == trial.point[place]:
                continue
            wish = list(trial.point)
            wish[place] = wanted
            point = space.projector.project(wish, pinned=place)
            if point[place] != wanted:
                continue
            moved = tuple(other.name for index, other in enumerate(space.axes)
                          if index != place and point[index] != trial.point[index])
            yield axis.name, space.values(point)[axis.name], moved, point


def rechecked(study: StoredStudy, trials: Sequence[Trial], backend: str = "contention",
              progress: Told | None = None) -> list[Recheck]:
    """Simulate the designs of `trials` again with another network back end."""
    space = study.plan.space
    if space.base is None:
        raise InputError("base", "is missing")
    other = Space(replace(space.base, "network.backend", backend), space.choices, space.where, space.derived,
                  space.variables)
    judge = Evaluator(other, study.plan.goal)
    found = list[Recheck]()
    for trial in trials:
        if progress is not None:
            progress(f"designs on {backend}", len(found), len(trials))
        verdict = judge(trial.point)
        found.append(Recheck(trial, verdict.values[0] if verdict.values else None, verdict.problem))
    return found


def convergence(studies: Sequence[StoredStudy]) -> list[Convergence]:
    """Best so far over *distinct* designs, per agent, at numbers that all its studies reach."""
    series: dict[str, list[F64]] = {}
    for study in studies:
        way, best = [], np.inf
        for trial in study.trials():
            if trial.verdict.feasible:
                best = min(best, sign(study) * value_of(trial))
            if trial.same_as is None:
                way.append(best)
            elif way:
                way[-1] = best
        if way:
            series.setdefault(study.plan.agent_name, []).append(np.array(way))
    return [_quartiles(agent, ways, sign(studies[0])) for agent, ways in series.items()]


def _quartiles(agent: str, ways: Sequence[F64], direction: float) -> Convergence:
    last = min(len(way) for way in ways)
    at = np.unique(np.round(np.geomspace(1, last, min(CHECKS, last))).astype(np.int64))
    values = direction * np.array([way[at - 1] for way in ways])
    values[~np.isfinite(values)] = np.nan
    with np.errstate(all="ignore"):
        low, median, high = (np.full(len(at), np.nan) for _ in range(3))
        full = ~np.isnan(values).any(axis=0)
        low[full], median[full], high[full] = np.percentile(values[:, full], [25, 50, 75], axis=0)
    return Convergence(agent, len(ways), at, low, median, high)
