"""Intervals of the designs that a search found, and which of them tie with the best."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from astrarium.cost import Figure
from astrarium.cost.interval import Interval, tied
from astrarium.report.tables.interval import interval_remarks, plain_interval, span
from astrarium.search import Goal, Space, Trial
from astrarium.search.subject import subject_of

__all__ = ["StudyIntervals", "study_intervals"]


class StudyIntervals(Struct, frozen=True):
    """Intervals of trials, the best first: that of each (None: nothing was trained or served), and what was searched
    for; `figures` of these designs."""

    goal: Goal
    trials: Sequence[Trial]
    every: Sequence[Interval | None]
    figures: Mapping[str, Figure]

    @property
    def known(self) -> bool:
        """Whether one of them has an interval."""
        return any(each is not None and each.known for each in self.every)

    @property
    def words(self) -> str:
        """What the intervals rest on; empty if nothing was trained or served."""
        return "; ".join(text.removeprefix("interval: ") for text in interval_remarks(self.every))

    def spans(self, place: int = 0) -> list[str]:
        """The interval of an objective in words, of each trial; empty texts where no trial has one, or the objective
        does not follow from the step time."""
        name = self._figure(place)
        if not self.known or not name:
            return [""] * len(self.trials)
        return ["" if within is None else span(within, name, value, self.figures)
                + (" extrapolated" if within.extrapolated else "")
                for within, value in zip(self.every, self._values(place))]

    @property
    def ties(self) -> list[bool | None]:
        """Whether each ties with the first by the first objective; None of the first, and if unknown."""
        name = self._figure(0)
        if not name or not self.trials:
            return [None] * len(self.trials)
        pairs = list(zip(self._values(0), self.every))
        return [None, *(tied(each, pairs[0], self.figures[name].of_time) for each in pairs[1:])]

    def plain(self, place: int) -> dict[str, Any]:
        """One trial for JSON: nothing if the first objective is not a step time or TPOT, or nothing was trained."""
        within = self.every[place]
        if within is None or not self._figure(0).startswith(("makespan", "tpot_")):
            return {}
        return {"interval": plain_interval(within, self._values(0)[place]), "tie": self.ties[place]}

    def _figure(self, place: int) -> str:
        """The figure that an objective is, where it follows from the step time."""
        name = self.goal.objectives[place].measure
        return name if isinstance(name, str) and name in self.figures and self.figures[name].of_time else ""

    def _values(self, place: int) -> list[float]:
        return [math.nan if each.verdict.values is None else each.verdict.values[place] for each in self.trials]


def study_intervals(space: Space, goal: Goal, trials: Sequence[Trial]) -> StudyIntervals:
    """Look up the interval of each trial's design; cases bring other workloads, whose steps have none."""
    alone = space.base is not None and not goal.cases
    subject = subject_of(space.base)
    return StudyIntervals(goal, trials, [subject.interval(space.design(each.point)) if alone else None
                                         for each in trials], subject.figures)
