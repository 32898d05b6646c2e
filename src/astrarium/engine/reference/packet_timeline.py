"""Queues and pauses of links over time: what changed, and at the end the bins of it."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["BINS", "Timeline"]

BINS, FIRST = 256, 1024     # bins of a link; ps of one, and twice as many as often as need be


class Timeline:
    """Of every link, each change of the bytes that wait for it, and each pause."""

    def __init__(self, links: int) -> None:
        self._queues: list[list[tuple[int, int]]] = [[] for _ in range(links)]
        self._pauses: list[list[tuple[int, int]]] = [[] for _ in range(links)]
        self._last = 0

    def queue(self, link: int, now: int, size: int) -> None:
        """So many bytes wait from now on."""
        changes = self._queues[link]
        if size or (changes and changes[-1][1]):
            changes.append((now, size))
            self._last = max(self._last, now)

    def paused(self, link: int, begin: int, end: int) -> None:
        """PFC stopped the link."""
        self._pauses[link].append((begin, end))
        self._last = max(self._last, end)

    def columns(self) -> dict[str, Any]:
        """Fields of `PacketCounts`."""
        watched = [link for link, pair in enumerate(zip(self._queues, self._pauses, strict=True)) if any(pair)]
        width = FIRST
        while self._last >= BINS * width:
            width *= 2
        longest, paused = (np.zeros((len(watched), BINS), np.int64) for _ in range(2))
        for row, link in enumerate(watched):
            before, since = 0, 0
            for now, size in self._queues[link]:
                first, last = since // width, now // width
                longest[row, first:last + 1] = np.maximum(longest[row, first:last + 1], before)
                longest[row, last] = max(longest[row, last], size)
                before, since = size, now
            for begin, end in self._pauses[link]:
                for place in range(begin // width, -(-end // width)):
                    paused[row, place] += min(end, (place + 1) * width) - max(begin, place * width)
        return {"width": width if watched else 0, "watched": np.array(watched, np.int32),
                "longest": longest.reshape(-1), "paused_in": paused.reshape(-1)}
