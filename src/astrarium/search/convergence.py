"""Agents side by side: their best objective over the number of designs, and which is best."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.arrays import F64
from astrarium.search.analysis import sign, value_of
from astrarium.search.intervals import student
from astrarium.search.studyfile import StoredStudy

__all__ = ["Contest", "Convergence", "contest", "convergence", "leading"]

CHECKS = 80      # instants at which convergence is shown
DOTS = 1000      # designs of an agent that are shown one by one


class Convergence(Struct, frozen=True):
    """Quartiles over the seeds of one agent: the best objective after some numbers of distinct `designs`. `at` and
    `own`: number and objective of feasible distinct designs of all seeds, spread evenly if they are many."""

    agent: str
    seeds: int
    designs: npt.NDArray[np.int64]
    low: F64
    median: F64
    high: F64
    at: npt.NDArray[np.int64]
    own: F64


class Contest(Struct, frozen=True):
    """A comparison of agents after `designs` distinct designs. `best`: the agent whose best design is better than that
    of every other agent, by more than the 95 % interval over seeds; None: undecided."""

    designs: int
    best: str | None

    @property
    def words(self) -> str:
        """A sentence."""
        if self.best is None:
            return (f"Which agent is best after {self.designs:,} designs is undecided: the interval over seeds spans "
                    "0, or an agent has one seed.")
        return f"{self.best} is the best agent after {self.designs:,} designs (95 % interval over seeds)."


def convergence(studies: Sequence[StoredStudy]) -> list[Convergence]:
    """The best objective after numbers of distinct designs that all studies of an agent reach, per agent."""
    own = _own(studies)
    return [_quartiles(agent, ways, sign(studies[0]), *own[agent]) for agent, ways in _ways(studies).items()]


def _own(studies: Sequence[StoredStudy]) -> dict[str, tuple[npt.NDArray[np.int64], F64]]:
    """Agent -> numbers of feasible distinct designs, and the objective of each."""
    pairs: dict[str, list[tuple[int, float]]] = {}
    for study in studies:
        distinct = (trial for trial in study.trials() if trial.same_as is None)
        pairs.setdefault(study.plan.agent_name, []).extend(
            (number, value_of(trial)) for number, trial in enumerate(distinct, 1) if trial.verdict.feasible)
    found = {}
    for agent, every in pairs.items():
        some = [every[place] for place in np.linspace(0, len(every) - 1, min(DOTS, len(every))).astype(int)]
        found[agent] = (np.array([each[0] for each in some], np.int64), np.array([each[1] for each in some], float))
    return found


def _ways(studies: Sequence[StoredStudy]) -> dict[str, list[F64]]:
    """Agent -> for each of its studies the best objective after each distinct design; less is better."""
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
    return series


def contest(studies: Sequence[StoredStudy]) -> Contest | None:
    """Compare the agents after as many distinct designs as all studies have; None for fewer than two agents."""
    series = _ways(studies)
    if len(series) < 2:
        return None
    last = min(len(way) for ways in series.values() for way in ways)
    return Contest(last, leading({agent: np.array([way[last - 1] for way in ways]) for agent, ways in series.items()}))


def leading(ends: Mapping[str, F64]) -> str | None:
    """The agent whose mean is below that of every other (agent -> the best value of each seed; logarithms if all are
    above 0), by more than the 95 % interval of the difference; None: undecided."""
    every = np.concatenate(list(ends.values()))
    if not np.isfinite(every).all():
        return None
    values = {agent: np.log(own) if (every > 0).all() else own for agent, own in ends.items()}
    first, *others = sorted(values, key=lambda agent: float(values[agent].mean()))
    return first if all(_below(values[first], values[other]) for other in others) else None


def _below(one: F64, other: F64) -> bool:
    """Whether the 95 % interval of the difference of two means is below 0 (Welch's t, with the fewer degrees of freedom
    of the two); not for a single value."""
    least = min(len(one), len(other))
    if least < 2:
        return False
    error = math.sqrt(one.var(ddof=1) / len(one) + other.var(ddof=1) / len(other))
    return float(one.mean() - other.mean()) + student(least - 1) * error < 0


def _quartiles(agent: str, ways: Sequence[F64], direction: float, number: npt.NDArray[np.int64], own: F64
               ) -> Convergence:
    last = min(len(way) for way in ways)
    at = np.unique(np.round(np.geomspace(1, last, min(CHECKS, last))).astype(np.int64))
    values = direction * np.array([way[at - 1] for way in ways])
    values[~np.isfinite(values)] = np.nan
    with np.errstate(all="ignore"):
        low, median, high = (np.full(len(at), np.nan) for _ in range(3))
        full = ~np.isnan(values).any(axis=0)
        low[full], median[full], high[full] = np.percentile(values[:, full], [25, 50, 75], axis=0)
    return Convergence(agent, len(ways), at, low, median, high, number, own)
