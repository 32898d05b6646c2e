"""Search a space: known designs and a cheaper network model come first, then the loop."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from astrarium.search.agents.base import Options, chosen_agent
from astrarium.search.agents.sampling import Random
from astrarium.search.fidelity import TRIALS, cheaper, drawn, kept, notes_of, promoted
from astrarium.search.goal import Case, goal_of
from astrarium.search.limits import Limits, limits_of
from astrarium.search.loop import Study, conduct
from astrarium.search.space import Space
from astrarium.search.starts import Start, starts_of
from astrarium.search.store import MEMORY, Store
from astrarium.search.studyfile import Plan, known_designs, load_study, stored_starts, tried
from astrarium.search.trial import Progress, Trial
from astrarium.search.workers import Workers, cache_of

__all__ = ["DEFAULT", "Progress", "Study", "cache_of", "chosen_agent", "conduct", "search"]

DEFAULT = "bayesian"      # the agent if the user names none


def search(space: Space, minimize: Any = (), *, maximize: Any = (), require: str | Sequence[str] = (),
           cases: Sequence[Case] = (), agent: str | Options | None = None, options: Mapping[str, Any] | None = None,
           trials: int = 200, seed: int = 0, start: Start | Sequence[Start] | None = None,
           jobs: int = 1, processes: bool = False, ray: str | None = None,
           study: str | os.PathLike[str] | None = None, limit: str | Sequence[str] | Limits = (),
           cap: float | None = None, fidelity: str | Sequence[str] = (), cache: str | int = "512 MiB",
           progress: Callable[[Progress], None] | None = None) -> Study:
    """Search a space for the best designs.

    Equal calls give equal trials, with any number of workers.

    Args:
        space: The designs to choose from.
        minimize: One objective or several: a figure (`makespan`), a name (`runtime_x_cost`), an expression over figures
            and design paths, or a function of (design, result). A mapping gives them names.
        maximize: Objectives of which more is better.
        require: Conditions that a design must meet, over figures and design paths.
        cases: Workloads over which the objectives are computed; none: the base's.
        agent: Name or options of the agent (`astrarium list agent`). None: bayesian.
        options: Hyper-parameters of the agent, by name.
        trials: Trials of the study in the end, stored ones included.
        seed: Seed of the agent.
        start: Known designs, tried after the base and told to the agent: a Design, a mapping knob -> value, or a file
            (a design, a study, or a CSV of `astrarium report --csv`); several in a list. Of a study the ten best
            count, and no design that it holds runs again if base, goal and inputs are equal. A knob that a start does
            not have keeps the base's value, and the nearest design of the space is taken. None: the base alone, or
            the starts of the `study` that goes on. Empty: none at all, not the base.
        jobs: Designs evaluated at a time.
        processes: Whether to evaluate in processes instead of threads.
        ray: Address of a Ray cluster to evaluate on (`local`, `auto`, `host:port`); `jobs` is then its number of CPUs.
        study: File that stores the trials; a further call with it continues the study. None: they are not stored.
        limit: CPU time ("10 s") or memory ("8 GB") of one design, or both; a design that exceeds it is a trial without
            values.
        cap: A design is stopped once its objective is sure to be worse than so many times the best of earlier batches
            (1 or more; one objective). It is a trial without values, of which the agent hears the bound. None: every
            design runs to its end.
        fidelity: Cheaper network models, the cheapest first (`closed_form`). 8 or 16 random designs run in both; if
            they rank alike, a search of 100 trials in the cheaper model comes first, and its ten best designs are
            starts. Values are those of the base's network model.
        cache: Memory for workloads, traces and collectives of earlier designs (text or bytes); results do not depend
            on it.
        progress: Called with the progress at least once per batch.

    Returns:
        The study: its best trials and its counts.

    Raises:
        InputError: before the first trial, for whatever is wrong.
    """
    goal = goal_of(minimize, maximize, require, cases)
    named = chosen_agent(DEFAULT if agent is None else agent, options)
    files, known = known_designs(start)
    first = cheaper(space, goal, fidelity)
    made = Plan(space, goal, named, seed, cap=cap, fidelity=() if first is None else first.models)
    working = partial(Workers, made.space, goal, jobs, "processes" if processes else "threads", ray, limits_of(limit),
                      cache_of(cache))
    random, said, below = list[Trial](), None, None
    if first is not None:
        with working() as workers, Store(first.file(study, "drawn") or MEMORY) as store:
            random, said = drawn(made.space, goal, first.model, partial(_random, made, store, workers, progress),
                                 limits_of(limit))
        if said.verdict == "high":
            below = search(
                first.space, minimize, maximize=maximize, require=require, cases=cases, agent=agent, options=options,
                trials=TRIALS, seed=seed, start=start, jobs=jobs, processes=processes, ray=ray,
                study=first.file(study), limit=limit, cap=cap, fidelity=first.below, cache=cache, progress=progress)
    best = () if first is None or below is None else promoted(
        first, below.top if len(goal.objectives) == 1 else below.front, below.problem)
    starts = starts_of(made.space, [*known, *(values for _, values in best)], base=start is None or bool(known))
    with working() as workers, Store(MEMORY if study is None else os.fspath(study)) as store:
        new = tuple(dict.fromkeys((*starts.points, *(trial.point for trial in random))))
        points = new if start is not None else stored_starts(store, new)
        known_verdicts = {key: verdict for file in files for key, verdict in tried(load_study(file), made).items()}
        known_verdicts |= {trial.design: trial.verdict for trial in random}
        found = conduct(replace(made, starts=points), trials, store, workers, progress, known_verdicts)
        notes = (*starts.notes, *found.notes)
        if first is not None and said is not None:
            said = replace(said, promoted=_pairs(made.space, best, store))
            found = replace(found, fidelity=(*(below.fidelity if below else ()), said))
            notes += tuple(notes_of(first, said, below.notes if below else ()))
            kept(study, found.fidelity)
    return replace(found, notes=notes)


def _random(plan: Plan, store: Store, workers: Workers, progress: Callable[[Progress], None] | None, count: int
            ) -> list[Trial]:
    """The first `count` random trials of a plan, those of its agents that start at random."""
    conduct(Plan(plan.space, plan.goal, Random(), plan.seed), count, store, workers, progress)
    return list(store.trials())


def _pairs(space: Space, best: Sequence[tuple[Trial, Mapping[str, Any]]], store: Store
           ) -> tuple[tuple[float, float], ...]:
    """The first objective of promoted designs in the cheaper model and in the dear one."""
    dear = {trial.point: trial.verdict.values[0] for trial in store.trials()
            if trial.verdict.values is not None and trial.verdict.feasible}
    found = [(trial, starts_of(space, values).points[0]) for trial, values in best]
    return tuple((trial.verdict.values[0], dear[point]) for trial, point in found
                 if trial.verdict.values is not None and point in dear)
