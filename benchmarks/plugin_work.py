"""Works per second of a workload that decides as it runs, end to end: the engine, the source, its checks.

64 ranks, each of which hands out one node when another ends: computing only, and computing and a direct all-reduce of
1 MiB (8,064 messages) in turn. CPU seconds, median of 5.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence

import numpy as np

from astrarium.collective.algorithms import Options, build
from astrarium.engine import HAVE_CORE
from astrarium.engine.plan import Algorithm, Backend, Chunk, CollectivePlan, Dim, NetworkPlan, Phase, Shape
from astrarium.engine.plugins.work import Work, collective, compute
from astrarium.engine.source import RunContext, run_source
from astrarium.vocab import CommOp

NPUS, SIZE, REPEATS = 64, 1 << 20, 5


class Chains:
    """`length` nodes on every rank, one after the other; with `sums` every other one is the all-reduce."""

    def __init__(self, length: int, sums: bool) -> None:
        self._length, self._sums = length, sums

    def start(self, t: int) -> Sequence[Work]:
        del t
        return [compute(0, rank, 1000) for rank in range(NPUS)]

    def completed(self, work: Work, t: int) -> Sequence[Work]:
        del t
        if work.id + 1 == self._length:
            return ()
        if self._sums and work.id % 2 == 0:
            return (collective(work.id + 1, work.rank, 0),)
        return (compute(work.id + 1, work.rank, 1000),)

    def unfinished(self) -> Sequence[str]:
        return ()


def context() -> RunContext:
    schedule = build("direct", CommOp.ALL_REDUCE, NPUS, Options())
    phase = Phase(0, CommOp.ALL_REDUCE, Algorithm.SCHEDULE, SIZE, NPUS, 1, schedule=schedule,
                  block_size=SIZE // schedule.blocks)
    network = NetworkPlan(Backend.PORTS, (Dim(Shape.SWITCH, NPUS, 50.0, 500.0),))
    return RunContext(np.arange(NPUS, dtype=np.int32), network,
                      collectives=(CollectivePlan(CommOp.ALL_REDUCE, SIZE, (Chunk(1, (phase,)),)),))


def main() -> None:
    for pure in (False, True) if HAVE_CORE else (True,):
        for name, length, sums in (("computing", 500, False), ("all-reduces", 10, True)):
            spent = []
            for _ in range(REPEATS):
                begin = time.process_time()
                outcome = run_source(Chains(length, sums), context(), pure=pure)
                spent.append(time.process_time() - begin)
            median = statistics.median(spent)
            print(f"{'pure-Python' if pure else 'compiled'} engine, {name}: {len(outcome.work) / median:,.0f} works/s, "
                  f"{outcome.events / median:,.0f} events/s")


if __name__ == "__main__":
    main()
