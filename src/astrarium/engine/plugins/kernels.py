"""Kernels as columns: a compute model times many kernels of one kind in a few array operations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, overload

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.arrays import F64, I64
from astrarium.vocab import Kernel

__all__ = ["Columns", "KernelTable", "tabled"]


class Columns(Struct, frozen=True, eq=False):
    """Kernels of one `kind`, `precision`, format in memory (`held`) and operator (`op`), whose shapes have one length;
    `place` [n] is where each is in its table. The rest as in vocab.Kernel, `shape` [length, n]."""

    kind: str
    precision: str
    held: str
    place: I64
    shape: I64
    work: F64
    flops: F64
    bytes: I64
    launches: I64
    op: str = ""

    @property
    def alike(self) -> tuple[str, str, str, str, int]:
        """What kernels of one value share."""
        return self.kind, self.precision, self.held, self.op, len(self.shape)

    def kernel(self, row: int) -> Kernel:
        """One of them."""
        return Kernel(self.kind, self.precision, tuple(self.shape[:, row].tolist()), float(self.work[row]),
                      float(self.flops[row]), int(self.bytes[row]), int(self.launches[row]), self.held, self.op)


class KernelTable(Sequence[Kernel]):
    """A sequence of kernels that is held as `parts`, each of which has kernels that are `alike`."""

    def __init__(self, parts: Iterable[Columns]) -> None:
        alike: dict[tuple[str, str, str, str, int], list[Columns]] = {}
        for part in parts:
            alike.setdefault(part.alike, []).append(part)
        self.parts = tuple(each[0] if len(each) == 1 else _together(each) for each in alike.values())
        self._length = sum(len(part.place) for part in self.parts)

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, number: int) -> Kernel: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[Kernel]: ...
    def __getitem__(self, number: int | slice) -> Kernel | Sequence[Kernel]:
        return self._kernels[number]

    def __iter__(self) -> Iterator[Kernel]:
        return iter(self._kernels)

    @cached_property
    def _kernels(self) -> tuple[Kernel, ...]:
        made = {place: part.kernel(row) for part in self.parts for row, place in enumerate(part.place.tolist())}
        return tuple(made[place] for place in range(len(self)))

    def column(self, name: str) -> npt.NDArray[Any]:
        """A field of Columns of each kernel [kernels]."""
        if not self.parts:
            return np.zeros(0)
        values = np.concatenate([np.broadcast_to(getattr(part, name), len(part.place)) for part in self.parts])
        values[np.concatenate([part.place for part in self.parts])] = values.copy()
        return values


def _together(parts: Sequence[Columns]) -> Columns:
    names = ("place", "shape", "work", "flops", "bytes", "launches")
    whole: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts], axis=-1) for name in names}
    return Columns(*parts[0].alike[:3], op=parts[0].op, **whole)


def tabled(kernels: Sequence[Kernel]) -> KernelTable:
    """Kernels as columns."""
    if isinstance(kernels, KernelTable):
        return kernels
    alike: dict[tuple[str, str, str, str, int], list[int]] = {}
    for place, each in enumerate(kernels):
        alike.setdefault((each.kind, each.precision, each.held, each.op, len(each.shape)), []).append(place)
    return KernelTable(_columns(kernels, places) for places in alike.values())


def _columns(kernels: Sequence[Kernel], places: Sequence[int]) -> Columns:
    kinds, precisions, shapes, work, flops, size, launches, held, ops = zip(*(kernels[place] for place in places),
                                                                            strict=True)
    return Columns(kinds[0], precisions[0], held[0], np.array(places), np.array(shapes, np.int64).T,
                   np.array(work, np.float64), np.array(flops, np.float64), np.array(size, np.int64),
                   np.array(launches, np.int64), ops[0])
