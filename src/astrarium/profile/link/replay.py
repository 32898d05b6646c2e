"""Replay of a draft without limits on lanes: what dependencies explain, and what host time they leave unexplained."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.arrays import I64
from astrarium.profile.link.comm import annotated
from astrarium.profile.link.nodes import GAP, GPU, MESSAGE, Draft, Order
from astrarium.profile.link.records import Host
from astrarium.profile.link.threads import IDLE, OPERATOR, REST

__all__ = ["Replayed", "microseconds", "replayed", "rerun", "unexplained"]


class Replayed(Struct, frozen=True, eq=False):
    """Durations [places] in ns after waits have got the host time that nothing explains, how much of each is that, and
    the place that each waited for (-1: none); the end of all."""

    duration: I64
    added: I64
    cause: I64
    finish: int
    last: int          # the place that ends last; -1 where there is none

    @property
    def unexplained(self) -> int:
        """ns that waits have got."""
        return int(self.added.sum())

    def share(self, gap: I64) -> float:
        """Share of the critical path that is `gap` [places], ns."""
        at, total, found = self.last, 0, 0
        while at >= 0:
            total += int(self.duration[at])
            found += int(gap[at])
            at = int(self.cause[at])
        return found / total if total else 0.0


def replayed(draft: Draft, order: Order) -> Replayed:
    """Forward through the graph. A host node that waits until the GPU is idle ends when it did, or later.

    What is missing between the last thing that it waits for and its own time is host time of its thread: latencies of
    launches, gaps between kernels, interrupts. Nothing is ever added to GPU operations. While the GPU has work left,
    nothing is added at all: the host would wait less by as much.
    """
    start, end = np.frombuffer(draft.start, np.int64), np.frombuffer(draft.end, np.int64)
    measured = end[order.node] - start.min(initial=1 << 62) if end.size else end
    duration = (end[order.node] - start[order.node]).tolist()
    target, ptr, before = measured.tolist(), order.ptr.tolist(), order.before.tolist()
    waiting = np.zeros(len(duration), np.bool_)
    waiting[np.repeat(np.arange(len(duration)), np.diff(order.ptr))[order.waits != 0]] = True
    finish, added, cause = [0] * len(duration), [0] * len(duration), [-1] * len(duration)
    for place, waits in enumerate(waiting.tolist()):
        ready = 0
        for edge in range(ptr[place], ptr[place + 1]):
            at = finish[before[edge]]
            if at > ready:
                ready, cause[place] = at, before[edge]
        done = ready + duration[place]
        if waits and done < target[place]:
            added[place] = target[place] - done
            duration[place] += added[place]
            done = target[place]
        finish[place] = done
    most = max(finish, default=0)
    return Replayed(np.array(duration, np.int64), np.array(added, np.int64), np.array(cause, np.int64), most,
                    finish.index(most) if finish else -1)


def rerun(order: Order, duration: I64) -> tuple[I64, Replayed]:
    """When each place begins, and the replay, with every node as soon as what it waits for has ended."""
    ptr, before, length = order.ptr.tolist(), order.before.tolist(), duration.tolist()
    begin, finish, cause = [0] * len(length), [0] * len(length), [-1] * len(length)
    for place, lasts in enumerate(length):
        for parent in before[ptr[place]:ptr[place + 1]]:
            if finish[parent] > begin[place]:
                begin[place], cause[place] = finish[parent], parent
        finish[place] = begin[place] + lasts
    most = max(finish, default=0)
    return np.array(begin, np.int64), Replayed(duration, np.zeros_like(duration), np.array(cause, np.int64), most,
                                               finish.index(most) if finish else -1)


def unexplained(operators: Host, draft: Draft, order: Order, result: Replayed) -> I64:
    """[places] ns of each node that are unexplained: idle time of streams and of threads outside operators, time in
    nothing but a user's annotation or a profiler step, and what waits have got because nothing else explains it."""
    return np.where(_nameless(operators, draft, order), result.duration, result.added)


def _nameless(operators: Host, draft: Draft, order: Order) -> npt.NDArray[np.bool_]:
    """[places] nodes that represent unexplained time."""
    part = np.frombuffer(draft.part, np.int8)[order.node] if len(draft) else np.zeros(0, np.int8)
    of = np.frombuffer(draft.of, np.int64)[order.node] if len(draft) else np.zeros(0, np.int64)
    region = np.zeros(len(operators.name) + 1, np.bool_)       # the last is for calls
    for number, name in enumerate(operators.name):
        region[number] = name.startswith("ProfilerStep#") or (number in operators.annotations
                                                              and annotated(name) is None)
    within = ((part == OPERATOR) | (part == REST)) & region[np.clip(of, -1, len(operators.name))]
    return np.asarray(within | (part == GAP) | (part == IDLE))


def microseconds(draft: Draft, order: Order, duration: I64) -> I64:
    """Whole microseconds [places] whose sums along a thread or stream stay within half of one of the exact sums.

    A GPU operation takes at least 1: Chakra's readers take 0 for a duration that is not known.
    """
    part = np.frombuffer(draft.part, np.int8)[order.node]
    lane = np.frombuffer(draft.lane, np.int64)[order.node]
    out = np.zeros(duration.size, np.int64)
    gpu, message = part == GPU, part == MESSAGE
    lane[message] = -1
    by_lane = np.lexsort((np.arange(duration.size), lane, gpu))
    total = np.cumsum(duration[by_lane])
    first = np.ones(duration.size, np.bool_)
    first[1:] = (np.diff(lane[by_lane]) != 0) | (np.diff(gpu[by_lane].astype(np.int8)) != 0)
    start = np.flatnonzero(first)
    before = np.repeat(total[start] - duration[by_lane][start], np.diff(np.append(start, duration.size)))
    whole = (total - before + 500) // 1000
    out[by_lane] = np.where(first, whole, np.diff(whole, prepend=0))
    out[message] = (duration[message] + 500) // 1000
    return np.where(gpu | message, np.maximum(out, 1), out)
