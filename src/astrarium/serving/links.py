"""Caches on their way from servers that prefill to servers that decode, one after the other where they meet."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct, field

__all__ = ["Links", "Transfer"]

Transfer: TypeAlias = Callable[[int, int, int, int], int]
"""(server that prefills, server that decodes, tokens of cache, now) -> ps until the cache is there."""


class Links(Struct):
    """The links out of each server that prefills and into each that decodes. `alone(front, back, tokens)`: ps of a
    transfer that meets no other; `shares(front, back)`: parts of it in which the busiest link of each side is busy.

    A transfer waits until those before it have left both servers' links; the first come is the first served.
    """

    alone: Callable[[int, int, int], int]
    shares: Callable[[int, int], tuple[float, float]]
    leaves: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    enters: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))

    def of(self, front: int, back: int, tokens: int, now: int) -> int:
        """Time in ps until the cache is there."""
        time, (out, into) = self.alone(front, back, tokens), self.shares(front, back)
        start = max(now, self.leaves[front], self.enters[back])
        self.leaves[front], self.enters[back] = start + round(time * out), start + round(time * into)
        return start + time - now
