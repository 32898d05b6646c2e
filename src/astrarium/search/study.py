"""Search a space: the loop that asks an agent, evaluates, stores and tells; and the result of a study."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, cast

from msgspec import Struct, field
from msgspec.structs import replace

from astrarium.errors import InputError
from astrarium.registry import cell, printed
from astrarium.search.agents.base import Agent, Closing, Hearing, Options, Proof, Prover, Told, chosen_agent, started
from astrarium.search.agents.sampling import Random
from astrarium.search.axes import Point
from astrarium.search.fidelity import TRIALS, Correlation, cheaper, notes_of, pairs_of, probe, promoted, save_found
from astrarium.search.flight import Flight
from astrarium.search.goal import Case, goal_of, no_best
from astrarium.search.inputs import inputs_of
from astrarium.search.limits import Limits, limits_of
from astrarium.search.space import Space, most_trials
from astrarium.search.starts import Start, starts_of
from astrarium.search.store import MEMORY, Store
from astrarium.search.studyfile import Plan, design_keys, known_designs, load_study, resume, stored_starts, tried
from astrarium.search.trial import Front, Near, Nearest, Progress, Top, Trial, Verdict
from astrarium.search.workers import Judges, Workers, cache_of

__all__ = ["DEFAULT", "Progress", "Study", "cache_of", "chosen_agent", "conduct", "search"]

TICK, DEFAULT = 1.0, "bayesian"      # the agent if the user names none


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
    random, said, below = cast("Sequence[Trial]", ()), None, None
    if first is not None:
        with working() as workers, Store(first.file(study, "drawn") or MEMORY) as store:
            random, said = probe(made.space, goal, first.model, partial(_random, made, store, workers, progress),
                                 limits_of(limit))
        if said.verdict == "high":
            below = search(
                first.space, minimize, maximize=maximize, require=require, cases=cases, agent=agent, options=options,
                trials=TRIALS, seed=seed, start=start, jobs=jobs, processes=processes, ray=ray,
                study=first.file(study), limit=limit, cap=cap, fidelity=first.below, cache=cache, progress=progress)
    best = () if first is None or below is None else promoted(first, below.top if len(goal.objectives) == 1
                                                              else below.front, below.problem)
    starts = starts_of(made.space, [*known, *(values for _, values in best)], base=start is None or bool(known))
    with working() as workers, Store(MEMORY if study is None else os.fspath(study)) as store:
        new = tuple(dict.fromkeys((*starts.points, *(trial.point for trial in random))))
        points = new if start is not None else stored_starts(store, new)
        known_verdicts = {key: verdict for file in files for key, verdict in tried(load_study(file), made).items()
                          } | {trial.design: trial.verdict for trial in random}
        found = conduct(replace(made, starts=points), trials, store, workers, progress, known_verdicts)
        notes = (*starts.notes, *found.notes)
        if first is not None and said is not None:
            said = replace(said, promoted=pairs_of(made.space, best, store.trials()))
            found = replace(found, fidelity=(*(below.fidelity if below else ()), said))
            notes += tuple(notes_of(first, said, below.notes if below else ()))
            save_found(study, found.fidelity)
    return replace(found, notes=notes)


def _random(plan: Plan, store: Store, workers: Workers, progress: Callable[[Progress], None] | None, count: int
            ) -> list[Trial]:
    """The first `count` trials of a plan's random search."""
    conduct(Plan(plan.space, plan.goal, Random(), plan.seed), count, store, workers, progress)
    return list(store.trials())


class Study(Struct, frozen=True):
    """The result of a search.

    `trials` were made, of `distinct` designs; `fresh` of them in this run, which took `seconds` of wall-clock time.
    `best`: the first of the best feasible trials (None: there is none); `top`: the ten best designs; `front`: the
    trials that no other beats in every objective. `refused`: trials without values; `problem`: the reason of the first.
    `exhausted`: the agent has nothing left to propose; `proof`: what the agent proved, if it proves optima.
    """
    _repr_html_ = cell("search")
    plan: Plan
    trials: int
    distinct: int
    best: Trial | None
    front: tuple[Trial, ...]
    seconds: float
    fresh: int
    exhausted: bool = False
    proof: Proof | None = None      # of the agent `exact`
    notes: tuple[str, ...] = field(default=())
    problem: str = ""
    top: tuple[Trial, ...] = ()
    refused: int = 0
    first: Trial | None = None      # of the starts
    fidelity: tuple[Correlation, ...] = ()      # of the cheaper network models, the cheapest first
    nearest: Nearest | None = None        # to meeting all requirements

    @property
    def base(self) -> Trial | None:
        """The trial of the base, or of the design nearest to it; None if it was not the first."""
        known = starts_of(self.plan.space, (), base=True).points
        return self.first if self.first is not None and known == (self.first.point,) else None

    def __str__(self) -> str:
        """The tables of the command line."""
        return printed("search", self)

    @property
    def nothing(self) -> str:
        """The reason why there is no best trial."""
        return no_best(self.plan.goal)

    def values(self, trial: Trial | None = None) -> dict[str, Any]:
        """The knobs of a trial (None: the best one): name -> value."""
        chosen = trial or self.best
        return {} if chosen is None else self.plan.space.values(chosen.point)

    def objectives(self, trial: Trial | None = None) -> dict[str, float]:
        """The objectives of a trial (None: the best one): name -> value."""
        chosen = trial or self.best
        if chosen is None or chosen.verdict.values is None:
            return {}
        return {each.name: value for each, value in zip(self.plan.goal.objectives, chosen.verdict.values)}


