"""Point-to-point messages natively: the k-th delivered of a key meets the k-th receive posted for it."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable

from astrarium.engine.reference.clock import Event

__all__ = ["Post"]


class Post:
    """Receives that wait for a message, and messages that wait for a receive, by key."""

    def __init__(self) -> None:
        self._wanted: dict[Hashable, deque[Event]] = {}
        self._there: dict[Hashable, int] = {}

    def delivered(self, key: Hashable) -> Event | None:
        """A message is there: the receive that it ends, if one waits."""
        wanted = self._wanted.get(key)
        if not wanted:
            self._there[key] = self._there.get(key, 0) + 1
            return None
        event = wanted.popleft()
        if not wanted:
            del self._wanted[key]
        return event

    def wants(self, key: Hashable, done: Event) -> bool:
        """A receive is posted: True when its message is there already, else `done` is kept for it."""
        there = self._there.get(key, 0)
        if there:
            self._there[key] = there - 1
            return True
        self._wanted.setdefault(key, deque()).append(done)
        return False
