"""When the chunks of one collective end, seen from one NPU where all take equal steps: a recursion over its ports.

The estimate of `collective.choose`. This runs if there is no compiled core, which gives the same doubles.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

__all__ = ["Stride", "pace"]

Stride = tuple[int, float, float, int]
"""(port, service, latency, times): messages that leave one after the other, each keeps the port for `service` ns and
lets the next go `latency` ns later."""


def pace(phases: Sequence[Sequence[Stride]], paths: Sequence[Sequence[int]], chunks: Sequence[int], limit: int,
         entry: float) -> float:
    """When the last chunk ends, in ns.

    `phases`: the strides of each kind of phase; `paths`: the phases that each kind of chunk takes, equally many;
    `chunks`: the kinds of the chunks in order. Phases of a number are entered in chunk order, `limit` at once (0: all),
    `entry` ns after they may be. A port serves in order of arrival, at one instant in order of chunks.
    """
    numbers, end = max((len(paths[chunk]) for chunk in chunks), default=0), 0.0
    reached, entered, inside = [0] * len(chunks), [0] * numbers, [0] * numbers
    free: dict[int, float] = {}
    events: list[tuple[float, int, int, int, int]] = []     # time, chunk, number of its phase, stride, how often done

    def advance(number: int, now: float) -> None:
        while number < numbers and entered[number] < len(chunks):
            chunk = entered[number]
            if reached[chunk] != number or 0 < limit <= inside[number]:
                return
            entered[number] += 1
            inside[number] += 1
            heapq.heappush(events, (now + entry, chunk, number, 0, 0))

    advance(0, 0.0)
    while events:
        now, chunk, number, place, done = heapq.heappop(events)
        strides = phases[paths[chunks[chunk]][number]]
        if place == len(strides):
            end = max(end, now)
            reached[chunk] = number + 1
            inside[number] -= 1
            advance(number + 1, now)
            advance(number, now)
            continue
        port, service, latency, times = strides[place]
        free[port] = max(now, free.get(port, 0.0)) + service
        more = done + 1 < times
        heapq.heappush(events, (free[port] + latency, chunk, number, place if more else place + 1,
                                done + 1 if more else 0))
    return end
