"""What assembly needs to know, as plain values: no model, no configuration."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from msgspec import Struct, field

from astrarium.vocab import Placed
from astrarium.workload.mesh import Mesh
from astrarium.workload.pieces import BlockPieces, Weight
from astrarium.workload.schedule import PipelineSchedule

__all__ = ["Flat", "Recipe", "Sizes"]

Axes = tuple[str, ...]
LOCAL = Placed()


class Flat(Struct, frozen=True):
    """Buffers of collectives: see Buffers. `gather`: weights are copied out of one; `ends`: embedding and head are one
    group under ZeRO 3; `pools`: what streams of collectives allocate is theirs all the time; `whole`: gradients
    are not reduced before the last micro-batch."""

    gather: bool = False
    reduce: str = "in_place"
    count: int = 1
    ends: bool = False
    pools: bool = False
    whole: bool = False


class Sizes(Struct, frozen=True):
    """Bytes per element of weights as they are used and (`shards`) as ZeRO 3 keeps them beside the states, of gradients
    as they are kept and as they are sent, and of the optimizer's states.

    `step_flops` and `step_bytes` per element: what one step of the optimizer does and moves; `step_held`: of tensors
    that are there during it.
    """

    weights: float = 2
    shards: float = 2
    gradients: float = 4
    sent: float = 4
    states: float = 12
    step_flops: float = 15
    step_bytes: float = 30
    step_held: float = 0


USUAL_AXES = ("ep", "idp", "cp", "sp")
"""Axes over which ZeRO shards where a workload does not say: those of replicas."""


class Totals(Struct, frozen=True):
    """A kind of block on one rank, before ZeRO. `portions`: of every weight (elements, ranks that ZeRO shards over,
    ranks that have the same); `sharded`: elements that ZeRO shards over more than one rank; `summed`: elements by the
    axes over which their gradients are summed."""

    portions: tuple[tuple[float, int, int], ...]
    sharded: float
    summed: Mapping[Axes, float]


class Recipe(Struct, frozen=True, dict=True):
    """A training step.

    `parts[p]` lists the blocks (indexes into `kinds`) of part p of the model; a stage has `schedule.place` of them.
    `batches` micro-batches per iteration. `zero` 0 to 3 over `zero_axes`; `prefetch` blocks ahead; `bucket` bytes of
    gradients that one collective reduces at least (0: a block's), out of the buffers of `flat`; `overlap`: reductions
    start during the last backward unit. `placed`: which memory holds what; `gathers`: remote memory gathers weights and
    sums gradients itself. `tied`: weights that the first and the last part, on different stages, share. `clip`: the
    norm of all gradients is summed up before the step, and (`scales`) multiplies them. `sample` bytes that a rank of
    the first stage loads from remote memory per micro-batch. `checkpoint`: weights and states are stored there at the
    end.
    `scattered`: axes whose ranks have the same activations between stages; each sends its part, and they gather it.
    `inner`: blocks that are layers of the model, not its ends. `weight_gradients`: see Transformer. `overhead` bytes
    that every rank holds besides. `shared`: kind of block -> elements of weights that it shares with one before it:
    their gradients are a separate tensor until that one's are made. `launch`: ns of the host for each kernel.
    """

    mesh: Mesh
    kinds: tuple[BlockPieces, ...]
    parts: tuple[tuple[int, ...], ...]
    schedule: PipelineSchedule
    batches: int
    chunks: int = 1
    sizes: Sizes = Sizes()
    zero: int = 0
    zero_axes: tuple[str, ...] = USUAL_AXES
    prefetch: int = 1
    bucket: float = 25e6
    flat: Flat = Flat()
    overlap: bool = True
    placed: Placed = LOCAL
    gathers: bool = False
    tied: frozenset[str] = frozenset()
    clip: bool = True
    scales: bool = False
    sample: float = 0
    checkpoint: bool = False
    scattered: Axes = ()
    inner: frozenset[int] = frozenset()
    weight_gradients: str = "in_place"
    overhead: float = 0
    launch: float = 0
    shared: Mapping[int, float] = field(default_factory=dict)

    @cached_property
    def _shards(self) -> dict[Axes, Axes]:
        return {}

    @cached_property
    def _known(self) -> dict[int, Totals]:
        return {}

    @property
    def stages(self) -> int:
        """Pipeline stages."""
        return self.mesh.size(("pp",))

    @property
    def fresh(self) -> bool:
        """Whether gradients are there from the backward pass of their block on, not from the start."""
        return (self.weight_gradients == "fresh" and self.batches == 1 and not self.schedule.split
                and self.placed.gradients is None and not self.flat.pools)

    @property
    def reduces_each(self) -> bool:
        """Whether the gradients of every micro-batch are reduced: a rank keeps its shards."""
        return self.zero >= 2 and not self.flat.whole

    def kept_whole(self, kind: int) -> bool:
        """Whether a kind of block has its weights together from the first forward to the last backward block."""
        return self.flat.ends and self.zero >= 3 and kind not in self.inner

    def gradients(self, kind: int) -> float:
        """Bytes of the gradients that a kind of block makes and a rank keeps."""
        portions = self.totals(kind).portions
        return self.sizes.gradients * (self.shared.get(kind, 0.0) + sum(
            [each / (shards if self.zero >= 2 else 1) for each, shards, _ in portions]))

    def message(self, size: int) -> int:
        """Bytes that a rank sends to the next stage of an activation of `size` bytes: its part, rounded up."""
        return -(-size // self.mesh.size(self.scattered))

    @property
    def ahead(self) -> int:
        """Blocks whose weights are fetched from another memory ahead of use: no fewer than are gathered."""
        return max(self.placed.prefetch, self.prefetch if self.zero >= 3 else 0)

    def kept(self, kind: int) -> float:
        """Elements of the weights of a kind of block that a rank keeps, under ZeRO 3 its shards."""
        return sum([each / (shards if self.zero >= 3 else 1) for each, shards, _ in self.totals(kind).portions])

    def totals(self, kind: int) -> Totals:
        """Totals of the weights of a kind of block."""
        found = self._known.get(kind)
        if found is None:
            found = self._known[kind] = self._totals(kind)
        return found

    def _totals(self, kind: int) -> Totals:
        weights, summed = self.kinds[kind].weights, dict[Axes, float]()
        for weight in weights:
            axes = self.mesh.real(weight.replicas)
            summed[axes] = summed.get(axes, 0.0) + weight.elements
        return Totals(tuple([(each.elements, self.shards(each), self.mesh.size(each.replicas)) for each in weights]),
                      sum([each.elements for each in weights if self.shards(each) > 1]), summed)

    def split(self, axes: Axes) -> tuple[Axes, Axes]:
        """(axes of ZeRO, the others) of a weight's replica axes."""
        meant = self.mesh.real(self.zero_axes) if self.zero else ()
        return tuple([a for a in axes if a in meant]), tuple([a for a in axes if a not in meant])

    def shard_axes(self, weight: Weight) -> Axes:
        """Axes over which ZeRO shards what belongs to a weight."""
        found = self._shards.get(weight.replicas)
        if found is None:
            meant = self.mesh.real(self.zero_axes)
            found = tuple(axis for axis in self.mesh.real(weight.replicas) if axis in meant)
            self._shards[weight.replicas] = found
        return found

    def shards(self, weight: Weight) -> int:
        """Ranks of that group."""
        return self.mesh.size(self.shard_axes(weight))
