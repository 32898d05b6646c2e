"""What a run writes down: gaps between tokens by length, and the state of the servers over time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct, field

from astrarium.arrays import I32, I64

__all__ = ["Gaps", "Watch"]

Columns = tuple[I64, I64, I32]
SAMPLES = 2048
CHUNK = 1 << 16     # entries
MOST = 128          # chunks


class Gaps(Struct):
    """Times between successive tokens of a request, in ps: when a gap ended, how long it was, and how many there were.
    In a step all decoding sequences have one gap, so an entry is a step, not a token; beyond 8 million
    entries neighbours in length are put together (`coarse`). `now`: the entries since the last
    full chunk, of which `size` are filled."""

    full: list[Columns] = field(default_factory=list)
    coarse: list[Columns] = field(default_factory=list)
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
        if self.size:
            self.full.append((ends[:self.size], lengths[:self.size], counts[:self.size]))
        self.now, self.size = _columns(size), 0
        if len(self.full) >= MOST:
            self.coarse += [_coarse(chunk) for chunk in self.full]
            self.full.clear()

    def table(self) -> Columns:
        """All records; no more can be added after that."""
        self._next(0)
        found = _joined([*self.coarse, *self.full])
        self.full.clear()
        self.coarse.clear()
        return found


def _joined(chunks: Sequence[Columns]) -> Columns:
    chunks = chunks or [_columns(0)]
    ends, lengths = (np.concatenate([chunk[place] for chunk in chunks]) for place in (0, 1))
    return ends, lengths, np.concatenate([chunk[2] for chunk in chunks])


def _coarse(columns: Columns) -> Columns:
    """A chunk with a sixteenth of its entries: gaps of nearly one length together, at their mean."""
    order = np.argsort(columns[1], kind="stable")
    starts = np.arange(0, len(order), 16)
    counts = np.add.reduceat(columns[2][order].astype(np.int64), starts)
    ends, lengths = (np.rint(np.add.reduceat((column.astype(np.float64) * columns[2])[order], starts) / counts)
                     for column in columns[:2])
    return ends.astype(np.int64), lengths.astype(np.int64), counts.astype(np.int32)


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
