"""Memory behind the cache of a server (host, remote) from which prefixes are read back."""

from __future__ import annotations

from collections import OrderedDict

from msgspec import Struct, field

__all__ = ["Store"]


class Store(Struct):
    """One tier: a copy of every prefix that a request left behind, the least recently used evicted from its end.

    `capacity` in blocks; reading one takes `per_block` ps, every read `latency` ps, one read after the other. Writing
    goes on in the background and costs nothing here (SGLang's HiCache and vLLM's offloading write through).
    """

    capacity: int
    per_block: float
    latency: int = 0
    used: int = 0
    free_at: int = 0
    lengths: OrderedDict[object, int] = field(default_factory=OrderedDict)

    def clear(self) -> None:
        """Lose everything."""
        self.used = self.free_at = 0
        self.lengths.clear()

    def write(self, key: object, blocks: int) -> None:
        """The first `blocks` blocks of `key` are stored, and last used now."""
        have = self.lengths.pop(key, 0)
        blocks = max(have, min(blocks, self.capacity))
        self.used += blocks - have
        while self.used > self.capacity:
            oldest, length = next(iter(self.lengths.items()))
            gone = min(length, self.used - self.capacity)
            self.used -= gone
            if gone == length:
                del self.lengths[oldest]
            else:
                self.lengths[oldest] = length - gone
        if blocks:
            self.lengths[key] = blocks

    def read(self, blocks: int, now: int) -> int:
        """When `blocks` blocks that are asked for at `now` have been read."""
        self.free_at = max(self.free_at, now) + self.latency + round(blocks * self.per_block)
        return self.free_at
