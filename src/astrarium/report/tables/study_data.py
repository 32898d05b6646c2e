"""Everything that a report on studies shows, computed once."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from types import MappingProxyType

from msgspec import Struct

from astrarium.errors import InputError
from astrarium.report.tables.study_interval import StudyIntervals, study_intervals
from astrarium.search import Goal, Space, Trial
from astrarium.search.analysis import (
    Importance,
    Recheck,
    Sensitivity,
    Surrogate,
    Told,
    best_trials,
    knob_importances,
    rechecked,
    sensitivities,
    sign,
    value_of,
)
from astrarium.search.best import Ranked, ranked, stored_memory, thinned
from astrarium.search.convergence import Contest, Convergence, contest, convergence
from astrarium.search.fidelity import Correlation, saved
from astrarium.search.goal import no_best
from astrarium.search.inputs import of_values
from astrarium.search.sobol import Sobol, sampled, sobol_indices
from astrarium.search.starts import starts_of
from astrarium.search.studyfile import StoredStudy, refuse_others
from astrarium.search.trial import Front, Near, Nearest

__all__ = ["LISTED", "StudyReport", "Summary", "study_report"]

BEST, TOP, CLOUD = 10, 100, 5000
LISTED = 50     # designs of a front


class Summary(Struct, frozen=True):
    """One study in one line. `infeasible` trials miss a requirement, or are `refused`: they did not run to their end,
    some as a requirement was sure to be missed. `capped` ones were stopped at the cap of the study."""

    path: str
    agent: str
    seed: int
    trials: int
    distinct: int
    infeasible: int
    refused: int
    capped: int
    best: float | None


class StudyReport(Struct, frozen=True, dict=True):
    """Studies of one space and goal, taken together. `best` are distinct designs, with the study that found each first;
    `cloud` some trials' objectives."""

    studies: tuple[StoredStudy, ...]
    summaries: tuple[Summary, ...]
    best: tuple[tuple[StoredStudy, Trial], ...]
    top: tuple[Trial, ...]
    front: tuple[Trial, ...]
    cloud: tuple[tuple[float, ...], ...]
    convergence: tuple[Convergence, ...]
    model: Surrogate | None
    model_problem: str
    importances: tuple[Importance, ...]
    sensitivities: tuple[Sensitivity, ...]
    rechecks: tuple[Recheck, ...]
    ranked: tuple[Ranked, ...]
    sobol: Sobol | None
    sobol_problem: str
    fidelity: tuple[tuple[str, Correlation], ...] = ()      # study, and a cheaper network model of it
    contest: Contest | None = None      # of the agents
    base: Trial | None = None       # of the base, or of the design of the space that is nearest to it
    memory: Mapping[bytes, float] = MappingProxyType({})    # design -> its peak memory in bytes, where that is known

    @property
    def space(self) -> Space:
        """The space of all of them."""
        return self.studies[0].plan.space

    @property
    def goal(self) -> Goal:
        """The goal of all of them."""
        return self.studies[0].plan.goal

    @cached_property
    def intervals(self) -> StudyIntervals:
        """Intervals and ties of `best`."""
        return study_intervals(self.space, self.goal, [trial for _, trial in self.best])

    @cached_property
    def nearest(self) -> Nearest | None:
        """The trial nearest to meeting all requirements; None if one meets them, or if none ran to its end."""
        near = Near(len(self.goal.requirements))
        for study in () if self.best else self.studies:
            for trial in study.trials():
                near.add(trial)
        return near.found

    @property
    def nothing(self) -> str:
        """Why there is no best trial; empty if there is one."""
        if self.best:
            return ""
        problems = (trial.verdict.problem for study in self.studies for trial in study.trials())
        first = next(filter(None, problems), "") if self.nearest is None else ""
        why = no_best(self.goal)
        return f"{why}; the first problem: {first}" if first else why

    @property
    def network_model(self) -> str:
        """The network back end that the figures come from."""
        return "none" if self.space.base is None else self.space.base.network.backend


