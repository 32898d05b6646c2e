"""Runs of the study: which searches there are, and each as a study file that a second call goes on with."""

from __future__ import annotations

import itertools
import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from spaces import HERE, MODELS, REWARDS, STACKS, SYSTEMS, Setup, objective, space
from timed import SLOW, Timed

from astrarium.search import Case
from astrarium.search.goal import goal_of
from astrarium.search.searchfile import load_search
from astrarium.search.store import Store
from astrarium.search.study import chosen_agent, conduct
from astrarium.search.studyfile import Plan, StoredStudy, load_study

INFERENCE = ("inference_chat", "inference_qa")
MIXES = (*INFERENCE, "multi_model")
Search = tuple[str, Setup, str, int, int]


@dataclass(frozen=True)
class Effort:
    """How much is run. `seconds`: wall seconds of all searches together (0: as long as they take); `limit`: CPU seconds
    that a design may take, and `recheck` on `contention`."""

    trials: int
    seeds: int
    agent_trials: int
    gp_trials: int
    mix_trials: int
    seconds: float
    limit: float
    recheck: float
    agents: Sequence[str]
    batches: Sequence[int]


QUICK = Effort(trials=64, seeds=3, agent_trials=320, gp_trials=64, mix_trials=64, seconds=660, limit=1.5, recheck=20,
               agents=("random", "genetic", "ant_colony", "bayesian"), batches=(1024, 16384))
FULL = Effort(trials=200, seeds=5, agent_trials=1000, gp_trials=200, mix_trials=200, seconds=0, limit=10, recheck=240,
              agents=("random", "genetic", "ant_colony", "bayesian"), batches=(1024, 2048, 4096, 8192, 16384))
LEARNER = "bayesian"      # of all parts but `agents`: the nearest to the proven optimum, from 64 trials on
STEP = 4        # trials after which a quick search looks at the clock
WEIGHT = {"agents": 3.0, "batches": 0.7}      # share of a quick study's time; 1 for the other parts


@dataclass(frozen=True)
class Run:
    """One search. `part` of the study it belongs to."""

    part: str
    setup: Setup
    agent: str
    seed: int
    trials: int
    limit: float = 120.0

    @property
    def weight(self) -> float:
        """Its share of a quick study's time, of the sum over runs."""
        return WEIGHT.get(self.part, 1.0)

    @property
    def file(self) -> str:
        """Name of its study file."""
        return f"{self.setup.name}-{self.agent}-{self.seed}.study"


