"""Simulated designs per second and core of a search over COSMIC's full stack (GPT3-175B, 1,024 NPUs), end to end.

usage: search_designs.py [--designs N] [--seed S] [--minutes M] [--uniform]

A genetic study with its store on disk and one worker, over examples/cosmic/spaces/full.yaml. The rate is of distinct
designs that were simulated to their end, however long that takes; refused ones do not count, but their time does, as
does everything else that the study does. After M minutes (default 10) it ends, in the middle of a design if need be.
`--uniform` simulates points that are drawn evenly instead, which is harder: a search soon leaves the worst designs.
Seconds are CPU seconds of the process; in a study, those of one design and of refused ones are wall-clock ones.
"""

from __future__ import annotations

import argparse
import random
import resource
import signal
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from _measure import machine, process_s

from astrarium.errors import InputError, StallError
from astrarium.lower.kept import Kept
from astrarium.search.agents import agent_options
from astrarium.search.axes import Point
from astrarium.search.evaluate import Evaluator
from astrarium.search.goal import goal_of
from astrarium.search.searchfile import load_space
from astrarium.search.space import Space
from astrarium.search.store import Store
from astrarium.search.study import conduct
from astrarium.search.studyfile import Plan
from astrarium.search.trial import Verdict
from astrarium.simulate import simulate

SPACE = Path(__file__).parent.parent / "examples" / "cosmic" / "spaces" / "full.yaml"


class _OverError(Exception):
    """The minutes are over."""


def over(*_: object) -> None:
    """What the alarm does."""
    raise _OverError


class _Timed:
    """Judges points, and keeps the seconds of each that was simulated; of those refused, why and all seconds; `taken`:
    CPU seconds of all of it."""

    def __init__(self, judge: Evaluator):
        self.judge = judge
        self.points, self.seconds = list[Point](), list[float]()
        self.refused, self.refusing, self.taken = Counter[str](), 0.0, 0.0

    def __call__(self, points: Sequence[Point]) -> Iterator[Verdict]:
        verdicts = self.judge.all(points)
        for point in points:
            start = process_s()
            try:
                verdict = next(verdicts)
            finally:
                self.taken += process_s() - start
            if verdict.values is None:
                self.refused[verdict.problem.partition(";")[0][:100]] += 1
                self.refusing += verdict.seconds
            else:
                self.points.append(point)
                self.seconds.append(verdict.seconds)
            yield verdict


def memory() -> float:
    """Peak memory so far, MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def shown(seconds: Sequence[float], taken: float, refused: int, refusing: float) -> None:
    """Rate, and the spread of the designs' seconds."""
    if not seconds:
        print(f"  no design was simulated ({refused:,} refused)")
        return
    at = np.percentile(np.array(seconds) * 1000, (50, 90, 99, 100))
    print(f"  {len(seconds):,} distinct designs simulated in {taken:.1f} CPU s: {len(seconds) / taken:.0f} "
          f"designs/s/core; {refused:,} refused, in {refusing:.1f} s of it")
    print(f"  a design takes {np.mean(seconds) * 1000:.1f} ms; p50 {at[0]:.1f}, p90 {at[1]:.1f}, p99 {at[2]:.1f}, "
          f"longest {at[3]:.0f} ms")


def study(space: Space, designs: int, seed: int) -> None:
    """The genetic study."""
    goal, marks = goal_of("runtime_x_bandwidth"), list[tuple[int, float]]()
    timed = _Timed(Evaluator(space, goal))
    with tempfile.TemporaryDirectory() as folder, Store(f"{folder}/designs.study") as store:
        start = process_s()
        try:
            conduct(Plan(space, goal, agent_options("genetic", {}), seed), designs, store, timed,
                    lambda now: marks.append((now.trials, memory())))
        except _OverError:
            print("  the minutes are over")
        taken = process_s() - start
    shown(timed.seconds, taken, timed.refused.total(), timed.refusing)
    print(f"  store and agent took {(taken - timed.taken) / max(1, len(timed.points)) * 1000:.2f} ms a design")
    workloads = {space.design(point).workload for point in timed.points}
    print(f"  {len(workloads)} distinct workloads; refused: {dict(timed.refused)}; memory {memory():.0f} MB"
          + _growth([mark for mark in marks if mark[0] >= marks[-1][0] / 2]))


def _growth(late: Sequence[tuple[int, float]]) -> str:
    """How much the peak grew over the second half of the trials."""
    if not late:
        return ""
    return f", {late[-1][1] - late[0][1]:+.1f} MB over the last {late[-1][0] - late[0][0]:,} trials"


def uniform(space: Space, designs: int, seed: int) -> None:
    """Points drawn evenly."""
    rng, kept, whys = random.Random(seed), Kept(), Counter[str]()
    seconds, refused, begin = list[float](), list[float](), process_s()
    try:
        while len(seconds) < designs:
            start, point = process_s(), space.sample(rng)
            try:
                result = simulate(space.design(point), record=False, kept=kept)
            except (InputError, StallError):
                refused.append(process_s() - start)
                continue
            whys[result.outcome.unfolded_because or "folded"] += 1
            seconds.append(process_s() - start)
    except _OverError:
        print("  the minutes are over")
    shown(seconds, process_s() - begin, len(refused), sum(refused))
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
    signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, 60 * chosen.minutes)
    (uniform if chosen.uniform else study)(space, chosen.designs, chosen.seed)


if __name__ == "__main__":
    main()
