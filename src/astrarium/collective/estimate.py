"""The time of one collective without a run: an estimate, and lower bounds.

The *estimate* is what `collective.choice: auto` compares. An algorithm on a dim is a few *strides*: messages that leave
an NPU one after the other, each of which keeps its port for bytes / link bandwidth and lets the next go a latency later
(the model of Hockney; the algorithm says its `Counts`). Chunks of a collective then share the ports of one NPU, where
all NPUs take equal steps (`engine.strides`). It does not know: other collectives and messages, back ends other than
closed_form, ranks that differ.

The *lower bounds* are what no run is faster than. `least_sent` is of any algorithm, by the bytes that members send:
take the blocks of m members inside the first dims, B blocks; over the other dims some member sends at least (S as
nccl-tests counts it; Patarasuk and Yuan 2009, each block taken as one process)

    all_reduce                  2 (B - 1) / B S / m
    reduce_scatter, all_gather  (B - 1) / B S / m
    all_to_all                  (B - 1) / B S

and of an all_reduce through switches that compute S / m: each block sends every byte once, its own or the sum.

`lower_bound` is of one algorithm in one dim. A *phase* starts for each of n participants when it enters; a participant
leaves it when its sends are delivered and its receives complete (design/0001). Two statements hold however early or
late participants enter:

- `own`: no participant leaves before its own sends have passed its links, of which those to the others that it sends
  to count, one for each (the least of any participant counts);
- for algorithms that are `exact` on a shape, in closed_form: everyone depends on everyone by a chain of steps, so
  nobody leaves before the first to enter plus the chain, and somebody not before the last to enter plus the chain.
  Other messages on the same ports only add to it. Of a ring the participants have to be all NPUs, in order: other ones
  meet on its links.

A step of b blocks of m bytes takes hops * latency + b m / link rate (+ 3 b m / memory rate where it reduces, + the
endpoint's delay), as `docs/background/closed_form.md` says; alone, the chain is what a simulation takes, to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache
from math import prod
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from astrarium.collective import chunking, themis
from astrarium.collective.algorithms import algorithm_of, bound, build
from astrarium.collective.algorithms.algorithm import Case, Counts, Reach, even
from astrarium.collective.algorithms.options import Options
from astrarium.collective.compose import Composition, Step, compose
from astrarium.collective.config import parse_algorithm
from astrarium.collective.groups import SubDim
from astrarium.collective.reach import reach_of_dim
from astrarium.collective.settings import Around, Free, Settings
from astrarium.engine import pace
from astrarium.engine.plan import Dim, Shape
from astrarium.errors import AstrariumError
from astrarium.vocab import CommOp, PeerMode, Schedule

__all__ = ["Estimate", "Names", "PhaseBound", "least_sent", "lower_bound"]

Stride = tuple[int, float, float, int]
MOST = 64       # messages one after the other; more are taken together
PORTS = 32      # of a dim


# ------------------------------------------------------------ one algorithm in one dim
@lru_cache(1 << 14)
def counts(name: str, case: Case) -> tuple[Counts, ...]:
    """What an algorithm does in a dim. Where neither it nor its bound says, n - 1 messages of a block."""
    algorithm, n = algorithm_of(name), case.n
    rows = algorithm.counts(case) if case.op in algorithm.ops else None
    if rows is not None:
        return tuple(rows)
    blocks = n if bound(name, case.op, n, n) is None else build(name, case.op, n).blocks
    limit = bound(name, case.op, n, blocks)
    return tuple(even(case, n - 1, n - 1.0) if limit is None else even(case, limit.steps, limit.sent * n / blocks))


def _reducing(algorithm: str, op: CommOp, rows: int) -> int:
    """How many of the rows, from the first, add what arrives; in a switch none: it adds."""
    if algorithm_of(algorithm).in_switch:
        return 0
    return rows if op == CommOp.REDUCE_SCATTER else rows // 2 if op == CommOp.ALL_REDUCE else 0


def strides(dim: Dim, algorithm: str, op: CommOp, n: int, reach: Reach, whole: int, around: Around) -> list[Stride]:
    """(port of the dim, service ns, latency ns, times) of `op` on a payload of `whole` bytes (of an all_gather: that
    comes together) among `n` members."""
    rows = counts(algorithm, Case(dim.shape, op, n, reach))
    wire = -(-whole // n) / dim.bandwidth
    reduced = _reducing(algorithm, op, len(rows))
    found: list[Stride] = []
    for number, row in enumerate(rows):
        latency = max(0.0, row.hops * dim.latency + row.late * wire) + around.endpoint_delay
        latency = max(0.0, latency - row.hidden * min(latency, row.held * wire))
        if around.reduce_rate and number < reduced:
            latency += 3 * row.size * -(-whole // n) / around.reduce_rate
        times = min(row.times, MOST)
        each = row.times / times
        found.append((row.port, row.held * wire * each, latency * each, times))
    return found


@lru_cache(1 << 14)
def messages(algorithm: str, op: CommOp, n: int) -> int:
    """How many messages a member sends."""
    return algorithm_of(algorithm).messages(op, n)


@lru_cache(1 << 14)
def _totals(algorithm: str, case: Case) -> tuple[float, int, float]:
    """(hops, messages one after the other, blocks that the busiest port carries)."""
    rows = counts(algorithm, case)
    ports: dict[int, float] = {}
    for row in rows:
        ports[row.port] = ports.get(row.port, 0.0) + row.held * row.times
    return sum([row.hops * row.times for row in rows]), sum([row.times for row in rows]), max(ports.values())


def ends(dim: Dim, algorithm: str, op: CommOp, n: int, reach: Reach, whole: int, around: Around) -> tuple[float, float]:
    """(latencies one after the other, what the busiest port carries) in ns: the two ends of what `op` on `whole` bytes
    can take in a dim."""
    hops, times, held = _totals(algorithm, Case(dim.shape, op, n, reach))
    return hops * dim.latency + times * around.endpoint_delay, held * (-(-whole // n) / dim.bandwidth)


# ------------------------------------------------------------ the estimate of a collective
class Names(NamedTuple):
    """Algorithms per dim of a group: of the operation, and of an all_reduce's reduce_scatters and all_gathers."""

    own: tuple[str, ...]
    scatters: tuple[str, ...]
    gathers: tuple[str, ...]


