"""A remote memory plug-in: one pool of two banks, each serving one access at a time; odd ranks use the second."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from astrarium.plugins import (
    Backend,
    Dim,
    NetworkPlan,
    Plugins,
    RunContext,
    Shape,
    Work,
    exam_memory,
    remote,
    run_source,
)


class Banks:
    """Access = wait for the bank + 1 us + size at 100 bytes per ns."""

    def __init__(self) -> None:
        self._free = [0, 0]

    def access_time(self, size: int, rank: int, now: int) -> int:
        bank = rank % 2
        self._free[bank] = max(now, self._free[bank]) + 1_000_000 + size * 10
        return self._free[bank] - now


class OneEach:
    """Every rank reads 1 MB once."""

    def start(self, t: int) -> Sequence[Work]:
        return [remote(0, rank, 1_000_000) for rank in range(4)]

    def completed(self, work: Work, t: int) -> Sequence[Work]:
        return []

    def unfinished(self) -> Sequence[str]:
        return []


def main() -> None:
    exam_memory(Banks)
    context = RunContext(np.arange(4, dtype=np.int32), NetworkPlan(Backend.PORTS, (Dim(Shape.RING, 4, 50.0, 500.0),)))
    outcome = run_source(OneEach(), context, Plugins(memory=Banks))
    for work, end in zip(outcome.work, outcome.end.tolist(), strict=True):
        print(f"rank {work.rank}: {end / 1e6:.1f} us")


if __name__ == "__main__":
    main()
