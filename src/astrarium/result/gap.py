"""A recorded run and its prediction: which parts of the ranks' time make up the difference."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from astrarium.arrays import I64
from astrarium.errors import InputError
from astrarium.result.parts import NETWORK, PARTS, WAITING, parts_of
from astrarium.result.result import Result
from astrarium.trace.columns import Traces

__all__ = ["TOGETHER", "Gap", "gap_of"]

TOGETHER = "network and waiting"    # in the place of both, where one rank alone was recorded


class Gap(Struct, frozen=True, eq=False):
    """Times in ps. `predicted` [ranks, parts] of one step, `recorded` [ranks, parts] of `steps` steps, the parts as
    `names` says: of each rank they add up to that run's makespan. `communication`: (predicted, recorded), per rank the
    time with communication in flight or waited for, hidden under kernels or not. `ranks`: their numbers."""

    names: tuple[str, ...]
    ranks: tuple[int, ...]
    predicted: I64
    recorded: I64
    communication: tuple[I64, I64]
    steps: int

    def mean(self, name: str) -> tuple[float, float]:
        """(predicted, recorded) ns of a part per step, over the ranks."""
        at = self.names.index(name)
        return _mean(self.predicted[:, at]), _mean(self.recorded[:, at]) / self.steps

    @property
    def step(self) -> tuple[float, float]:
        """(predicted, recorded) ns of a step."""
        return int(self.predicted[0].sum()) / 1000, int(self.recorded[0].sum()) / 1000 / self.steps

    @property
    def hidden(self) -> tuple[float, float]:
        """(predicted, recorded) ns of communication hidden under kernels per step, over the ranks."""
        exposed = [sum(self.mean(name)[side] for name in self.names if name in (NETWORK, WAITING, TOGETHER))
                   for side in (0, 1)]
        total = [_mean(self.communication[0]), _mean(self.communication[1]) / self.steps]
        return total[0] - exposed[0], total[1] - exposed[1]


def _mean(ps: I64) -> float:
    return int(ps.sum()) / len(ps) / 1000


def gap_of(predicted: Result, recorded: Result, steps: int = 1, rank: int | None = None) -> Gap:
    """The parts of both, rank by rank; `rank`: the only one that was recorded. Raises InputError where the ranks are
    not the same, a run has no node times or nothing was recorded."""
    ranks = list(range(len(predicted.outcome.row)))
    if rank is not None:
        if rank not in ranks:
            raise InputError("--rank", f"the design has no rank {rank}", expected=f"0..{len(ranks) - 1}")
        ranks = [rank]
    if len(recorded.outcome.row) != len(ranks):
        raise InputError("--trace", f"{len(recorded.outcome.row)} ranks were recorded, the design has {len(ranks)}",
                         expected="the design of the recorded run, or --rank R to compare one rank")
    if rank is None and not _linked(recorded):
        raise InputError("--trace", "not every trace is a profiler's: collectives would not wait for their last member",
                         expected="traces that `astrarium trace link` wrote, or --rank R to compare one rank")
    if recorded.makespan_ps == 0:
        raise InputError("--trace", "the recorded run takes no time", expected="traces with durations")
    names = tuple(PARTS)
    mine, theirs = parts_of(predicted), parts_of(recorded)
    before, after = mine.times[predicted.outcome.row[ranks]], theirs.times[recorded.outcome.row]
    if rank is not None:    # whom its collectives waited for is not recorded
        names, before, after = _together(names, before, after)
    return Gap(names, tuple(ranks), before, after, (mine.communication[predicted.outcome.row[ranks]],
                                                    theirs.communication[recorded.outcome.row]), steps)


def _linked(recorded: Result) -> bool:
    return isinstance(recorded.traces, Traces) and recorded.traces.is_recorded


def _together(names: tuple[str, ...], *times: I64) -> tuple[tuple[str, ...], I64, I64]:
    at = names.index(NETWORK)
    first, second = [np.concatenate([each[:, :at], each[:, at:at + 2].sum(axis=1, keepdims=True), each[:, at + 2:]],
                                    axis=1) for each in times]
    return (*names[:at], TOGETHER, *names[at + 2:]), first, second