class Estimate:
    """The estimate of `op` on `size` bytes in a group of `parts`. Remembers what its phases take."""

    def __init__(self, op: CommOp, size: int, parts: Sequence[SubDim], settings: Settings, free: Free,
                 reaches: Mapping[int, Reach]) -> None:
        self.op, self.size, self.parts = op, size, tuple(parts)
        self._settings, self._free, self.reaches = settings, free, reaches
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
        """ns of so many chunks, which count as equal (they differ by a byte)."""
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
            self._fixed[place, name] = themis.dim_cost(name, self.op, part, self._settings.links[part.dim])
        return self._fixed[place, name]

    def _strides(self, part: SubDim, name: str, op: CommOp, size: int) -> list[Stride]:
        """Messages of one step, on the ports of its dim."""
        key = part.dim, name, op, size
        found = self._known.get(key)
        if found is None:
            whole = size * part.n if op == CommOp.ALL_GATHER else size
            found = self._known[key] = [
                (PORTS * part.dim + port, service, latency, times) for port, service, latency, times in strides(
                    self._free.dims[part.dim], name, op, part.n, self.reaches[part.dim], whole, self._free.around)]
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
        """The algorithms of one dim that no other one beats; of equal ones the first."""
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
            self._ends[place, name] = ends(self._free.dims[part.dim], name, self.op, part.n, self.reaches[part.dim],
                                           least, self._free.around)
        return self._ends[place, name]


# ------------------------------------------------------------ lower bounds
LINKS: Mapping[str, Callable[[int], int]] = MappingProxyType({
    "ring": lambda _: 2, "switch": lambda _: 1, "fully_connected": lambda npus: max(1, npus - 1)})
CHAINED = (CommOp.ALL_REDUCE, CommOp.REDUCE_SCATTER, CommOp.ALL_GATHER)


def least_sent(op: CommOp, blocks: float, members: float, in_switch: bool = False) -> float:
    """The share of the payload that some member sends at least over the dims outside its block, one of `blocks` of so
    many `members`; 0 of operations for which nothing is known. `in_switch`: some of these dims have switches that
    compute."""
    if op == CommOp.ALL_TO_ALL:
        return (blocks - 1) / blocks
    sent = (2 if op == CommOp.ALL_REDUCE else op in CHAINED) * (blocks - 1) / blocks
    return (min(sent, 1.0) if in_switch else sent) / members


def _sends(schedule: Schedule) -> tuple[float, float, int]:
    """Blocks that a participant sends at least, those of them to the next one, and to how many others at most."""
    sizes, next_ = np.diff(schedule.send_block_ptr), np.zeros(len(schedule.send_peer), np.bool_)
    if schedule.n == 2 or schedule.peer_mode == PeerMode.RELATIVE:
        next_ = np.ones_like(next_) if schedule.n == 2 else schedule.send_peer % schedule.n == 1
    rows = [slice(*schedule.send_ptr[program:program + 2]) for program in np.unique(schedule.program).tolist()]
    return (float(min(sizes[row].sum() for row in rows)), float(min(sizes[row][next_[row]].sum() for row in rows)),
            max(1, *[len(np.unique(schedule.send_peer[row])) for row in rows]))


class PhaseBound(Struct, frozen=True):
    """delays * endpoint delay + hops * latency + block bytes * (blocks / NPU bandwidth + 3 reduced / memory rate).

    `sent`: blocks that a participant sends at least, of which `next` to the next one; `own`: all of them, over the part
    of its links that can carry them. `count`: blocks per payload.
    """

    count: int
    sent: float
    next: float
    own: float
    blocks: float
    hops: int = 0
    delays: int = 0
    reduced: float = 0.0


@lru_cache(maxsize=4096)
def lower_bound(shape: str, entry: str, op: CommOp, n: int, npus: int, chain: bool) -> PhaseBound | None:
    """The least time of one chunk of `op` over `n` participants of a dim of `npus`, by an algorithm's `entry`; None
    where there is no such algorithm. `chain`: by chains of steps where it is exact."""
    name, window = parse_algorithm(entry)
    try:
        schedule = build(name, op, n, Options(window=window), path=name)
    except AstrariumError:
        return None
    links = LINKS[shape](npus) if shape in LINKS else 1
    sent, next_, peers = _sends(schedule)
    own = sent * links / min(links, peers)
    case = Case(Shape[shape.upper()], op, n, reach_of_dim(Shape[shape.upper()], n))
    known = chain and op in CHAINED and window < 0 and n > 1 and (shape != "ring" or n == npus)
    if not known or not algorithm_of(name).exact(case):
        return PhaseBound(schedule.blocks, sent, next_, own, own)
    rows = counts(name, case)
    held, added = sum(row.held * row.times for row in rows), rows[:_reducing(name, op, len(rows))]
    return PhaseBound(schedule.blocks, sent, next_, own, float(links * held),
                      int(sum(row.hops * row.times for row in rows)), 1 + sum(row.times for row in rows),
                      float(sum(row.size * row.times for row in added)))
