"""What inference needs of memory, before any simulation: weights, cache, working memory; and what fits."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from astrarium import config
from astrarium.errors import InputError, UnsupportedError
from astrarium.workload.graph.packed import Packed, Sequences
from astrarium.workload.inference.config import Inference
from astrarium.workload.inference.passes import program_of
from astrarium.workload.inference.replica import Replica
from astrarium.workload.model.base import cache_of

__all__ = ["StageFootprint", "cache_blocks", "cache_bytes", "footprint", "max_batch"]


class StageFootprint(Struct, frozen=True):
    """Bytes on a rank of one pipeline stage: of the model and its draft, the cache at its fullest, and the most that a
    pass needs besides (with the activations that go to the next stage)."""

    weights: float
    cache: float
    working: float

    @property
    def total(self) -> float:
        """All of it at once."""
        return self.weights + self.cache + self.working


def footprint(workload: Inference) -> tuple[StageFootprint, ...]:
    """Every stage at its fullest. An upper bound of the simulated peak: the fullest cache and the largest pass need not
    be there at the same time."""
    program = program_of(workload)
    found = []
    for stage in range(program.replica.stages):
        weights = sum(replica.weight_bytes(stage) for replica in program.models)
        cache = [max((replica.cache_bytes(stage, each.packed) for each in program.rounds if each.model == number),
                     default=0.0) for number, replica in enumerate(program.models)]
        working = max(program.models[each.model].working(stage, each.packed) for each in program.rounds)
        found.append(StageFootprint(weights, program.micro_batches * sum(cache), working))
    return tuple(found)


def max_batch(workload: Inference, capacity: float) -> int:
    """The largest batch (of the whole workload, micro-batches as they are) whose every stage fits into `capacity`
    bytes; 0: not even the smallest does."""
    unit = workload.dp * workload.micro_batches

    def fits(count: int) -> bool:
        return all(each.total <= capacity for each in footprint(config.replace(workload, "batch", count * unit)))

    if not fits(1):
        return 0
    high = 2
    while high < 2**30 and fits(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low * unit


def cache_blocks(models: Sequence[Replica], room: float, block: int, max_tokens: int) -> int:
    """Cache blocks of `block` tokens of all models in `room` bytes beside weights and working memory, on the fullest
    stage.

    A window saves nothing here: blocks are counted as if every layer kept all tokens. Raises InputError where no block
    fits, UnsupportedError for a model without a cache.
    """
    caches = [cache_of(each.model) for each in models]
    if any(cache is None or cache.states for cache in caches):
        raise UnsupportedError("workload.model", "has states beside or in place of a cache, of which serving counts "
                               "blocks", expected="a decoder without delta nets")
    found, spread = [], models[0].mesh.size(("sp",))
    some, step = Packed((Sequences(spread, 1, block - 1),)), Packed((Sequences(1, max_tokens, 0, 1),))
    for stage in range(models[0].stages):
        one = sum(each.cache_bytes(stage, some) for each in models) / spread
        held = sum(each.weight_bytes(stage) for each in models)
        free = room - held - max(each.working(stage, step) for each in models)
        found.append(int(free // one) if one else 2**40)
    if min(found) < 1:
        raise InputError("memory.capacity", "has no room for a cache beside weights and working memory",
                         expected="more memory, more ranks, or fewer policy.max_tokens")
    return min(found)


def cache_bytes(models: Sequence[Replica], block: int) -> float:
    """Bytes of a cache block of `block` tokens of all models, over all ranks of one rank of dp."""
    mesh = models[0].mesh
    spread = mesh.size(("sp",))
    some = Packed((Sequences(spread, 1, block - 1),))
    stages = sum(each.cache_bytes(stage, some) for each in models for stage in range(models[0].stages))
    return stages / spread * mesh.size(("tp", "sp"))
