"""A station that serves the sources of its packets in turn, where others serve packets in order of arrival."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

__all__ = ["Arbiter"]

T = TypeVar("T")


class Arbiter(Generic[T]):
    """Packets that wait: a lane for each source that has some, in the order of their turns."""

    def __init__(self) -> None:
        self.lanes: dict[int, deque[T]] = {}

    def __bool__(self) -> bool:
        return bool(self.lanes)

    def put(self, source: int, packet: T) -> None:
        """A packet comes. A source that had none waiting has its turn after all others."""
        self.lanes.setdefault(source, deque()).append(packet)

    def take(self) -> tuple[int, T]:
        """(source, packet): the first packet of the source whose turn it is; its next turn comes after all others."""
        source = next(iter(self.lanes))
        lane = self.lanes.pop(source)
        packet = lane.popleft()
        if lane:
            self.lanes[source] = lane
        return source, packet
