"""Chunks over dims as ASTRA-sim 1 ran them in its tutorial: a rival of the native engine's `themis` in turns.

A dim serves one chunk at a time. A chunk that arrives goes before the waiting chunks that are not smaller (smallest
chunk first, SCF) or behind all of them (FIFO); where dims finish in the same instant, the inner one goes first. All
NPUs do the same, so one stands for all.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from astrarium.collective.groups import SubDim

DELAY = 10                  # ns at an endpoint, endpoint-delay of the tutorial's system files
REDUCE = 500_000            # byte/ns of the memory that reductions go through, as its main.cc sets it
RATE = 50 * 2**30 / 1e9     # byte/ns

Visit = tuple[int, int, int]        # dim, bytes when the chunk arrives there, ns


def reduce_scatter(size: int, n: int, latency: int) -> int:
    """ns by halving: every message in whole ns; what was received is reduced (3 accesses) before it goes on."""
    time, message = DELAY, size // 2
    for step in range(n.bit_length() - 1):
        time += 2 * latency + int(message / RATE) + DELAY + (3 * (message // REDUCE) if step else 0)
        message //= 2
    return time


def all_gather(shard: int, n: int, latency: int) -> int:
    """ns by doubling."""
    steps = range(n.bit_length() - 1)
    return DELAY + sum(2 * latency + int((shard << step) / RATE) + DELAY for step in steps)


def visits(size: int, order: Sequence[SubDim], latency: int) -> list[Visit]:
    """An all_reduce of one chunk: reduce_scatter through the dims in order, all_gather back."""
    found = []
    for part in order:
        found.append((part.dim, size, reduce_scatter(size, part.n, latency)))
        size //= part.n
    for part in reversed(order):
        found.append((part.dim, size, all_gather(size, part.n, latency)))
        size *= part.n
    return found


def finish(chunks: Sequence[Sequence[Visit]], dims: int, *, smallest_first: bool) -> int:
    """ns until the last chunk is done; all of them arrive at 0, in order."""
    waiting: list[list[tuple[int, list[Visit]]]] = [[] for _ in range(dims)]
    running: dict[int, list[Visit]] = {}
    events: list[tuple[int, int]] = []      # (time, dim)

    def arrive(rest: list[Visit]) -> int:
        dim, size, _ = rest[0]
        queue = waiting[dim]
        place = next((i for i, (other, _) in enumerate(queue) if smallest_first and other >= size), len(queue))
        queue.insert(place, (size, rest))
        return dim

    def start(dim: int, now: int) -> None:
        if dim not in running and waiting[dim]:
            running[dim] = waiting[dim].pop(0)[1]
            heapq.heappush(events, (now + running[dim][0][2], dim))

    now = 0
    for chunk in chunks:
        start(arrive(list(chunk)), now)
    while events:
        now, dim = heapq.heappop(events)
        rest = running.pop(dim)[1:]
        touched = [dim, arrive(rest)] if rest else [dim]
        for each in touched:
            start(each, now)
    return now


def all_reduce(size: int, orders: Sequence[Sequence[SubDim]], latency: int, *, smallest_first: bool) -> int:
    """ns of an all_reduce of `size` bytes, one order of dims per chunk; the driver's first ns included."""
    piece = size // len(orders)
    chunks = [visits(piece, order, latency) for order in orders]
    return 1 + finish(chunks, len(orders[0]), smallest_first=smallest_first)
