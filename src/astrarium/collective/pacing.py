"""One collective under the estimate: the time of any of its compositions, lists of algorithms and chunks.

Chunks count as equal (they differ by a byte), and go through their phases as `engine.reference.pace` says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from math import prod
from typing import NamedTuple

from astrarium.collective import bounds, themis
from astrarium.collective.compose import Composition, compose
from astrarium.collective.estimate import Reach, Stride, strides
from astrarium.collective.groups import SubDim
from astrarium.collective.lower import Free, Settings
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
        self._ends: dict[tuple[int, str], tuple[float, float]] = {}

    @cached_property
    def _whole(self) -> int:
        return self.size * self.members if self.op == CommOp.ALL_GATHER else self.size

    def time(self, composition: Composition, names: Names, chunks: int) -> float:
        """ns of so many chunks."""
        count = max(1, min(chunks, self.size // self.granule))
        each = -(-self.size // count)
        orders = self._orders(composition, names, count, each)
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
            for part, op, size in compose(self.op, each, order, composition):
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

    def _orders(self, composition: Composition, names: Names, count: int, each: int) -> list[tuple[SubDim, ...]]:
        """Per chunk, the dims as its reduce_scatter takes them."""
        if composition != Composition.THEMIS or len(self.parts) == 1 or self.op == CommOp.ALL_TO_ALL:
            return [self.parts] * count
        own = names.gathers if self.op == CommOp.ALL_GATHER else names.scatters
        costs = [self._cost(place, name) for place, name in enumerate(own)]
        return themis.orders([each * (self.members if self.op == CommOp.ALL_GATHER else 1)] * count, self.parts, costs)

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

    def bound(self, names: Names) -> tuple[float, float]:
        """(what no number of chunks and no order of the dims is faster than with these algorithms, all that they take
        one after the other)."""
        ends = [self._end(place, name) for place, name in enumerate(names.own)]
        path = sum(end[0] for end in ends)
        loads = [end[1] for end in ends]
        return max(path, *loads), path + sum(loads)

    def alone(self, place: int, name: str) -> float:
        """ns of the operation in one dim, as if there were no other."""
        return sum(self._end(place, name))

    def unbeaten(self, place: int, names: Sequence[str]) -> tuple[str, ...]:
        """Of algorithms in one dim, those that no other one is better than, or equal to and before."""
        ends = [self._end(place, name) for name in names]
        return tuple([name for number, (name, mine) in enumerate(zip(names, ends)) if not any(
            other[0] <= mine[0] and other[1] <= mine[1] and (other != mine or rival < number)
            for rival, other in enumerate(ends) if rival != number)])

    def _end(self, place: int, name: str) -> tuple[float, float]:
        """(latencies one after the other, the least that the busiest port carries) in one dim."""
        if (place, name) not in self._ends:
            part = self.parts[place]
            least = self._whole if self.op == CommOp.ALL_TO_ALL else self._whole * part.n // self.members
            dim, reach, around = self._free.dims[part.dim], self._reaches[part.dim], self._free.around
            empty = strides(dim, name, self.op, part.n, reach, 0, around)
            path = sum(latency * times for _, _, latency, times in empty)
            loads: dict[int, float] = {}
            for port, service, _, times in strides(dim, name, self.op, part.n, reach, least, around):
                loads[port] = loads.get(port, 0.0) + service * times
            self._ends[place, name] = path, max(loads.values())
        return self._ends[place, name]
