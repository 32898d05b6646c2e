"""What passes between the pools of a disaggregated workload, pair of ranks by pair of ranks."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from typing import cast

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from astrarium.trace.work import Generated
from astrarium.workload.graph.packed import Packed, Sequences
from astrarium.workload.inference.config import Inference
from astrarium.workload.inference.disaggregated import Disaggregated
from astrarium.workload.inference.join import PlacedProgram, joined
from astrarium.workload.inference.link import Transfer
from astrarium.workload.inference.passes import program_of
from astrarium.workload.inference.program import TOKEN, Program, assembled
from astrarium.workload.inference.replica import Replica
from astrarium.workload.inference.retrieval import retrieval
from astrarium.workload.mesh import Mesh
from astrarium.workload.model.base import cache_of, with_layers

__all__ = ["Shards", "cache_transfers", "disaggregated", "shares"]

CACHE, TOKENS, PROMPT = 0, 1, 2         # kinds of messages, in their tags


def disaggregated(workload: Disaggregated) -> Generated:
    """What every rank runs. Raises InputError where a size of the model does not divide."""
    works = workload.phase("prefill"), workload.phase("decode")
    prefill, whole = program_of(works[0]), program_of(works[1])
    decode = replace(whole, rounds=whole.rounds[whole.prefills:])
    first = _Pool(works[0], prefill, 0)
    second = _Pool(works[1], decode, works[0].ranks)
    transfers = [*_caches(first, second), *_tokens(first, second)]
    parts = [_part(first, 0), _part(second, 1)]
    if workload.retrieval is not None:
        start, servers = works[0].ranks + works[1].ranks, workload.retrieval.servers
        made = retrieval(workload.retrieval, workload.batch)
        end = len(made.classes[0].type) - 1
        parts.append(PlacedProgram(start, made, [np.zeros(1, np.int64)], [np.full(1, end, np.int64)], 0))
        transfers += _prompts(first, start, servers)
    return joined(parts, transfers, (("prefill", 1.0), ("decode", float(works[1].lengths[1]))))


class _Pool(Struct, frozen=True):
    """A phase, its program, its first rank."""

    work: Inference
    program: Program
    start: int

    @property
    def replica(self) -> Replica:
        return self.program.replica

    def ranks(self, stage: int) -> Iterator[tuple[int, int, int]]:
        """(rank, data-parallel replica, tp shard) of a stage."""
        mesh = self.work.mesh
        copy, shard = mesh.coordinate("dp"), mesh.coordinate("tp")
        for rank in mesh.on("pp", stage).tolist():
            yield self.start + rank, int(copy[rank]), int(shard[rank])

    def sequences(self, copy: int, batch: int) -> range:
        """The numbers of a micro-batch's sequences, out of the whole batch."""
        first = (copy * self.work.micro_batches + batch) * self.work.sequences
        return range(first, first + self.work.sequences)

    @property
    def last(self) -> int:
        """The first unit of the last round."""
        return (len(self.program.rounds) - 1) * self.work.micro_batches


def _part(pool: _Pool, phase: int) -> PlacedProgram:
    made, tiles = assembled(pool.program)
    return PlacedProgram(pool.start, made, [each.offset for each in tiles], [each.exit for each in tiles], phase)


def _overlaps(first: _Pool, second: _Pool, one: int, other: int) -> Iterator[tuple[int, int, int]]:
    """(micro-batch of the first, of the second, sequences in both) of a pair of replicas."""
    for m, n in product(range(first.work.micro_batches), range(second.work.micro_batches)):
        a, b = first.sequences(one, m), second.sequences(other, n)
        count = min(a.stop, b.stop) - max(a.start, b.start)
        if count > 0:
            yield m, n, count


def _tag(kind: int, m: int, n: int, second: _Pool) -> int:
    return (m * second.work.micro_batches + n) * 3 + kind


def shares(heads: int, source: int, target: int) -> Iterator[tuple[int, int, Fraction]]:
    """(source shard, target shard, share of what the source holds that it sends) for `heads` key and value heads.

    Heads fewer than shards are copied; then a target takes from the copy whose place among its likes is the target's,
    counted round.
    """
    held = [_held(heads, shard, source) for shard in range(source)]
    for goal in range(target):
        low, high = _held(heads, goal, target)
        for interval in sorted(set(held)):
            both = min(high, interval[1]) - max(low, interval[0])
            if both <= 0:
                continue
            copies = [shard for shard in range(source) if held[shard] == interval]
            like = sum(_held(heads, each, target) == (low, high) for each in range(goal))
            yield copies[like % len(copies)], goal, both / (interval[1] - interval[0])


