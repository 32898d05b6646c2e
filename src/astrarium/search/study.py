"""The loop of a search: ask, evaluate, keep, tell; and what a study says when it stops."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import force_setattr

from astrarium.config import to_plain
from astrarium.engine.plugins.given import checked
from astrarium.errors import InputError, PluginError
from astrarium.search.agents.base import Agent, AgentOptions, Options, Values
from astrarium.search.agents.exact import ExactSearch, Proof
from astrarium.search.agents.plugin import PluginAgent
from astrarium.search.best import Front, Top
from astrarium.search.evaluate import Verdict
from astrarium.search.goal import Goal
from astrarium.search.inputs import inputs_of
from astrarium.search.resume import resume
from astrarium.search.space import Point, Space
from astrarium.search.spacefile import space_plain
from astrarium.search.store import MEMORY, Store, Trial
from astrarium.search.workers import Judges
from astrarium.units import Quantity

__all__ = ["FUNCTION", "Plan", "Progress", "Study", "conduct", "design_keys", "jsonable"]

FORMAT = "2"
FUNCTION = "a Python function"
TICK = 1.0


class Plan(Struct, frozen=True):
    """What a study is: the same plan gives the same trials, whatever the machine and the number of workers."""

    space: Space
    goal: Goal
    agent: AgentOptions
    seed: int = 0

    def __post_init__(self) -> None:
        changed = [path for case in self.goal.cases for path in case.changes]
        force_setattr(self, "space", self.space.for_cases(changed))

    @property
    def agent_name(self) -> str:
        """The agent's name."""
        assert isinstance(self.agent, Options)
        return self.agent.tag

    def described(self) -> dict[str, str]:
        """The plan as text, entry by entry; studies are the same where these are."""
        def text(value: object) -> str:
            return msgspec.json.encode(jsonable(value)).decode()      # in the order written: it is that of the axes
        measures = [[each.name, "max" if each.maximize else "min",
                     each.measure if isinstance(each.measure, str) else FUNCTION] for each in self.goal.objectives]
        cases = [[case.name, case.weight, dict(case.changes)] for case in self.goal.cases]
        assert isinstance(self.agent, Options)
        return {"format": FORMAT, "space": text(space_plain(self.space)), "objectives": text(measures),
                "requirements": text(self.goal.requirements), "cases": text(cases),
                "agent": text(to_plain(self.agent, defaults=True)), "seed": str(self.seed)}


class Progress(Struct):
    """Where a study is: handed to the caller at its beginning, after every batch, and within one after a trial when
    `TICK` seconds have passed."""

    trials: int
    planned: int
    best: float | None
    seconds: float
    fresh: int      # trials of this run, without those that were stored before
    refused: int = 0      # trials without values: a model refused the design, a requirement did, or a limit ended it


class Study(Struct, frozen=True):
    """What a search found. `best` is the first of the best feasible trials (None: there is none), `top` the ten best
    designs, `front` the trials that none beats in every objective, `distinct` the number of different designs;
    `seconds` are this run's; `refused` trials have no values, and `problem` says why the first of them has none."""

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

    @property
    def nothing(self) -> str:
        """Why there is no best trial, where there is none."""
        return "no trial met every requirement" if self.plan.goal.requirements else "every trial was refused"

    def values(self, trial: Trial | None = None) -> dict[str, Any]:
        """The knobs of a trial (the best one where none is named)."""
        chosen = trial or self.best
        return {} if chosen is None else self.plan.space.values(chosen.point)

    def objectives(self, trial: Trial | None = None) -> dict[str, float]:
        """The objectives of a trial (the best one where none is named)."""
        chosen = trial or self.best
        if chosen is None or chosen.verdict.values is None:
            return {}
        return {each.name: value for each, value in zip(self.plan.goal.objectives, chosen.verdict.values)}


def conduct(plan: Plan, trials: int, store: Store, workers: Judges,
            progress: Callable[[Progress], None] | None = None) -> Study:
    """Search until the open `store` holds `trials` trials; what it holds already is replayed, not run again. Raises
    InputError where the store is of another plan, or of other inputs."""
    if trials < 1:
        raise InputError("trials", f"{trials} is impossible", expected="1 or more")
    if store.path != MEMORY:
        resume(store, plan.described(), inputs_of(plan.space, plan.goal, plan.agent))
    return _Loop(plan, trials, store, workers, progress).run()


def _started(plan: Plan) -> Agent:
    """The agent at its beginning. Raises PluginError for one that lacks a method."""
    who = f"agent {type(plan.agent).__qualname__}"
    if not callable(getattr(plan.agent, "start", None)):
        raise PluginError(who, "has no method start(space, goal, seed)")
    agent: Agent = checked(who, plan.agent.start(plan.space, plan.goal, plan.seed), ("ask", "tell"))
    own = type(plan.agent).__module__.startswith(f"{__package__}.agents.")
    return agent if own else PluginAgent(who, agent, plan.space)


