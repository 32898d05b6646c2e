"""What a trial costs beside its simulation: space, agent, design, store. CPU microseconds per trial, and memory.

usage: search_overhead.py [TRIALS]        (default 20000; the memory figure needs 100000)

The evaluator makes every design (with all its checks) and judges it by a figure of the network instead of a simulation;
the last line runs the simulator too, on one all_reduce of 1,024 NPUs whose algorithms follow the shapes.
"""

from __future__ import annotations

import resource
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from _measure import machine, process_s
from _search_space import full_stack

import astrarium as ar
from astrarium.search.agents import agent_options
from astrarium.search.axes import Point
from astrarium.search.evaluate import Evaluator
from astrarium.search.goal import goal_of
from astrarium.search.store import Store
from astrarium.search.study import conduct
from astrarium.search.studyfile import Plan
from astrarium.search.trial import Verdict
from astrarium.search.workers import Workers


class _NoRun(Evaluator):
    """Makes the design, and judges it without a simulation."""

    def all(self, points: Sequence[Point], cap: float | None = None) -> Iterator[Verdict]:
        del cap     # there is no run to stop
        for point in points:
            design = self.space.design(point)
            yield Verdict((sum(dim.npu_bandwidth * dim.npus for dim in design.network.flat),))


def study(space: ar.Space, agent: str, trials: int, *, run: bool = False) -> tuple[float, int]:
    """(CPU seconds, distinct designs) of a study of its own file."""
    goal = goal_of("makespan")
    with tempfile.TemporaryDirectory() as folder, Workers(space, goal) as workers, \
            Store(str(Path(folder) / "study")) as store:
        if not run:
            workers.evaluator = _NoRun(space, goal)
        start = process_s()
        found = conduct(Plan(space, goal, agent_options(agent)), trials, store, workers)
        return process_s() - start, found.distinct


def network_space() -> ar.Space:
    """Shapes, sizes and bandwidths of four dims, with the shape's own algorithm."""
    base = full_stack().base
    assert base is not None
    design = ar.replace_all(base, {"workload": ar.SingleCollective(op="all_reduce", payload="100 MB"),
                                   "collective.all_reduce": []})
    return ar.Space(design, {
        "network.dims[*].shape": ["ring", "switch", "fully_connected"], "network.dims[*].npus": [4, 8, 16],
        "network.dims[*].bandwidth_per_npu": {"from": "50 GB/s", "to": "500 GB/s", "step": "50 GB/s"},
        "collective.chunks": [2, 4, 8, 16], "collective.composition": ["baseline", "blueconnect"],
    }, "network.npus == 1024")


def peak() -> float:
    """Peak memory so far, MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def main(trials: int) -> None:
    print(machine())
    start = process_s()
    space = full_stack()
    print(f"full-stack space: {space.count:,} designs, {len(space.axes)} knobs, "
          f"made in {process_s() - start:.3f} CPU s")
    study(space, "random", 1000)
    before = peak()
    for agent in ("random", "genetic", "annealing", "ant_colony"):
        seconds, distinct = study(space, agent, trials)
        print(f"{agent:<11} {trials:,} trials, {distinct:,} distinct: {seconds / trials * 1e6:6.0f} us/trial without "
              f"simulation, peak memory +{peak() - before:.1f} MB")
    seconds, distinct = study(network_space(), "genetic", 3000, run=True)
    print(f"genetic     3,000 trials, {distinct:,} distinct, all_reduce on 1,024 NPUs: {distinct / seconds:.0f} "
          "designs/s/core end to end")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000)
