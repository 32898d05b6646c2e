"""One collective under the estimate: the time of any of its compositions, lists of algorithms and chunks.

Chunks count as equal (they differ by a byte), and go through their phases as `engine.strides` says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from math import prod
from typing import NamedTuple

from astrarium.collective import bounds, chunking, themis
from astrarium.collective.compose import Composition, Step, compose
from astrarium.collective.estimate import Reach, Stride, ends, messages, strides
from astrarium.collective.groups import SubDim
from astrarium.collective.settings import Free, Settings
from astrarium.engine import pace
from astrarium.vocab import CommOp

__all__ = ["Names", "Pacing"]

PORTS = 32      # of a dim


class Names(NamedTuple):
    """Algorithms per dim of a group: of the operation, and of an all_reduce's reduce_scatters and all_gathers."""

    own: tuple[str, ...]
    scatters: tuple[str, ...]
    gathers: tuple[str, ...]


class Pacing:
    """`op` on `size` bytes in a group of `parts`. Remembers what its phases take."""

    def __init__(self, op: CommOp, size: int, parts: Sequence[SubDim], settings: Settings, free: Free,
                 reaches: Mapping[int, Reach]) -> None:
        self.op, self.size, self.parts = op, size, tuple(parts)
        self._settings, self._free, self._reaches = settings, free, reaches
        self.members = prod(part.n for part in parts)
        self.granule = 1 if op == CommOp.ALL_GATHER else self.members
        self._place = {part.dim: place for place, part in enumerate(parts)}
        self._known: dict[tuple[int, str, CommOp, int], list[Stride]] = {}
        self._fixed: dict[tuple[int, str], themis.DimCost] = {}
        self._steps: dict[tuple[Composition, int, tuple[SubDim, ...]], tuple[Step, ...]] = {}
        self._ordered: dict[tuple[int, tuple[float, ...]], list[tuple[SubDim, ...]]] = {}
        self._ends: dict[tuple[int, str], tuple[float, float]] = {}

    @cached_property
    def _whole(self) -> int:
        return self.size * self.members if self.op == CommOp.ALL_GATHER else self.size

    def time(self, composition: Composition, names: Names, chunks: int) -> float:
        """ns of so many chunks."""
        count = max(1, min(chunks, self.size // self.granule))
        each = -(-self.size // count)
        orders = self._orders(composition, names, count)
        by_op = {self.op: names.own, CommOp.REDUCE_SCATTER: names.scatters, CommOp.ALL_GATHER: names.gathers,
                 CommOp.ALL_REDUCE: names.own}
        rows: list[list[Stride]] = []
        phase_of: dict[tuple[int, CommOp, int], int] = {}
        paths: dict[tuple[SubDim, ...], int] = {}
        phases: list[list[int]] = []
        for order in orders:
            if order in paths:
                continue
            path = []
            if (composition, each, order) not in self._steps:
                self._steps[composition, each, order] = compose(self.op, each, order, composition)
            for part, op, size in self._steps[composition, each, order]:
                key = part.dim, op, size
                if key not in phase_of:
                    phase_of[key] = len(rows)
                    rows.append(self._strides(part, by_op[op][self._place[part.dim]], op, size))
                path.append(phase_of[key])
            paths[order] = len(phases)
            phases.append(path)
        active = self._free.active
        limit = active if active is not None else 0 if composition == Composition.THEMIS else 1
        return pace(rows, phases, [paths[order] for order in orders], limit, self._free.around.endpoint_delay)

    def _orders(self, composition: Composition, names: Names, count: int) -> list[tuple[SubDim, ...]]:
        """Per chunk, the dims as its reduce_scatter takes them: those of the plan, as a byte changes them."""
        if composition != Composition.THEMIS or len(self.parts) == 1 or self.op == CommOp.ALL_TO_ALL:
            return [self.parts] * count
        own, whole = names.scatters, 1
        if self.op == CommOp.ALL_GATHER:
            own, whole = names.gathers, self.members
        costs = tuple([self._cost(place, name) for place, name in enumerate(own)])
        key = count, tuple([cost.fixed for cost in costs])
        if key not in self._ordered:
            sizes = [each * whole for times, each in chunking.split(self.size, count) for _ in range(times)]
            self._ordered[key] = themis.orders(sizes, self.parts, costs)
        return self._ordered[key]

    def _cost(self, place: int, name: str) -> themis.DimCost:
        if (place, name) not in self._fixed:
            part = self.parts[place]
            link = self._settings.links[part.dim]
            single = CommOp.ALL_GATHER if self.op == CommOp.ALL_GATHER else CommOp.REDUCE_SCATTER
            self._fixed[place, name] = themis.DimCost(bounds.steps(name, single, part.n) * link.latency, link.bandwidth)
        return self._fixed[place, name]

    def _strides(self, part: SubDim, name: str, op: CommOp, size: int) -> list[Stride]:
        """Of one step, with ports that are the dim's own."""
        key = part.dim, name, op, size
        found = self._known.get(key)
        if found is None:
            whole = size * part.n if op == CommOp.ALL_GATHER else size
            found = self._known[key] = [
                (PORTS * part.dim + port, service, latency, times) for port, service, latency, times in strides(
                    self._free.dims[part.dim], name, op, part.n, self._reaches[part.dim], whole, self._free.around)]
        return found

    def bound(self, names: Names) -> float:
        """What no number of chunks and no order of the dims is faster than with these algorithms."""
        ends = self._ends_of(names)
        return max(sum([end[0] for end in ends]), *[end[1] for end in ends])

    def guess(self, names: Names, chunks: int) -> float:
        """Phases in a row, the busiest dim as often as there are chunks, the others once: what lists are ordered by."""
        ends = self._ends_of(names)
        loads = [end[1] for end in ends]
        return sum([end[0] for end in ends]) + (sum(loads) + (chunks - 1) * max(loads)) / chunks

    def _ends_of(self, names: Names) -> list[tuple[float, float]]:
        return [self._end(place, name) for place, name in enumerate(names.own)]

    def messages(self, names: Names) -> int:
        """How many an NPU sends for one chunk."""
        return sum([messages(name, self.op, part.n) for name, part in zip(names.own, self.parts)])

    def rounds(self, names: Names) -> int:
        """Messages of a pass of one chunk through the dims, those of both directions of a ring as one."""
        return sum([min(part.n - 1, messages(name, CommOp.ALL_GATHER, part.n))
                    for name, part in zip(names.own, self.parts)])

    def alone(self, place: int, name: str) -> float:
        """ns of the operation in one dim, as if there were no other."""
        return sum(self._end(place, name))

    def unbeaten(self, place: int, names: Sequence[str]) -> tuple[str, ...]:
        """Of algorithms in one dim, those that no other one is better than, or equal to and before."""
        if len(names) == 1:
            return tuple(names)
        ends = [self._end(place, name) for name in names]
        return tuple([name for number, (name, mine) in enumerate(zip(names, ends)) if not any(
            other[0] <= mine[0] and other[1] <= mine[1] and (other != mine or rival < number)
            for rival, other in enumerate(ends) if rival != number)])

    def _end(self, place: int, name: str) -> tuple[float, float]:
        """(latencies one after the other, the least that the busiest port carries) in one dim."""
        if (place, name) not in self._ends:
            part = self.parts[place]
            least = self._whole if self.op == CommOp.ALL_TO_ALL else self._whole * part.n // self.members
            self._ends[place, name] = ends(self._free.dims[part.dim], name, self.op, part.n, self._reaches[part.dim],
                                           least, self._free.around)
        return self._ends[place, name]