def design_keys(plan: Plan) -> Callable[[Point], bytes]:
    """From a point to the hash of its design: of the base and of every value that is put into it."""
    prefix, space = hashlib.blake2b(plan.described()["space"].encode()).digest(), plan.space
    return lambda point: hashlib.blake2b(space.fingerprint(point), digest_size=16, key=prefix).digest()


class _Loop:
    """One run of a study."""

    def __init__(self, plan: Plan, trials: int, store: Store, workers: Judges,
                 progress: Callable[[Progress], None] | None):
        self.plan, self.trials, self.store, self.workers, self.progress = plan, trials, store, workers, progress
        self.agent = _started(plan)
        self.signs = tuple(-1.0 if each.maximize else 1.0 for each in plan.goal.objectives)
        self.front, self.top = Front(self.signs), Top(self.signs[0])
        self.stored: Iterator[Trial] = store.trials()
        self.done = self.distinct = self.fresh = self.round = self.refused = 0
        self.start = self.told = time.perf_counter()
        self.notes: list[str] = []
        self.problem = ""
        self.stopped, self.stored_stops, self.key = 0, 0, design_keys(plan)

    def run(self) -> Study:
        """Rounds of ask, evaluate, keep, tell. A round that the number of trials cuts short is not told: it goes on
        when the study is continued."""
        exhausted = False
        self._report()
        while self.done < self.trials:
            before = self.done
            points = self.agent.ask(self.plan.agent.batch)
            if not points:
                exhausted = True
                break
            cut = points[:self.trials - before]
            found = self._round(cut)
            if len(cut) == len(points):
                self.agent.tell([trial.point for trial in found], [self._told(trial.verdict) for trial in found])
            self.round += 1
            self._report()
        self.store.flush()
        if self.stored_stops:
            self.notes.append(f"{self.stored_stops:,} stored trials were stopped at the limit of an earlier command, "
                              "and stay without values whatever the limit is now; another --study tries them again")
        return Study(self.plan, self.done, self.distinct, self.front.best, self.front.trials,
                     time.perf_counter() - self.start, self.fresh, exhausted,
                     self._proof(), tuple(self.notes), self.problem, self.top.trials, self.refused)

    def _proof(self) -> Proof | None:
        """What the agent `exact` proved: nothing, where a design's value is not known."""
        if not isinstance(self.agent, ExactSearch):
            return None
        if not self.stopped:
            return self.agent.proof()
        self.notes.append(f"{self.stopped:,} trials were stopped at their limit, so that nothing is proved")
        return Proof(-math.inf, math.inf, False)

    def _told(self, verdict: Verdict) -> Values:
        """What an agent hears: less is better, infinity for infeasible."""
        if verdict.values is None or not verdict.feasible:
            return (math.inf,) * len(self.signs)
        return tuple(sign * value for sign, value in zip(self.signs, verdict.values))

    def _round(self, points: Sequence[Point]) -> list[Trial]:
        """The trials of one round: those stored, then those that are new, in the order asked."""
        found = self._replayed(points)
        if len(found) < len(points):
            found += self._evaluated(points[len(found):])
        return found

    def _count(self, trial: Trial) -> None:
        """One trial more."""
        self.done += 1
        self.distinct += trial.same_as is None
        self.front.add(trial)
        self.top.add(trial)
        self.problem = self.problem or trial.verdict.problem
        self.stopped += trial.verdict.stopped
        self.refused += trial.verdict.values is None

    def _replayed(self, points: Sequence[Point]) -> list[Trial]:
        found: list[Trial] = []
        while len(found) < len(points):
            trial = next(self.stored, None)
            if trial is None:
                self.stored = iter(())
                break
            if trial.point != points[len(found)] and not self.notes:
                self.notes.append(f"trial {trial.number}: the agent proposes another point than the stored one "
                                  "(another version of a library?); the stored trials stand")
            found.append(trial)
            self._count(trial)
            self.stored_stops += trial.verdict.stopped
        return found

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
        verdicts = self.workers([points[place] for key, place in first.items() if key not in given])
        fresh: dict[bytes, tuple[int, Verdict]] = {}
        for place, (point, key) in enumerate(zip(points, keys)):
            if first.get(key) == place:
                fresh[key] = (number + place, given[key] if key in given else next(verdicts))
                same, verdict = None, fresh[key][1]
            else:
                same, verdict = fresh[key] if key in fresh else known[key]
            trial = Trial(number + place, self.round, point, key, same, verdict)
            found.append(trial)
            self.store.add(trial)
            self.fresh += 1
            self._count(trial)
            if self.progress is not None and time.perf_counter() - self.told > TICK:
                self._report()
        return found

    def _report(self) -> None:
        if self.progress is not None:
            best = self.front.best
            value = None if best is None or best.verdict.values is None else best.verdict.values[0]
            self.told = time.perf_counter()
            self.progress(Progress(self.done, self.trials, value, self.told - self.start, self.fresh, self.refused))


def jsonable(value: Any) -> Any:
    """Plain data with quantities as text and keys as text."""
    if isinstance(value, Quantity):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): jsonable(each) for key, each in value.items()}
    return [jsonable(each) for each in value] if isinstance(value, (list, tuple, range)) else value
