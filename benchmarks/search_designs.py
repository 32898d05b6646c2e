"""Distinct designs per second and core of a search over COSMIC's full stack (GPT3-175B, 1,024 NPUs), end to end.

usage: search_designs.py [--designs N] [--seed S] [--minutes M] [--uniform]

A genetic study with its store on disk and one worker, over examples/cosmic/spaces/full.yaml. Every design is simulated
to its end, however long it takes; after M minutes (default 10) the study stops after the generation that it is in.
`--uniform` simulates points that are drawn evenly instead, which is harder: a search soon leaves the worst designs.
Seconds are CPU seconds of the process.
"""

from __future__ import annotations

import argparse
import random
import resource
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
from _measure import machine, process_s

from astrarium.errors import InputError
from astrarium.lower.kept import Kept
from astrarium.search.agents import agent_options
from astrarium.search.evaluate import Verdict
from astrarium.search.goal import goal_of
from astrarium.search.space import Point, Space
from astrarium.search.spacefile import load_space
from astrarium.search.store import Store
from astrarium.search.study import Plan, Progress, conduct
from astrarium.search.workers import Workers
from astrarium.simulate import simulate

SPACE = Path(__file__).parent.parent / "examples" / "cosmic" / "spaces" / "full.yaml"


class _OverError(Exception):
    """The minutes are over."""


class _Timed:
    """Judges points, and keeps the CPU seconds of each."""

    def __init__(self, workers: Workers, space: Space):
        self.judge, self.space = workers.evaluator, space
        self.seconds: list[float] = []
        self.refused: Counter[str] = Counter()
        self.workloads: set[object] = set()

    def __call__(self, point: Point) -> Verdict:
        start = process_s()
        verdict = self.judge(point)
        self.seconds.append(process_s() - start)
        self.refused[verdict.problem.partition(";")[0][:100]] += verdict.values is None
        self.workloads.add(self.space.design(point).workload)
        return verdict


def memory() -> float:
    """Peak memory so far, MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def shown(seconds: list[float], taken: float) -> None:
    """Rate, and the spread of the designs' seconds."""
    at = np.percentile(np.array(seconds) * 1000, (50, 90, 99, 100))
    print(f"  {len(seconds):,} distinct designs in {taken:.1f} CPU s: {len(seconds) / taken:.0f} designs/s/core")
    print(f"  a design takes {np.mean(seconds) * 1000:.1f} ms; p50 {at[0]:.1f}, p90 {at[1]:.1f}, p99 {at[2]:.1f}, "
          f"longest {at[3]:.0f} ms")


def study(space: Space, designs: int, seed: int, minutes: float) -> None:
    """The genetic study."""
    goal, until, marks = goal_of("runtime_x_bandwidth"), time.monotonic() + 60 * minutes, list[tuple[int, float]]()

    def progress(now: Progress) -> None:
        marks.append((now.trials, memory()))
        if time.monotonic() > until:
            raise _OverError

    with tempfile.TemporaryDirectory() as folder, Workers(space, goal) as workers, \
            Store(f"{folder}/designs.study") as store:
        timed = _Timed(workers, space)
        workers.evaluator = timed       # type: ignore[assignment]
        start = process_s()
        try:
            conduct(Plan(space, goal, agent_options("genetic", {}), seed), designs, store, workers, progress)
        except _OverError:
            print(f"  stopped after {minutes} minutes")
        taken = process_s() - start
    shown(timed.seconds, taken)
    late = [mark for mark in marks if mark[0] >= marks[-1][0] / 2]
    print(f"  {len(timed.workloads)} distinct workloads; refused: {dict(timed.refused - Counter())}; memory "
          f"{memory():.0f} MB, {late[-1][1] - late[0][1]:+.1f} MB over the last {late[-1][0] - late[0][0]:,} trials")


def uniform(space: Space, designs: int, seed: int, minutes: float) -> None:
    """Points drawn evenly."""
    rng, kept, seconds, whys = random.Random(seed), Kept(), list[float](), Counter[str]()
    until, begin = time.monotonic() + 60 * minutes, process_s()
    while len(seconds) < designs and time.monotonic() < until:
        start, point = process_s(), space.sample(rng)
        try:
            result = simulate(space.design(point), record=False, kept=kept)
            whys[result.outcome.unfolded_because or "folded"] += 1
        except InputError:
            whys["refused"] += 1
        seconds.append(process_s() - start)
    shown(seconds, process_s() - begin)
    print(f"  {dict(whys.most_common())}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--designs", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--uniform", action="store_true")
    chosen = parser.parse_args()
    print(machine())
    space = load_space(SPACE)
    print("uniform" if chosen.uniform else f"genetic, seed {chosen.seed}")
    (uniform if chosen.uniform else study)(space, chosen.designs, chosen.seed, chosen.minutes)


if __name__ == "__main__":
    main()