@dataclass
class Found:
    """What a run found: its study, and the wall and CPU seconds of this call (0 where all was stored)."""

    run: Run
    study: StoredStudy
    best: float | None
    values: dict[str, Any]
    trials: int
    refused: int
    slow: int
    wall: float
    cpu: float
    objectives: list[float] = field(default_factory=list)      # of every trial in order, infinite where refused

    @cached_property
    def half(self) -> Found:
        """As it was after half of the trials."""
        return found_in(self.study, replace(self.run, trials=self.trials // 2))


def plan(effort: Effort, preset: str) -> Iterator[Run]:
    """Every run. The same search in two parts is one file, run once."""
    for part, setup, agent, seed, trials in (*_agents(effort, preset), *_stacks(effort, preset),
                                             *_sizes(effort, preset), *_mixes(effort), *_batches(effort, preset)):
        yield Run(part, setup, agent, seed, trials, effort.limit)


def _agents(effort: Effort, preset: str) -> Iterator[Search]:
    for seed in range(effort.seeds):
        for agent in effort.agents:
            trials = effort.gp_trials if agent == "bayesian" else effort.agent_trials
            for reward in REWARDS:
                yield "agents", Setup("full", reward, preset=preset), agent, seed, trials


def _stacks(effort: Effort, preset: str) -> Iterator[Search]:
    """Single stacks and the full one on the three systems; and GPT3-175B's time over all workloads."""
    for system in SYSTEMS:
        for reward in REWARDS:
            for stack in (*STACKS[:3], "full"):
                for seed in range(effort.seeds):
                    yield "stacks", Setup(stack, reward, system, preset=preset), LEARNER, seed, effort.trials
    yield "stacks", Setup("compute", "perf_per_bandwidth", preset=preset), "grid", 0, 4
    yield "spread", Setup("workload", "perf_per_bandwidth", preset=preset), "grid", 0, 332


def _sizes(effort: Effort, preset: str) -> Iterator[Search]:
    """System 2 at three sizes, and the other models on it."""
    for seed in range(effort.seeds):
        for npus in (512, 1024, 2048):
            for stack in (*STACKS[:3], "full"):
                setup = Setup(stack, "perf_per_bandwidth", npus=npus, preset=preset)
                yield "scaling", setup, LEARNER, seed, effort.trials
        for model in MODELS[1:]:
            for reward in REWARDS:
                yield "models", Setup("full", reward, model=model, preset=preset), LEARNER, seed, effort.trials


def _mixes(effort: Effort) -> Iterator[Search]:
    for seed in range(effort.seeds):
        for mix in MIXES:
            for reward in REWARDS:
                for agent in ("random", LEARNER):
                    yield "mixes", Setup(mix, reward), agent, seed, effort.mix_trials


def _batches(effort: Effort, preset: str) -> Iterator[Search]:
    """The sweep over batches at 2,048 NPUs: the workload stack alone, and the full one."""
    for model in ("cosmic-gpt3-175b", "cosmic-vit-large")[:1 if effort.seconds else 2]:
        for batch in effort.batches:
            for stack in ("workload", "full"):
                for seed in range(effort.seeds):
                    setup = Setup(stack, "perf_per_bandwidth", model=model, npus=2048, preset=preset, batch=batch)
                    yield "batches", setup, LEARNER, seed, effort.trials


def carry_out(run: Run, folder: Path, jobs: int, say: Callable[[str], None], seconds: float = 0) -> Found:
    """One run, a few trials at a time, so that `seconds` (0: none) can end it; what its file holds already is not run
    again. `seconds` below 0: it holds all that it shall."""
    made, path = space(run.setup), folder / run.file
    wall, cpu = time.perf_counter(), _cpu()
    trials = min(run.trials, made.count)
    goal = goal_of(objective(run.setup), cases=cases_of(run.setup))
    plan_ = Plan(made, goal, chosen_agent(run.agent, _options(run.agent)), run.seed)
    if seconds >= 0 or not path.exists():
        with Timed(made, goal, jobs, run.limit) as workers:
            _grow(plan_, path, workers, trials, seconds)
    found = found_in(load_study(path), run, time.perf_counter() - wall, _cpu() - cpu)
    if found.best is None:
        say(f"every trial was refused, the first because: {next(found.study.trials()).verdict.problem}")
    say(f"{run.part:8} {run.file:80} {found.trials:5} trials ({found.refused - found.slow:3} refused, {found.slow:3} "
        f"slow) {found.wall:6.1f} s  best {'none' if found.best is None else format(found.best, '.4g')}")
    return found


def _grow(plan_: Plan, path: Path, workers: Timed, trials: int, seconds: float) -> None:
    start, done = time.perf_counter(), 0
    step = STEP if seconds else trials
    while done < trials:
        done = min(trials, done + step)
        with Store(str(path)) as store:
            study = conduct(plan_, done, store, workers)
        if study.exhausted or (seconds and time.perf_counter() - start > seconds):
            break


def cases_of(setup: Setup) -> tuple[Case, ...]:
    """The workloads of a stack; none: its one."""
    return tuple(load_search(HERE / "spaces" / f"{setup.stack}.yaml").cases)


def seconds_a_trial(run: Run, jobs: int, count: int) -> float:
    """Wall seconds of a trial, from `count` uniform designs run now; the agent's own time is not in it."""
    made, draw = space(run.setup), random.Random(0)
    points = [made.sample(draw) for _ in range(count)]
    with Timed(made, goal_of(objective(run.setup), cases=cases_of(run.setup)), jobs, run.limit) as workers:
        start = time.perf_counter()
        for _ in workers(points):
            pass
    return (time.perf_counter() - start) / count


def _cpu() -> float:
    """CPU seconds of this process and of those it has ended."""
    return sum(os.times()[:4])


def _options(agent: str) -> dict[str, Any]:
    """Batches of 16 for all but the Gaussian process, so that agents learn equally often."""
    return {} if agent == "bayesian" else {"batch": 16}


def found_in(study: StoredStudy, run: Run, wall: float = 0.0, cpu: float = 0.0) -> Found:
    """The run from its study, which may hold more trials."""
    objectives: list[float] = []
    best, point, refused, slow = None, None, 0, 0
    for trial in itertools.islice(study.trials(), run.trials):
        good = trial.verdict.feasible and trial.verdict.values is not None
        value = trial.verdict.values[0] if good else float("inf")
        refused += not good
        slow += SLOW in trial.verdict.problem
        objectives.append(value)
        if good and (best is None or value < best):
            best, point = value, trial.point
    values = {} if point is None else study.plan.space.values(point)
    return Found(run, study, best, values, len(objectives), refused, slow, wall, cpu, objectives)
