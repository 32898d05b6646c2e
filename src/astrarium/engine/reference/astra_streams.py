"""One NPU's queues under ASTRA-sim's rules: each dim has `queues_per_dim`, each queue runs a few chunks at a time.

A stream is one chunk on its walk through its phases. It waits in the queue of its phase until the queue has room, first
the higher priorities, then in order of arrival.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from astrarium.engine.plan import Phase, Pick, Policy
from astrarium.engine.reference.clock import Event

__all__ = ["Picker", "Queues", "Step", "Stream"]


class Machine(Protocol):
    """A collective algorithm of one rank, chunk and phase; calls its `done` when it has ended."""

    def start(self) -> None: ...


class Step:
    """One phase of a stream with what was chosen when the collective was issued: queue, direction, tree."""

    __slots__ = ("backwards", "phase", "queue", "root_last")

    def __init__(self, phase: Phase, queue: int, backwards: bool, root_last: bool) -> None:
        self.phase, self.queue, self.backwards, self.root_last = phase, queue, backwards, root_last


class Maker(Protocol):
    """Makes the machine of a step."""

    def __call__(self, step: Step, done: Event) -> Machine: ...


class Stream:
    """A chunk: its steps, the next one, the queue it stands in, and whom to tell at the end."""

    __slots__ = ("done", "make", "next", "priority", "queue", "steps")

    def __init__(self, steps: list[Step], priority: int, make: Maker, done: Event) -> None:
        self.steps, self.priority, self.make, self.done = steps, priority, make, done
        self.next, self.queue = 0, -1


class Picker:
    """Hands out the queues of each dim in turn; the second half runs its rings the other way round."""

    def __init__(self, queues_per_dim: int) -> None:
        self._count, self._half = queues_per_dim, queues_per_dim // 2
        self._any: dict[int, int] = {}
        self._first: dict[int, int] = {}
        self._last: dict[int, int] = {}

    def take(self, level: int, pick: Pick) -> tuple[int, bool]:
        """(queue number, backwards) of the next phase on `level`."""
        base = level * self._count
        if pick == Pick.ANY:
            queue = self._any.get(level, 0)
            self._any[level] = (queue + 1) % self._count
            return base + queue, self._count > 1 and queue >= self._half
        if pick == Pick.FIRST_HALF:
            queue = self._first.get(level, 0)
            self._first[level] = queue + 1 if queue + 1 < self._half else 0
            return base + queue, False
        queue = self._last.get(level, self._half)
        self._last[level] = queue + 1 if queue + 1 < self._count else self._half
        return base + queue, True


class Queues:
    """The queues of one NPU: which streams wait in each, by priority, and how many run."""

    def __init__(self, policy: Policy, levels: int) -> None:
        self._limit = -(-policy.active_chunks // policy.queues_per_dim)
        self._waiting: list[dict[int, deque[Stream]]] = [{} for _ in range(levels * policy.queues_per_dim)]
        self._running = [0] * len(self._waiting)

    def advance(self, stream: Stream) -> None:
        """Leave the current phase, if any, and enter the next; after the last one the stream is done.

        The stream tells its collective first (which may issue new work), then makes room in the queue it leaves.
        """
        previous, last = stream.queue, stream.next == len(stream.steps)
        if last:
            stream.done()
        if not last:
            self._enter(stream)
        if previous >= 0:
            self._running[previous] -= 1
            self._fill(previous)
        if not last:
            self._fill(stream.queue)

    def _enter(self, stream: Stream) -> None:
        stream.queue = stream.steps[stream.next].queue
        stream.next += 1
        self._waiting[stream.queue].setdefault(stream.priority, deque()).append(stream)

    def _fill(self, number: int) -> None:
        waiting = self._waiting[number]
        while self._running[number] < self._limit and waiting:
            best = max(waiting)
            stream = waiting[best].popleft()
            if not waiting[best]:
                del waiting[best]
            self._start(stream)
            self._running[number] += 1

    def _start(self, stream: Stream) -> None:
        stream.make(stream.steps[stream.next - 1], lambda: self.advance(stream)).start()
