"""Which track of a rank shows which node: one per stream, and more where nodes of a stream overlap."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Tracks", "assign"]


@dataclass(frozen=True)
class Tracks:
    """`of` [nodes] is a node's track; `names` the tracks' names, by number from 0."""

    of: tuple[int, ...]
    names: tuple[str, ...]


def assign(streams: Sequence[str], start: Sequence[int], end: Sequence[int], order: Sequence[str]) -> Tracks:
    """Tracks for nodes of one rank: on none do two slices overlap (slices of one track must nest to be drawn).

    Nodes go, by start, to the track of their stream that has been free longest enough: the lowest free one. Streams are
    numbered in the order of `order`.
    """
    place: dict[str, list[int]] = {}
    for node, stream in enumerate(streams):
        place.setdefault(stream, []).append(node)
    of, names = [0] * len(streams), list[str]()
    for stream in sorted(place, key=order.index):
        base, count = len(names), 0
        free: list[int] = []                      # heap of local numbers
        busy: list[tuple[int, int]] = []          # heap of (end, local number)
        for node in sorted(place[stream], key=lambda node: (start[node], end[node])):
            while busy and busy[0][0] <= start[node]:
                heapq.heappush(free, heapq.heappop(busy)[1])
            if not free:
                heapq.heappush(free, count)
                count += 1
            track = heapq.heappop(free)
            of[node] = base + track
            heapq.heappush(busy, (end[node], track))
        names += [stream if number == 0 else f"{stream} ({number + 1})" for number in range(count)]
    return Tracks(tuple(of), tuple(names))
