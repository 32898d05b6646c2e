"""How long a step takes: a simulation of it, done once per shape."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from astrarium.arrays import I64
from astrarium.design import Design
from astrarium.lower.kept import Kept
from astrarium.result import Result
from astrarium.serving.policy import Buckets
from astrarium.serving.shape import Shape
from astrarium.simulate import simulate
from astrarium.trace.work import Generated, TraceClass
from astrarium.workload.graph.packed import Packed, Sequences
from astrarium.workload.inference.join import PlacedProgram, joined
from astrarium.workload.inference.link import Transfer
from astrarium.workload.inference.program import Pass, Program, assembled
from astrarium.workload.inference.replica import Replica
from astrarium.workload.inference.speculative import guessing
from astrarium.workload.inference.transfers import Shards, cache_transfers

__all__ = ["NAMES", "Known", "Simulated", "TransferTimes", "gaps", "packed_of"]

Known = MutableMapping[tuple[object, ...], Any]        # times in ps, and tables of them
NAMES = (("step", 1.0), ("", 1.0))
EXACT = Buckets(context=1)
TYPICAL = 1024      # tokens of a cache


class Simulated(Struct, frozen=True):
    """Times in ps of the steps of a replica whose first rank is `start`, each shape simulated once (rounded up to
    `buckets`); the design's other ranks are idle.

    A pipeline is full: as many like steps as it has stages follow each other through it, and the time of a step is that
    between its begin and the next one's, its pass through all stages or the work of all steps on the slowest stage.

    With a `draft` every step of decoding sequences is `guesses` steps of the draft and one that verifies them; prompts
    go through both models.

    `known` keeps them: give one dict to several runs of one design.
    """

    design: Design
    replica: Replica
    start: int
    buckets: Buckets
    known: Known
    draft: Replica | None = None
    guesses: int = 0
    kept: Kept = field(default_factory=Kept)
    how: str = "simulated"

    def passes(self, shape: Shape) -> Sequence[Pass]:
        """The passes of a step, nothing rounded up."""
        return self.program(tuple(_decode(shape, EXACT)), tuple(_prompts(shape, EXACT))).rounds

    def of(self, shape: Shape, /) -> int:
        """Time of a step in ps."""
        decode, prompts = tuple(_decode(shape, self.buckets)), tuple(_prompts(shape, self.buckets))
        key = ("step", self.start, decode, prompts)
        if key not in self.known:
            program = self.program(decode, prompts)
            if self.replica.stages > 1:
                full = replace(program, micro_batches=self.replica.stages)
                self.known[key] = self._time(replace(full, rounds=full.rounds * 2)) - self._time(full)
            else:
                self.known[key] = self._time(program)
        return int(self.known[key])

    def _time(self, program: Program) -> int:
        made, tiles = assembled(program)
        part = PlacedProgram(self.start, made, [each.offset for each in tiles], [each.exit for each in tiles], 0)
        return _time(self.design, [part], [], self.kept)

    def decoding(self, count: int, context: int, steps: int, padding: int = 0, /) -> I64:
        """Times of successive decode steps in ps [steps], one by one."""
        return np.array([self.of(Shape(count, context + step * count, (), padding)) for step in range(steps)], np.int64)

    def program(self, decode: Sequence[Sequences], prompts: Sequence[Sequences]) -> Program:
        """The passes of a step."""
        if self.draft is None:
            return Program((self.replica,), (Pass("step", Packed((*decode, *prompts)), waits=True),))
        rounds = []
        for guess in range(self.guesses if decode else 1):
            parts = [guessing(each.count, each.past, guess, self.guesses, module=self.draft.module) for each in decode]
            rounds.append(Pass("draft", Packed((*parts, *(() if guess else prompts))), model=1))
        checked = self.guesses + 1
        parts = [Sequences(each.count, checked, each.past, checked) for each in decode]
        return Program((self.replica, self.draft), (*rounds, Pass("verify", Packed((*parts, *prompts)))))


def packed_of(shape: Shape) -> Packed:
    """A step without speculation, nothing rounded up."""
    return Packed((*_decode(shape, EXACT), *_prompts(shape, EXACT)))


def _decode(shape: Shape, buckets: Buckets) -> Iterator[Sequences]:
    """Decoding sequences by their number and their tokens in all, which is exact for attention to everything; under a
    window it counts some too many. Padding is sequences of one token without a cache."""
    count = _up(shape.count, buckets.batch)
    if count:
        mean, rest = divmod(-(-shape.context * count // shape.count), count)
        if buckets.context > 1:
            mean, rest = _up(mean + (rest > 0), buckets.context), 0
        yield Sequences(count - rest, 1, mean)
        if rest:
            yield Sequences(rest, 1, mean + 1)
    if shape.padding > count - shape.count:
        yield Sequences(shape.padding - (count - shape.count), 1, 0, 0)


def _prompts(shape: Shape, buckets: Buckets) -> Iterator[Sequences]:
    """Prompts, or parts of them; equal ones together."""
    counts: dict[tuple[int, int, int], int] = {}
    for new, past, samples in shape.prompts:
        key = (_up(new, buckets.chunk), _up(past, buckets.chunk), samples)
        counts[key] = counts.get(key, 0) + 1
    for key, count in sorted(counts.items()):
        yield Sequences(count, *key)


class TransferTimes(Struct, frozen=True):
    """Times in ps of a sequence's cache from one of `fronts` to one of `backs`, nothing else on the network."""

    design: Design
    fronts: Sequence[Shards]
    backs: Sequence[Shards]
    buckets: Buckets
    known: Known
    kept: Kept = field(default_factory=Kept)

    def of(self, front: int, back: int, tokens: int) -> int:
        """Time of `tokens` tokens of cache."""
        tokens = _up(tokens, self.buckets.context)
        key = ("transfer", front, back, tokens)
        if key not in self.known:
            self.known[key] = self._run(front, back, tokens, record=False).makespan_ps
        return int(self.known[key])

    def shares(self, front: int, back: int) -> Mapping[Hashable, float]:
        """Links (of a graph its number, else dim and ends) that a cache of TYPICAL tokens takes, each with the part of
        the time in which it is busy."""
        key = ("links", front, back)
        if key not in self.known:
            run = self._run(front, back, TYPICAL, record=True)
            links = run.links
            names = links.number.tolist() if links.number.size else zip(
                links.dim.tolist(), links.source.tolist(), links.target.tolist(), strict=True)
            self.known[key] = dict(zip(names, (links.busy / max(1, run.makespan_ps)).tolist(), strict=True)) or {
                ("out", front): 1.0, ("into", back): 1.0}       # a network that records none
        found: Mapping[Hashable, float] = self.known[key]
        return found

    def _run(self, front: int, back: int, tokens: int, *, record: bool) -> Result:
        """A run of one transfer; where links are recorded, of every rank, so that each has its links."""
        sides = self.fronts[front], self.backs[back]
        parts = [_still(side.start, side.replica.mesh.ranks) for side in sides]
        return _run(self.design, parts, list(cache_transfers(*sides, tokens)), self.kept, record=record)


