"""What a run writes down: gaps between tokens by length, and the state of the servers over time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

__all__ = ["Gaps", "Watch"]

I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]
Columns = tuple[I64, I64, I32]
SAMPLES = 2048
CHUNK = 1 << 16


class Gaps(Struct):
    """Times between successive tokens of a request, in ps: when a gap ended, how long it was, and how many there were.
    In a step all decoding sequences have one gap, so an entry is a step, not a token. `now`: the entries since the last
    full chunk, of which `size` are filled."""

    full: list[Columns] = field(default_factory=list)
    now: Columns = field(default_factory=lambda: _columns(CHUNK))
    size: int = 0

    def add(self, end: int, length: int, count: int) -> None:
        """Some gaps of one length."""
        if self.size == len(self.now[0]):
            self._next(CHUNK)
        ends, lengths, counts = self.now
        ends[self.size], lengths[self.size], counts[self.size] = end, length, count
        self.size += 1

    def extend(self, ends: I64, count: int) -> None:
        """Gaps of some sequences between successive steps that ended at `ends`."""
        more = len(ends) - 1
        if self.size + more > len(self.now[0]):
            self._next(max(CHUNK, more))
        place = slice(self.size, self.size + more)
        self.now[0][place], self.now[1][place], self.now[2][place] = ends[1:], np.diff(ends), count
        self.size += more

    def _next(self, size: int) -> None:
        ends, lengths, counts = self.now
        self.full.append((ends[:self.size], lengths[:self.size], counts[:self.size]))
        self.now, self.size = _columns(size), 0

    def table(self) -> Columns:
        """All of it; nothing can be added after that."""
        self._next(0)
        ends = np.concatenate([chunk[0] for chunk in self.full])
        lengths = np.concatenate([chunk[1] for chunk in self.full])
        counts = np.concatenate([chunk[2] for chunk in self.full])
        self.full.clear()
        return ends, lengths, counts


def _columns(size: int) -> Columns:
    return np.zeros(size, np.int64), np.zeros(size, np.int64), np.zeros(size, np.int32)


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
        return np.array(self.samples, np.int64).reshape(-1, 4)