def conduct(plan: Plan, trials: int, store: Store, workers: Judges,
            progress: Callable[[Progress], None] | None = None, known: Mapping[bytes, Verdict] | None = None,
            agent: Agent | None = None) -> Study:
    """Search until the open `store` holds `trials` trials. Stored trials are replayed, not run again; neither are
    designs of `known` (key of `design_keys` -> verdict). `agent`: the search of the plan's agent, if it has begun.
    Raises InputError if the store is of another plan, or of other inputs."""
    if trials < 1:
        raise InputError("trials", f"{trials} is impossible", expected="1 or more")
    if store.path != MEMORY:
        resume(store, plan.described(), inputs_of(plan.space, plan.goal, plan.agent))
    store.given = {**(known or {}), **store.given}
    loop = _Loop(plan, trials, store, workers, progress, agent)
    try:
        return loop.run()
    finally:
        if isinstance(loop.agent, Closing):
            loop.agent.close()


class _Loop:
    """One run of a study."""

    def __init__(self, plan: Plan, trials: int, store: Store, workers: Judges,
                 progress: Callable[[Progress], None] | None, agent: Agent | None):
        self.plan, self.trials, self.store, self.workers, self.progress = plan, trials, store, workers, progress
        self.agent = started(plan.agent, plan.space, plan.goal, plan.seed) if agent is None else agent
        self.outside = isinstance(plan.agent, Options) and plan.agent.outside
        self.signs = tuple(-1.0 if each.maximize else 1.0 for each in plan.goal.objectives)
        self.front, self.top, self.near = Front(self.signs), Top(self.signs[0]), Near(len(plan.goal.requirements))
        self.stored: Iterator[Trial] = store.trials()
        self.done = self.distinct = self.fresh = self.round = self.refused = 0
        self.start = self.told = time.perf_counter()
        self.notes: list[str] = []
        self.problem, self.first = "", cast("Trial | None", None)
        self.stopped, self.stored_stops, self.beyond, self.key = 0, 0, 0, design_keys(plan)
        self.cap: float | None = None      # of this round; less is better

    def run(self) -> Study:
        """Run rounds of ask, evaluate, store, tell. A round that the number of trials cuts short is not told: it goes
        on when the study is continued."""
        self._report()
        self._start()
        flight = getattr(self.plan.agent, "in_flight", 0)
        exhausted = self._replaced(flight) if flight else self._batches()
        self.store.flush()
        if self.plan.cap is not None:
            self.notes.append(f"cap {self.plan.cap:g}: {self.beyond:,} designs were stopped, sure to be worse than "
                              f"{self.plan.cap:g} times the best so far")
        if self.stored_stops:
            self.notes.append(f"{self.stored_stops:,} stored trials were stopped at the limit of an earlier command, "
                              "and stay without values whatever the limit is now; another --study tries them again")
        return Study(self.plan, self.done, self.distinct, self.front.best, self.front.trials,
                     time.perf_counter() - self.start, self.fresh, exhausted, self._proof(), tuple(self.notes),
                     self.problem, self.top.trials, self.refused, self.first, nearest=self.near.found)

    def _batches(self) -> bool:
        """Rounds of a batch each. Returns whether the agent has nothing left to propose."""
        while self.done < self.trials:
            before = self.done
            points = self._asked(self.plan.agent.batch)
            if not points:
                return True
            cut = points[:self.trials - before]
            found = self._round(cut)
            if len(cut) == len(points):
                self.agent.tell([self._told(trial) for trial in found])
            self.round += 1
            self._report()
        return False

    def _replaced(self, flight: int) -> bool:
        """Keep `flight` points running: one is asked for as soon as another is finished and told. Trials are stored in
        the order in which they finish, and stored ones are replayed in it. Returns as `_batches`."""
        assert isinstance(self.workers, Workers)
        running = Flight(self.workers, self.store, self.key)
        while self.done < self.trials:
            while len(running.asked) < min(flight, self.trials - self.done) and (points := self._asked(1)):
                running.asked[self.round] = points[0]
                self.round += 1
            if not running.asked:
                return True
            trial = next(self.stored, None)
            if trial is None:
                trial = running.finished()
                self._keep(trial)
            else:
                self._replay(trial, running.asked.get(trial.round))
            running.asked.pop(trial.round, None)
            self.agent.tell([self._told(trial)])
        self._report()
        return False

    def _start(self) -> None:
        """The starts of the plan, batch by batch; then an agent that hears is told them."""
        starts, batch = self.plan.starts, self.plan.agent.batch
        found: list[Trial] = []
        for at in range(0, min(len(starts), self.trials), batch):
            found += self._round(starts[at:min(at + batch, self.trials)])
            self.round += 1
            self._report()
        if found and isinstance(self.agent, Hearing):
            self.agent.hear([self._told(trial) for trial in found])

    def _asked(self, count: int) -> list[Point]:
        """The points of the next round, at most `count`. Those from outside are asked for once, and stored first."""
        if not self.outside:
            return self.agent.ask(count)
        points = self.store.answer(self.round)
        if points is None:
            self.store.flush()      # an answer may take long
            points = self.agent.ask(count)
            self.store.keep_answer(self.round, points)
        return points

    def _proof(self) -> Proof | None:
        """The proof of an agent that proves; an empty one if a design was stopped, so that its value is not known."""
        if not isinstance(self.agent, Prover):
            return None
        if not self.stopped:
            return self.agent.proof()
        self.notes.append(f"{self.stopped:,} trials were stopped at their limit, so that nothing is proved")
        return Proof(-math.inf, math.inf, False)

    def _told(self, trial: Trial) -> Told:
        """A trial for an agent: of its values less is better, infinity for infeasible; of one beyond the cap
        its lower bound, or the cap if it was stopped."""
        values, verdict = (math.inf,) * len(self.signs), trial.verdict
        if verdict.beyond and self.cap is not None:
            values = (self.cap if verdict.bound is None else verdict.bound,)
        if verdict.values is not None and verdict.feasible:
            values = tuple(sign * value for sign, value in zip(self.signs, verdict.values))
        return Told(trial.point, values, verdict, trial.number)

    def _round(self, points: Sequence[Point]) -> list[Trial]:
        """The trials of one round in the order asked: stored ones, then new ones."""
        self.cap = self._capped()
        found = self._replayed(points)
        if len(found) < len(points):
            found += self._evaluated(points[len(found):])
        return found

    def _capped(self) -> float | None:
        """The value, less is better, beyond which designs of the next round are stopped."""
        best, cap = self.front.best, self.plan.cap
        if cap is None or best is None or best.verdict.values is None:
            return None
        worth = self.signs[0] * best.verdict.values[0]
        return worth * cap if worth > 0 else worth / cap

    def _count(self, trial: Trial) -> None:
        """Count a trial."""
        if trial.number == 0 and self.plan.starts:
            self.first = trial
        self.done += 1
        self.distinct += trial.same_as is None
        for each in (self.front, self.top, self.near):
            each.add(trial)
        self.problem = self.problem or trial.verdict.problem
        self.stopped += trial.verdict.stopped
        self.beyond += trial.verdict.beyond
        self.refused += trial.verdict.values is None and not trial.verdict.beyond

    def _replayed(self, points: Sequence[Point]) -> list[Trial]:
        found: list[Trial] = []
        while len(found) < len(points):
            trial = next(self.stored, None)
            if trial is None:
                self.stored = iter(())
                break
            self._replay(trial, points[len(found)])
            found.append(trial)
        return found

    def _replay(self, trial: Trial, point: Point | None) -> None:
        """Count a stored trial, for which the agent proposes `point` now."""
        if trial.point != point and not self.notes:
            self.notes.append(f"trial {trial.number}: the agent proposes another point than the stored one "
                              "(another version of a library?); the stored trials stand")
        self._count(trial)
        self.stored_stops += trial.verdict.stopped

    def _keep(self, trial: Trial) -> None:
        """Store and count a new trial."""
        self.store.add(trial)
        self.fresh += 1
        self._count(trial)
        if self.progress is not None and time.perf_counter() - self.told > TICK:
            self._report()

    def _evaluated(self, points: Sequence[Point]) -> list[Trial]:
        keys = [self.key(point) for point in points]
        known = self.store.known(keys)
        first: dict[bytes, int] = {}
        for place, key in enumerate(keys):
            if key not in known:
                first.setdefault(key, place)
        number = self.store.count
        found: list[Trial] = []
        given = self.store.given
        fresh_points = [points[place] for key, place in first.items() if key not in given]
        verdicts = self.workers(fresh_points) if self.cap is None else self.workers(fresh_points, self.cap)
        fresh: dict[bytes, tuple[int, Verdict]] = {}
        for place, (point, key) in enumerate(zip(points, keys)):
            if first.get(key) == place:
                fresh[key] = (number + place, given[key] if key in given else next(verdicts))
                same, verdict = None, fresh[key][1]
            else:
                same, verdict = fresh[key] if key in fresh else known[key]
            trial = Trial(number + place, self.round, point, key, same, verdict)
            found.append(trial)
            self._keep(trial)
        return found

    def _report(self) -> None:
        if self.progress is not None:
            best = self.front.best
            value = None if best is None or best.verdict.values is None else best.verdict.values[0]
            most, self.told = most_trials(self.plan.space, self.trials, self.plan.agent), time.perf_counter()
            self.progress(Progress(self.done, most, value, self.told - self.start, self.fresh, self.refused))
