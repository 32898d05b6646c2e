"""Parts for a network plug-in in Python: a clock with its events, and the matching of messages with receives."""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush

from astrarium.engine.plugins.network import NEVER, Callback
from astrarium.errors import InputError

__all__ = ["EventQueue", "Mailbox"]


class EventQueue:
    """A clock: earliest first, and at one instant first scheduled, first run."""

    __slots__ = ("_heap", "_serial", "now")

    def __init__(self) -> None:
        self.now = 0
        self._serial = 0
        self._heap: list[tuple[int, int, Callback]] = []

    def schedule(self, delta: int, callback: Callback) -> None:
        """Run `callback()` `delta` ps from now. Raises InputError for a negative delta."""
        if delta < 0:
            raise InputError("sim_schedule", f"delta is {delta} ps", expected="0 or more: time cannot go back")
        self._serial += 1
        heappush(self._heap, (self.now + delta, self._serial, callback))

    def next_time(self) -> int:
        """Time of the next event, or NEVER."""
        return self._heap[0][0] if self._heap else NEVER

    def advance(self, to: int) -> None:
        """Run everything up to and including `to`, also what that schedules, and set the clock to `to`."""
        heap = self._heap
        while heap and heap[0][0] <= to:
            self.now, _, callback = heappop(heap)
            callback()
        self.now = to


Key = tuple[int, int, int, int]


class Mailbox:
    """Messages without a receive and receives without a message, by (src, dst, tag, size), in order of arrival."""

    __slots__ = ("_further", "_there", "_wanted")

    def __init__(self) -> None:
        self._there: dict[Key, int] = {}
        self._wanted: dict[Key, Callback] = {}              # the first receive of a key that waits
        self._further: dict[Key, deque[Callback]] = {}      # the ones after it

    def delivered(self, key: Key) -> None:
        """A message is there: call back the receive that waits for it, if one does."""
        callback = self._wanted.pop(key, None)
        if callback is None:
            self._there[key] = self._there.get(key, 0) + 1
            return
        if key in self._further:
            waiting = self._further[key]
            self._wanted[key] = waiting.popleft()
            if not waiting:
                del self._further[key]
        callback()

    def wanted(self, key: Key, callback: Callback) -> None:
        """A receive is posted: called back at once where its message is there already."""
        there = self._there.pop(key, 0)
        if there:
            if there > 1:
                self._there[key] = there - 1
            callback()
        elif key in self._wanted:
            self._further.setdefault(key, deque()).append(callback)
        else:
            self._wanted[key] = callback
