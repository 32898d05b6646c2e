"""The ten best designs of the full stack of System 2, run again with messages that queue on every link."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from runs import Found
from spaces import REWARDS, objective
from timed import Timed

import astrarium as ar
from astrarium.search import Trial
from astrarium.search.analysis import best_trials, value_of
from astrarium.search.goal import goal_of

EACH = 5      # designs of each reward


@dataclass(frozen=True)
class Rechecked:
    """A design's objective under both network models; NaN where `contention` gave none (`problem`)."""

    reward: str
    search: str
    trial: int
    value: float
    contention: float
    problem: str


def rechecked(found: Sequence[Found], limit: float, jobs: int = 2) -> Iterator[Rechecked]:
    """The best distinct designs of the agents under each reward; a design may take `limit` CPU seconds."""
    for reward in REWARDS:
        best = _best([each for each in found if each.run.part == "agents" and each.run.setup.reward == reward])
        if not best:
            continue
        space = best[0][0].study.plan.space
        base = ar.replace(space.base, "network.backend", "contention")
        other = ar.Space(base, space.choices, space.where, space.derived, space.variables)
        with Timed(other, goal_of(objective(best[0][0].run.setup)), jobs, limit) as judge:
            verdicts = list(judge([trial.point for _, trial in best]))
        for (each, trial), verdict in zip(best, verdicts):
            value = verdict.values[0] if verdict.values else math.nan
            yield Rechecked(reward, each.run.file.removesuffix(".study"), trial.number, value_of(trial), value,
                            verdict.problem)


def _best(part: Sequence[Found]) -> list[tuple[Found, Trial]]:
    pairs = [(each, trial) for each in part for trial in best_trials(each.study, EACH)]
    chosen: dict[object, tuple[Found, Trial]] = {}
    for pair in sorted(pairs, key=lambda pair: value_of(pair[1])):
        chosen.setdefault(pair[1].point, pair)
    return list(chosen.values())[:EACH]
