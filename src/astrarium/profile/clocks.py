"""When the ranks of a recorded job began, and how far their clocks differ: collectives end together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

from astrarium.arrays import I64
from astrarium.errors import InputError
from astrarium.profile.recorded import TOGETHER, WORLD, Calls, collective_calls, is_timed, start_ns
from astrarium.trace.columns import Traces
from astrarium.units import format_time

__all__ = ["Clocks", "clocks_of", "refuse_apart"]

SURE = 4                # a clock is corrected if the median difference is more than this many typical deviations
LONGEST_NS = 1 << 53    # 104 days
RESOLUTION = 1000       # ns in which recorded times are whole


class Clocks(Struct, frozen=True, eq=False):
    """Start times of the ranks of a recorded job; arrays [ranks], ns.

    `begin` is when each rank's trace begins, after the first, corrected clocks. `root` is the first of the ranks that
    collectives connect with this one (itself, if it is that). `ahead` is by how much the rank's collectives seem to end
    later than on `root`, as the median over those that it shares with a rank whose clock is known by then; `noise` the
    median deviation from it; `shift` what was taken off its times: `ahead` where that is no noise, else 0.
    """

    begin: I64
    ahead: I64
    noise: I64
    shift: I64
    root: I64

    @property
    def lines(self) -> tuple[str, ...]:
        """What a reader should know, one sentence each."""
        late = int(self.begin.max(initial=0))
        out = [f"ranks begin up to {_time(late)} apart, as recorded"]
        compared = np.flatnonzero(self.root != np.arange(self.root.size))
        for rank in np.flatnonzero(self.shift).tolist()[:4]:
            word = "ahead of" if self.ahead[rank] > 0 else "behind"
            out.append(f"the clock of rank {rank} is {_time(abs(int(self.ahead[rank])))} {word} that of rank "
                       f"{int(self.root[rank])} (their collectives end together): corrected")
        rest = compared[self.shift[compared] == 0]
        if rest.size:
            most = int(np.abs(self.ahead[rest]).max())
            others = "the other clocks" if self.shift.any() else "clocks"
            out.append(f"{others} agree within {_time(most)} (collectives end together)")
        alone = self.root.size - 1 - compared.size
        if alone:
            out.append(f"{alone} of the {self.root.size} clocks could not be compared: no common collectives")
        return tuple(out)


def _time(ns: int) -> str:
    return format_time(float(ns))


def clocks_of(traces: Traces, groups: Mapping[str, Sequence[int]]) -> Clocks | None:
    """The clocks of profiled traces; None where some rank's trace does not say when it began, or there is one rank."""
    if traces.ranks < 2 or not traces.is_recorded or not is_timed(traces):
        return None
    starts = [start_ns(traces, rank) for rank in range(traces.ranks)]
    if None in starts:
        return None
    began = np.array(starts, np.int64)
    found = _Comparison(collective_calls(traces, groups), {**groups, WORLD: tuple(range(traces.ranks))})
    begin = began - found.shift
    return Clocks(begin - begin.min(), found.ahead, found.noise, found.shift, found.root)


class _Comparison:
    """Each rank's ends of collectives with those of one rank that it shares a group with, from rank 0 on."""

    def __init__(self, calls: Sequence[Mapping[str, Calls]], groups: Mapping[str, Sequence[int]]) -> None:
        ranks = len(calls)
        self.calls, self.root = calls, np.arange(ranks)
        self.ahead, self.noise, self.shift = (np.zeros(ranks, np.int64) for _ in range(3))
        used = [name for name, members in groups.items() if len(members) > 1 and max(members) < ranks]
        of_rank: list[list[str]] = [[] for _ in range(ranks)]
        for name in used:
            for member in groups[name]:
                of_rank[member].append(name)
        seen, done = np.zeros(ranks, np.bool_), set[str]()
        for first in range(ranks):
            queue = [] if seen[first] else [first]
            seen[first] = True
            for rank in queue:      # grows
                for name in [each for each in of_rank[rank] if each not in done]:
                    done.add(name)
                    for other in [each for each in groups[name] if not seen[each] and self._compare(each, rank, name)]:
                        seen[other] = True
                        queue.append(other)

    def _compare(self, rank: int, other: int, name: str) -> bool:
        """Takes `rank`'s clock from `other`'s; False where they have no collective of the group in common."""
        mine, theirs = self.calls[rank].get(name), self.calls[other].get(name)
        if mine is None or theirs is None:
            return False
        count = min(mine.op.size, theirs.op.size)
        same = (mine.op[:count] == theirs.op[:count]) & (mine.size[:count] == theirs.size[:count])
        count = count if same.all() else int(np.argmin(same))
        together = np.flatnonzero(np.isin(mine.op[:count], TOGETHER))
        if not together.size:
            return False
        apart = mine.end[together] - theirs.end[together] + self.shift[other]
        middle = int(np.median(apart))
        self.ahead[rank], self.noise[rank] = middle, int(np.median(np.abs(apart - middle)))
        self.root[rank] = self.root[other]
        if abs(middle) > SURE * self.noise[rank] + RESOLUTION:
            self.shift[rank] = middle
        return True


def refuse_apart(traces: Traces, clocks: Clocks) -> None:
    """InputError where two sets of ranks whose clocks cannot be compared have no moment in common."""
    begin, root = clocks.begin, clocks.root
    if (late := int(np.argmax(begin))) and begin[late] > LONGEST_NS:
        raise InputError(traces.sources[late], f"rank {late} was recorded {_time(int(begin[late]))} after the first",
                         expected="recordings of one run, or workload.starts: together")
    length = np.array([1000 * int((c.start + c.duration).max(initial=0)) for c in traces.classes], np.int64)
    end = begin + length[traces.rank_class]
    first = root == root[0]
    for other in np.unique(root[~first]).tolist():
        part = root == other
        if begin[part].min() > end[first].max() or begin[first].min() > end[part].max():
            rank = int(np.flatnonzero(part)[0])
            raise InputError(traces.sources[rank], f"rank {rank} was recorded {_time(abs(int(begin[rank] - begin[0])))}"
                             " from rank 0, and no collective tells how their clocks differ",
                             expected="recordings of one run, or workload.starts: together")
