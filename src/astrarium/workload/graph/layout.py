"""Which mesh axes shard which dim, and how much of a tensor is then on one rank."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property

from msgspec import Struct

from astrarium.errors import InputError
from astrarium.workload.graph.ir import base

__all__ = ["UNEVEN", "Layout", "Number", "Size"]

UNEVEN = ("refuse", "pad", "fractional")
Number = int | Fraction
Size = Number | float     # a float is a mean (rows per expert, lookups per table), which divides as it comes


class Layout(Struct, frozen=True, dict=True):
    """Sizes and axes by dim name. `sizes` are global (an exact name goes before its base); `axes` keep only axes of
    more than one rank; `degrees` is the number of ranks along each axis.

    `uneven` says what happens where the degree does not divide a size: `refuse` (InputError), `pad` (the largest shard
    counts) or `fractional` (size / degree, as a real number; COSMIC's studies).
    """

    sizes: Mapping[str, Size]
    axes: Mapping[str, tuple[str, ...]]
    degrees: Mapping[str, int]
    uneven: str = "refuse"

    @cached_property
    def _known(self) -> dict[str, float]:
        return {}

    @cached_property
    def _elements(self) -> dict[tuple[str, ...], float]:
        return {}

    def axes_of(self, dim: str) -> tuple[str, ...]:
        """Axes of more than one rank that shard the dim."""
        return self.axes.get(dim, ())

    def degree(self, axes: Sequence[str]) -> int:
        """Ranks of a group over `axes`."""
        return math.prod([self.degrees[axis] for axis in axes])

    def ranks(self, axis: str) -> int:
        """Ranks along one axis."""
        return self.degrees[axis]

    def size(self, dim: str) -> Size:
        """Global size. Raises KeyError for a dim that the model never sized."""
        found = self.sizes.get(dim)
        return self.sizes[base(dim)] if found is None else found

    def local(self, dim: str) -> float:
        """Elements of the dim on one rank."""
        found = self._known.get(dim)
        if found is None:
            found = self._known[dim] = self._local(dim)
        return found

    def elements(self, dims: tuple[str, ...]) -> float:
        """Elements of a tensor on one rank."""
        found = self._elements.get(dims)
        if found is None:
            found = self._elements[dims] = math.prod([self.local(dim) for dim in dims])
        return found

    def _local(self, dim: str) -> float:
        size, ranks = self.size(dim), self.degree(self.axes_of(dim))
        if isinstance(size, float):
            return size / ranks
        exact = Fraction(size) / ranks
        if exact.denominator == 1:
            return int(exact)
        if self.uneven == "refuse":
            axes = " x ".join(self.axes_of(dim))
            raise InputError(f"workload: {base(dim)}", f"{float(size):g} is not "
                             + (f"a multiple of {axes} = {ranks}" if axes else "whole"),
                             expected=f"{'a multiple' if axes else 'a whole number'}, or workload.uneven: pad or "
                                      "fractional")
        return math.ceil(exact) if self.uneven == "pad" else float(exact)