def _held(heads: int, shard: int, shards: int) -> tuple[Fraction, Fraction]:
    """The heads of a shard: from, to."""
    if shards > heads:
        head = Fraction(shard * heads // shards)
        return head, head + 1
    return Fraction(shard * heads, shards), Fraction((shard + 1) * heads, shards)


class Shards(Struct, frozen=True):
    """One replica, on ranks from `start` on."""

    replica: Replica
    start: int


def cache_transfers(front: Shards, back: Shards, tokens: int) -> Iterator[Transfer]:
    """The cache of one sequence of `tokens` tokens, from one replica to another (of ranks of dp that share experts,
    from the first to the first); both have one unit of work."""
    heads, meshes = _heads(front.replica), (front.replica.mesh, back.replica.mesh)
    pairs = {(s, t): share for s, t, share in shares(heads, *(mesh.size(("tp",)) for mesh in meshes))}
    layers = front.replica.cache_of_layers(Packed((Sequences(1, 1, tokens - 1, 0),)))
    for stage, other in product(range(front.replica.stages), range(back.replica.stages)):
        common = _common(front.replica, stage, back.replica, other)
        for source, target in product(_first(meshes[0], stage), _first(meshes[1], other)):
            pair = int(meshes[0].coordinate("tp")[source]), int(meshes[1].coordinate("tp")[target])
            if common and pair in pairs:
                size = round(sum(layers[layer] for layer in common) * pairs[pair])
                yield Transfer("cache", front.start + source, back.start + target, size, CACHE, 0, 0)


def _first(mesh: Mesh, stage: int) -> list[int]:
    """Ranks of a stage of the first rank of dp."""
    ranks = mesh.on("pp", stage)
    return cast("list[int]", ranks[mesh.coordinate("dp")[ranks] == 0].tolist())


def _heads(replica: Replica) -> int:
    """Key and value heads that are cached apart."""
    cache = cache_of(replica.model)
    return 1 if cache is None else cache.heads


def _caches(first: _Pool, second: _Pool) -> Iterator[Transfer]:
    """Keys and values, from every rank that has them to every rank that needs them."""
    pairs = {(s, t): share for s, t, share in shares(_heads(first.replica), first.work.tp, second.work.tp)}
    sizes: dict[int, tuple[float, ...]] = {}
    prompt = first.work.lengths[0]
    for stage, other in product(range(first.work.pp), range(second.work.pp)):
        layers = _common(first.replica, stage, second.replica, other)
        if not layers:
            continue
        for (source, a, s), (target, b, t) in product(first.ranks(stage), second.ranks(other)):
            if (s, t) not in pairs:
                continue
            for m, n, count in _overlaps(first, second, a, b):
                if count not in sizes:
                    step = Packed((Sequences(count, 1, prompt - 1, 0),))
                    sizes[count] = first.replica.cache_of_layers(step)
                size = round(sum(sizes[count][layer] for layer in layers) * pairs[s, t])
                yield Transfer("cache", source, target, size, _tag(CACHE, m, n, second), first.last + m, n)


def _common(one: Replica, stage: int, two: Replica, other: int) -> range:
    """Layers that are on both stages."""
    layers = [replica.layers_of(model.layers) for replica in (one, two)
              if (model := with_layers(replica.model)) is not None]
    starts = sum(layers[0][:stage]), sum(layers[1][:other])
    return range(max(starts), min(starts[0] + layers[0][stage], starts[1] + layers[1][other]))


def _tokens(first: _Pool, second: _Pool) -> Iterator[Transfer]:
    """The first tokens, from the last stage of prefill to the first of decode."""
    for (source, a, s), (target, b, t) in product(first.ranks(first.work.pp - 1), second.ranks(0)):
        if s != t % first.work.tp:
            continue
        for m, n, count in _overlaps(first, second, a, b):
            yield Transfer("tokens", source, target, TOKEN * count, _tag(TOKENS, m, n, second), first.last + m, n)


def _prompts(first: _Pool, start: int, servers: int) -> Iterator[Transfer]:
    """What was found, as tokens of the prompts, to the first stage of prefill."""
    for number, (target, _, _) in enumerate(first.ranks(0)):
        size = TOKEN * first.work.sequences * first.work.micro_batches * first.work.lengths[0]
        yield Transfer("prompts", start + number % servers, target, size, PROMPT, 0, 0)
