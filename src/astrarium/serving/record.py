"""What a run writes down: gaps between tokens by length, and the state of the servers over time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

__all__ = ["Gaps", "Watch"]

I64 = npt.NDArray[np.int64]
FIRST = 1024
SAMPLES = 2048


class Gaps(Struct):
    """Times between successive tokens of a request, in ps: `values` [entries], each of them `counts` times; of both
    the first `size` are filled. In a step all decoding sequences have one gap, so an entry is a step, not a token."""

    values: I64 = field(default_factory=lambda: np.zeros(FIRST, np.int64))
    counts: I64 = field(default_factory=lambda: np.zeros(FIRST, np.int64))
    size: int = 0

    def add(self, value: int, count: int) -> None:
        """One gap, `count` times."""
        if self.size == len(self.values):
            self._grow(1)
        self.values[self.size], self.counts[self.size] = value, count
        self.size += 1

    def extend(self, values: I64, count: int) -> None:
        """Some gaps, each `count` times."""
        end = self.size + len(values)
        if end > len(self.values):
            self._grow(len(values))
        self.values[self.size:end], self.counts[self.size:end] = values, count
        self.size = end

    def _grow(self, more: int) -> None:
        longer = self.size + max(self.size // 2, more)
        self.values = np.concatenate((self.values[:self.size], np.zeros(longer - self.size, np.int64)))
        self.counts = np.concatenate((self.counts[:self.size], np.zeros(longer - self.size, np.int64)))


class Watch(Struct):
    """Samples of (time in ps, requests that wait, requests that run, cache blocks in use), at most 2 x SAMPLES of them:
    then every second one is dropped, and they are taken half as often."""

    samples: list[tuple[int, int, int, int]] = field(default_factory=list)
    every: int = 0
    due: int = 0

    def note(self, sample: tuple[int, int, int, int]) -> None:
        """Write a sample down that is due."""
        self.samples.append(sample)
        if len(self.samples) >= 2 * SAMPLES:
            self.samples = self.samples[::2]
            self.every = max(1, 2 * self.every, (self.samples[-1][0] - self.samples[0][0]) // SAMPLES)
        self.due = sample[0] + self.every

    def table(self) -> I64:
        """[samples, 4]."""
        rows: Sequence[tuple[int, int, int, int]] = self.samples
        return np.array(rows, np.int64).reshape(-1, 4)
