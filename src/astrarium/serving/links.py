"""Caches on their way from servers that prefill to servers that decode, one after the other where they meet."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping

from msgspec import Struct, field

__all__ = ["Links"]


class Links(Struct):
    """The links (or ports) of the network that caches take. `alone(front, back, tokens)`: ps of a transfer that meets
    no other; `shares(front, back)`: the links that it takes, each with the part of its time in which it is busy.

    A transfer waits until those before it have left all of its links: the first come is the first served. `free`: when
    each link is free, ps; `busy`: for how many ps it was busy.
    """

    alone: Callable[[int, int, int], int]
    shares: Callable[[int, int], Mapping[Hashable, float]]
    free: defaultdict[Hashable, int] = field(default_factory=lambda: defaultdict(int))
    busy: defaultdict[Hashable, int] = field(default_factory=lambda: defaultdict(int))

    def of(self, front: int, back: int, tokens: int, now: int) -> int:
        """Time in ps until the cache is there."""
        time, shares = self.alone(front, back, tokens), self.shares(front, back)
        start = max(now, *(self.free[link] for link in shares)) if shares else now
        for link, share in shares.items():
            lasts = round(time * share)
            self.free[link] = start + lasts
            self.busy[link] += lasts
        return start + time - now

    @property
    def busiest(self) -> int:
        """For how many ps the busiest link was busy."""
        return max(self.busy.values(), default=0)
