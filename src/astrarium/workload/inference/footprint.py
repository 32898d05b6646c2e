"""What inference needs of memory, before any simulation: weights, cache, working memory; and what fits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium import config
from astrarium.errors import InputError
from astrarium.units import format_bytes
from astrarium.workload.graph.packed import Packed, Sequences
from astrarium.workload.inference.config import Inference
from astrarium.workload.inference.passes import program_of
from astrarium.workload.inference.replica import Replica
from astrarium.workload.model.base import cache_of

__all__ = ["CacheBlocks", "NoRoomError", "StageFootprint", "cache_blocks", "cache_bytes", "inference_footprint",
           "max_batch"]

FAR = 4096      # tokens, a multiple of those of a compressed entry


class StageFootprint(Struct, frozen=True):
    """Bytes on a rank of one pipeline stage: of the model and its draft, the cache at its fullest, and the most that a
    pass needs besides (with the activations that go to the next stage)."""

    weights: float
    cache: float
    working: float

    @property
    def total(self) -> float:
        """Bytes of all parts together."""
        return self.weights + self.cache + self.working


def inference_footprint(workload: Inference) -> tuple[StageFootprint, ...]:
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
        held = inference_footprint(config.replace(workload, "batch", count * unit))
        return all(each.total <= capacity for each in held)

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


class CacheBlocks(Struct, frozen=True):
    """The cache of a server in blocks: `total` of them fit; a block has `size` tokens in all layers.

    `grows`: whether a sequence takes more the longer it is. `fixed`: blocks' worth of states (delta nets, Mamba) that a
    sequence holds from its first token on. `windows`: (blocks that the layers of a window keep of a sequence, their
    share of a block).
    """

    total: int
    size: int
    grows: bool = True
    fixed: float = 0.0
    windows: tuple[tuple[int, float], ...] = ()

    @property
    def even(self) -> bool:
        """Whether a sequence holds blocks in proportion to its tokens."""
        return self.grows and not self.fixed and not self.windows

    @property
    def shares(self) -> bool:
        """Whether sequences can share what they hold: there are no states, and some layers see all tokens."""
        return not self.fixed and self.shared(1000) > 0

    def of(self, tokens: int) -> int:
        """Blocks that a sequence of `tokens` tokens holds."""
        return int(self.of_each(np.array([tokens]))[0])

    def shared(self, blocks: int) -> int:
        """How many of the first `blocks` blocks of a sequence are those of layers with full attention."""
        return int(round(blocks * (1 - sum(share for _, share in self.windows)), 9)) if self.grows else 0

    def of_each(self, tokens: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Blocks that sequences of these tokens hold."""
        blocks = -(-tokens // self.size) if self.grows else np.zeros_like(tokens)
        saved = sum((share * np.maximum(0, blocks - most) for most, share in self.windows), np.zeros(len(tokens)))
        held: npt.NDArray[np.int64] = blocks + np.ceil(np.round(self.fixed - saved, 9)).astype(np.int64)
        return held


class NoRoomError(InputError):
    """An NPU has no room for a cache: its `weights` take bytes of the `room` that all may take."""

    def __init__(self, message: str, weights: float, room: float):
        self.weights, self.room = weights, room
        super().__init__("memory.capacity", message,
                         expected="more memory or memory_share, more ranks, or fewer policy.max_tokens")


def cache_blocks(models: Sequence[Replica], room: float, block: int, max_tokens: int) -> CacheBlocks:
    """The cache of all models in `room` bytes beside weights and working memory, in blocks of `block` tokens, on the
    stage with the fewest.

    Layers with a window keep its tokens and a block more, as they free whole blocks. Raises InputError where no block
    fits.
    """
    step = Packed((Sequences(1, max_tokens, 0, 1),))
    found = []
    for stage in range(models[0].stages):
        held = sum(each.weight_bytes(stage) for each in models)
        free = room - held - max(each.working(stage, step) for each in models)
        found.append(_blocks(models, stage, free, block))
        if found[-1].total < 1:
            size = sum(part for each in models for _, grows, state in _layers(each, stage, block)
                       for part in (grows, state))
            text = (f"has no room for a cache: weights take {format_bytes(held)}, working memory of {max_tokens:,} "
                    f"tokens {format_bytes(room - held - free)}, a block of {block} tokens {format_bytes(size)}, and "
                    f"policy.memory_share leaves {format_bytes(room)} of an NPU for all")
            raise NoRoomError(text, held, room)
    return min(found, key=lambda each: each.total)


def _blocks(models: Sequence[Replica], stage: int, free: float, block: int) -> CacheBlocks:
    """The blocks of one stage in `free` bytes."""
    sights: dict[int | None, float] = {}        # tokens that a layer looks back -> bytes of a block of them
    fixed = 0.0
    for each in models:
        for sight, size, state in _layers(each, stage, block):
            sights[sight] = sights.get(sight, 0.0) + size
            fixed += state
    unit = sum(sights.values())
    if not unit:
        return CacheBlocks(int(free // fixed) if fixed else 2**40, block, False, 1.0 if fixed else 0.0)
    windows = tuple((-(-sight // block) + 1, size / unit) for sight, size in sights.items() if sight and size)
    return CacheBlocks(int(free // unit), block, True, round(max(0.0, fixed / unit), 9), windows)


def _layers(replica: Replica, stage: int, block: int) -> Iterator[tuple[int | None, float, float]]:
    """For every layer of a stage: tokens that it looks back, bytes of a block of those, bytes that do not grow; and
    (None, bytes of a block, 0) of what grows beyond them (compressed tokens)."""
    cache, spread = cache_of(replica.model), replica.mesh.size(("sp",))
    chunked = getattr(replica.model, "window_kind", "") == "chunked"    # longer ones than a chunk are refused

    def bytes_of(tokens: int, place: int) -> float:
        return replica.cache_of_layers(_of(tokens, spread), stage)[place] / spread

    first = sum(replica.layers_of(len(replica.pieces(_of(1, spread)).layers))[:stage])
    for place in range(len(replica.cache_of_layers(_of(1, spread), stage))):
        sight, one = None if cache is None else cache.sight(first + place), bytes_of(1, place)
        near = (bytes_of(1 + block, place) - one) / block
        if sight is None or chunked:
            yield None, block * near, one - near
            continue
        far = 0.0
        if cache is not None and cache.limit is None:
            far = (bytes_of(sight + 2 * FAR, place) - bytes_of(sight + FAR, place)) / FAR
        near = (bytes_of(sight, place) - one) / (sight - 1) if sight > 1 else far
        yield sight, block * (near - far), one - near
        yield None, block * far, 0.0


def _of(tokens: int, count: int) -> Packed:
    """A step after which `count` sequences have `tokens` tokens each."""
    return Packed((Sequences(count, 1, tokens - 1),))


def cache_bytes(models: Sequence[Replica], block: int) -> float:
    """Bytes of a cache block of `block` tokens of all models (of a state, where nothing grows), over all ranks of one
    rank of dp."""
    mesh = models[0].mesh
    layers = [layer for each in models for stage in range(each.stages) for layer in _layers(each, stage, block)]
    return (sum(size for _, size, _ in layers) or sum(state for *_, state in layers)) * mesh.size(("tp", "sp"))
