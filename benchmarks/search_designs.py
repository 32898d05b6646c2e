"""Designs per second and core of a search, end to end.

usage: search_designs.py [FILE...] [--agent A] [--designs N] [--seed S] [--cap K] [--minutes M]

A study with its store on disk and one worker, over each search file (default: COSMIC's full stack, GPT3-175B on 1,024
NPUs, examples/cosmic/spaces/full.yaml). It begins with the base; its objective and requirements are the file's
(default: runtime_x_bandwidth).
`--agent random` draws points evenly, which is harder: a search soon leaves the worst designs. Three rates are printed:
of distinct designs of which the search learnt whether they are worth it (simulated, stopped at a bound, or found not
to fit), of those that were simulated to their end, and of all distinct designs, with those that the configuration or a
requirement on the design alone refused. The CPU seconds are those of the whole study: space, agent, designs, store.
After M CPU minutes (default 10) a study ends, in the middle of a design if need be. The seconds of single designs are
wall-clock ones.
"""

from __future__ import annotations

import argparse
import resource
import signal
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from _measure import machine, process_s

from astrarium.search.agents import agent_options
from astrarium.search.axes import Point
from astrarium.search.evaluate import Evaluator
from astrarium.search.goal import goal_of
from astrarium.search.searchfile import SearchFile, load_search
from astrarium.search.starts import starts_of
from astrarium.search.store import Store
from astrarium.search.study import conduct
from astrarium.search.studyfile import Plan
from astrarium.search.trial import Verdict

SPACE = Path(__file__).parent.parent / "examples" / "cosmic" / "spaces" / "full.yaml"
FITS = "is at least"        # in the reason of a design that a lower bound ruled out


class _OverError(Exception):
    """The minutes are over."""


def over(*_: object) -> None:
    """What the alarm does."""
    raise _OverError


class _Timed:
    """Judges points, and keeps their verdicts."""

    def __init__(self, judge: Evaluator):
        self.judge, self.verdicts = judge, list[Verdict]()

    def __call__(self, points: Sequence[Point], cap: float | None = None) -> Iterator[Verdict]:
        for verdict in self.judge.all(points, cap):
            self.verdicts.append(verdict)
            yield verdict


def memory() -> float:
    """Peak memory so far, MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def study(path: Path, file: SearchFile, agent: str, designs: int, seed: int, cap: float | None) -> None:
    """One study, and what it did."""
    goal = goal_of(file.minimize or (() if file.maximize else "runtime_x_bandwidth"), file.maximize, file.require,
                   file.cases)
    timed, marks = _Timed(Evaluator(file.space, goal)), list[tuple[int, float]]()
    with tempfile.TemporaryDirectory() as folder, Store(f"{folder}/designs.study") as store:
        start, best = process_s(), None
        try:
            starts = starts_of(file.space, (), base=True).points
            plan = Plan(file.space, goal, agent_options(agent, {}), seed, starts, cap)
            found = conduct(plan, designs, store, timed, lambda now: marks.append((now.trials, memory())))
            best = None if found.best is None else found.best.verdict.values
        except _OverError:
            print("  the minutes are over")
        taken = process_s() - start
    print(f"{path.stem}, {agent}, seed {seed}, cap {cap}, best {best}: {marks[-1][0]:,} trials, "
          f"{len(timed.verdicts):,} distinct designs in {taken:.1f} CPU s")
    shown(timed.verdicts, taken)
    print(f"  memory {memory():.0f} MB" + _growth([mark for mark in marks if mark[0] >= marks[-1][0] / 2]))


def shown(verdicts: Sequence[Verdict], taken: float) -> None:
    """The rates, how long designs take, the reasons of those that did not run to their end."""
    ran = [each.seconds * 1000 for each in verdicts if each.values is not None]
    whys = Counter(each.problem.partition(";")[0].partition(":")[0][:100] for each in verdicts if each.values is None)
    learnt = len(ran) + sum(FITS in each.problem or each.beyond for each in verdicts)
    print(f"  {learnt / taken:.1f} designs/s/core; simulated to their end {len(ran):,}: {len(ran) / taken:.1f}/s; all "
          f"distinct: {len(verdicts) / taken:.1f}/s")
    for name, some in (("simulated", ran),
                       ("others", [each.seconds * 1000 for each in verdicts if each.values is None])):
        if some:
            at = np.percentile(np.array(some), (50, 90, 99, 100))
            print(f"  {name}: {sum(some) / 1000:.1f} s, mean {np.mean(some):.1f} ms, p50 {at[0]:.1f}, p90 {at[1]:.1f}, "
                  f"p99 {at[2]:.1f}, longest {at[3]:.0f} ms")
    print(f"  {sum(each.feasible for each in verdicts):,} feasible; without values: {dict(whys.most_common())}")


def _growth(late: Sequence[tuple[int, float]]) -> str:
    """How much the peak grew over the second half of the trials."""
    if not late:
        return ""
    return f", {late[-1][1] - late[0][1]:+.1f} MB over the last {late[-1][0] - late[0][0]:,} trials"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, default=[SPACE])
    parser.add_argument("--agent", default="genetic")
    parser.add_argument("--designs", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cap", type=float)
    parser.add_argument("--minutes", type=float, default=10)
    chosen = parser.parse_args()
    print(machine())
    signal.signal(signal.SIGPROF, over)
    for path in chosen.files:
        signal.setitimer(signal.ITIMER_PROF, 60 * chosen.minutes)
        study(path, load_search(path), chosen.agent, chosen.designs, chosen.seed, chosen.cap)
    signal.setitimer(signal.ITIMER_PROF, 0)


if __name__ == "__main__":
    main()