def _time(design: Design, parts: Sequence[PlacedProgram], transfers: Sequence[Transfer], kept: Kept) -> int:
    """Makespan of some parts on the design's ranks; all others are idle."""
    return _run(design, parts, transfers, kept).makespan_ps


def _run(design: Design, parts: Sequence[PlacedProgram], transfers: Sequence[Transfer], kept: Kept, *,
         record: bool = False) -> Result:
    """A run of some parts on the design's ranks, all others idle; not folded where traffic is recorded."""
    made = joined([*parts, *gaps(parts, design.network.npus)], transfers, NAMES)
    return simulate(design, traces=made, record=record, fold="off" if record else None, kept=kept)


def gaps(parts: Sequence[PlacedProgram], total: int) -> list[PlacedProgram]:
    """Idle ranks between the parts and behind them."""
    found, place = [], 0
    for start, end in [*sorted((int(part.ranks[0]), int(part.ranks[-1]) + 1) for part in parts), (total, total)]:
        if start > place:
            found.append(_still(place, start - place))
        place = end
    return found


def _still(start: int, ranks: int) -> PlacedProgram:
    """Idle ranks: no nodes, so no compute model is asked for a time."""
    none, slots = np.zeros(0, np.int64), np.zeros((ranks, 0), np.int32)
    trace = TraceClass(
        ranks=np.arange(ranks, dtype=np.int32), node_id=none.astype(np.uint64), type=none.astype(np.uint8),
        is_cpu=none.astype(np.bool_), duration_us=none.astype(np.uint64), num_ops=none.astype(np.float64),
        tensor_size=none.astype(np.uint64), comm_type=none.astype(np.int32), comm_size=none,
        involved=none.astype(np.int32), priority=none.astype(np.int32), parent_ptr=np.zeros(1, np.int64),
        parent=none.astype(np.int32), slot_a=slots, slot_b=slots.copy(), slot=none.astype(np.int32))
    return PlacedProgram(start, Generated((trace,), (), (), (None,)), [np.zeros(1, np.int64)], [np.full(1, -1)], 0)


def _up(number: int, unit: int) -> int:
    return -(-number // unit) * unit