def study_report(studies: Sequence[StoredStudy], *, recheck: bool = False, progress: Told | None = None) -> StudyReport:
    """Look at what studies of one space and goal have stored. `recheck`: also simulate the best designs on
    `contention`, their memory where it is not stored, and the sensitivities. Raises InputError where they are of
    different ones."""
    _comparable(studies)
    best = _merged(studies, TOP)
    front = Front([-1.0 if each.maximize else 1.0 for each in studies[0].plan.goal.objectives])
    cloud: list[tuple[float, ...]] = []
    known, base = starts_of(studies[0].plan.space, (), base=True).points, None
    for study in studies:
        for trial in study.trials():
            front.add(trial)
            base = trial if base is None and known == (trial.point,) else base
            if trial.verdict.values is not None and trial.verdict.feasible and len(cloud) < CLOUD:
                cloud.append(trial.verdict.values)
    model, shares, problem = _model(studies)
    sobol, sobol_problem = _sobol(studies)
    if recheck and studies[0].functions:
        raise InputError("--recheck", "some objective was a Python function, which a study file does not hold",
                         expected="a report without it")
    detailed = [trial for _, trial in best[:BEST]] if len(studies[0].plan.goal.objectives) == 1 else \
        thinned(front.trials, BEST)
    run = recheck and best
    if run:
        studies[0].refuse_other_inputs("no --recheck: nothing is simulated then")
    space, goal = studies[0].plan.space, studies[0].plan.goal
    stored = {design: memory for study in studies for design, memory in stored_memory(study.path).items()}
    listed = ranked(space, goal, detailed, simulate=bool(run), memory_of=stored,
                    progress=None if progress is None else partial(progress, "designs with their memory"))
    others = ranked(space, goal, [trial for _, trial in best[:BEST]] + thinned(front.trials, LISTED), simulate=False,
                    memory_of=stored)
    return StudyReport(
        tuple(studies), tuple(map(_summary, studies)), tuple(best[:BEST]), tuple(trial for _, trial in best),
        front.trials, tuple(cloud), tuple(convergence(studies)), model, problem, shares,
        tuple(sensitivities(*best[0], progress)) if run else (),
        tuple(rechecked(studies[0], [trial for _, trial in best[:BEST]], progress=progress)) if run else (),
        tuple(listed), sobol, sobol_problem,
        tuple((each.path, found) for each in studies if each.plan.fidelity for found in saved(each.path)),
        contest(studies), base,
        {each.trial.design: each.memory for each in (*listed, *others) if each.memory is not None})


def _comparable(studies: Sequence[StoredStudy]) -> None:
    if not studies:
        raise InputError("studies", "there are none", expected="one study file or more")
    first = studies[0].plan.described()
    for study in studies[1:]:
        other = study.plan.described()
        for key in ("space", "objectives", "requirements", "cases"):
            if other[key] != first[key]:
                which = "other" if key.endswith("s") else "another"
                raise InputError(study.path, f"has {which} {key} than {studies[0].path}",
                                 expected="studies of one space and goal; a report for each")
        if studies[0].inputs is not None and study.inputs is not None:
            refuse_others(study.path, of_values(study.inputs), of_values(studies[0].inputs), "a report for each")


def _merged(studies: Sequence[StoredStudy], count: int) -> list[tuple[StoredStudy, Trial]]:
    """The best distinct designs over all studies."""
    direction = sign(studies[0])
    pairs = [(study, trial) for study in studies for trial in best_trials(study, count)]
    ordered = heapq.nsmallest(len(pairs), pairs, key=lambda each: (direction * value_of(each[1]), each[1].number))
    seen: set[bytes] = set()
    found = []
    for study, trial in ordered:
        if trial.design not in seen:
            seen.add(trial.design)
            found.append((study, trial))
    return found[:count]


def _summary(study: StoredStudy) -> Summary:
    trials = distinct = infeasible = refused = capped = 0
    for trial in study.trials():
        trials += 1
        distinct += trial.same_as is None
        infeasible += not (trial.verdict.feasible or trial.verdict.beyond)
        refused += trial.verdict.values is None and not trial.verdict.beyond
        capped += trial.verdict.beyond
    best = best_trials(study, 1)
    return Summary(study.path, study.plan.agent_name, study.plan.seed, trials, distinct, infeasible,
                   refused, capped, value_of(best[0]) if best else None)


def _model(studies: Sequence[StoredStudy]) -> tuple[Surrogate | None, tuple[Importance, ...], str]:
    try:
        model, shares = knob_importances(studies)
    except InputError as error:
        return None, (), f"No importances: {error.message}."
    return model, tuple(shares), ""


def _sobol(studies: Sequence[StoredStudy]) -> tuple[Sobol | None, str]:
    """The Sobol indices of the designed samples among the studies, or why there are none; nothing without a sample."""
    samples = sampled(studies)
    try:
        return (sobol_indices(samples) if samples else None), ""
    except InputError as error:
        return None, f"{error}"
