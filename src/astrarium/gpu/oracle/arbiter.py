"""A station that serves packets with data and packets without in turn, where others serve in order of arrival."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

__all__ = ["Arbiter"]

T = TypeVar("T")


class Arbiter(Generic[T]):
    """Packets that wait: a lane for each class (with data, without) that has some, in the order of their turns."""

    def __init__(self) -> None:
        self.lanes: dict[bool, deque[T]] = {}

    def __bool__(self) -> bool:
        return bool(self.lanes)

    def put(self, data: bool, packet: T) -> None:
        """A packet comes. A class that had none waiting has its turn after the other."""
        self.lanes.setdefault(data, deque()).append(packet)

    def take(self) -> T:
        """The first packet of the class whose turn it is; its next turn comes after the other's."""
        data = next(iter(self.lanes))
        lane = self.lanes.pop(data)
        packet = lane.popleft()
        if lane:
            self.lanes[data] = lane
        return packet
