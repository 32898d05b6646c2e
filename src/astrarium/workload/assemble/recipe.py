"""What assembly needs to know, as plain values: no model, no configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from astrarium.workload.mesh import Mesh
from astrarium.workload.pieces import BlockPieces, Weight
from astrarium.workload.schedule import Line

__all__ = ["Recipe", "Sizes"]


@dataclass(frozen=True)
class Sizes:
    """Bytes per element of weights, of gradients as they are kept and as they are sent, and of the optimizer's states.

    `step_flops` and `step_bytes` per element: what one step of the optimizer does and moves.
    """

    weights: float = 2
    gradients: float = 4
    sent: float = 4
    states: float = 12
    step_flops: float = 15
    step_bytes: float = 30


@dataclass(frozen=True)
class Recipe:
    """A training step.

    `parts[p]` lists the blocks (indexes into `kinds`) of part p of the model; a stage has `schedule.place` of them.
    `batches` micro-batches per iteration. `zero` 0 to 3 over `zero_axes`; `prefetch` blocks ahead; `bucket` bytes of
    gradients that one collective reduces at least; `overlap`: reductions start during the last backward unit.
    `offload`: `none`, `optimizer` or `activations`. `tied`: weights that the first and the last part, on different
    stages, share. `clip`: the norm of all gradients is summed up before the step. `sample` bytes that a rank of the
    first stage loads from remote memory per micro-batch. `checkpoint`: weights and states are stored there at the end.
    """

    mesh: Mesh
    kinds: tuple[BlockPieces, ...]
    parts: tuple[tuple[int, ...], ...]
    schedule: Line
    batches: int
    chunks: int = 1
    sizes: Sizes = Sizes()
    zero: int = 0
    zero_axes: tuple[str, ...] = ("ep", "idp", "cp", "sp")
    prefetch: int = 1
    bucket: float = 25e6
    overlap: bool = True
    offload: str = "none"
    tied: frozenset[str] = frozenset()
    clip: bool = True
    sample: float = 0
    checkpoint: bool = False
    _shards: dict[tuple[str, ...], tuple[str, ...]] = field(default_factory=dict, repr=False, compare=False)
    _portions: dict[int, tuple[tuple[float, int, int], ...]] = field(default_factory=dict, repr=False, compare=False)
    _sharded: dict[int, float] = field(default_factory=dict, repr=False, compare=False)
    _summed: dict[int, Mapping[tuple[str, ...], float]] = field(default_factory=dict, repr=False, compare=False)

    @property
    def stages(self) -> int:
        """Pipeline stages."""
        return self.mesh.size(("pp",))

    def weights(self, kind: int) -> Mapping[tuple[str, ...], float]:
        """Elements of a kind of block on one rank by the axes over which their gradients are summed."""
        found = self._summed.get(kind)
        if found is None:
            total: dict[tuple[str, ...], float] = {}
            for weight in self.kinds[kind].weights:
                axes = self.mesh.real(weight.replicas)
                total[axes] = total.get(axes, 0.0) + weight.elements
            found = self._summed[kind] = total
        return found

    def portions(self, kind: int) -> tuple[tuple[float, int, int], ...]:
        """(elements on one rank before ZeRO, ranks that ZeRO shards over, ranks that have the same) of every weight of
        a kind of block."""
        found = self._portions.get(kind)
        if found is None:
            found = self._portions[kind] = tuple([(each.elements, self.shards(each), self.mesh.size(each.replicas))
                                                  for each in self.kinds[kind].weights])
        return found

    def sharded(self, kind: int) -> float:
        """Elements of a kind of block that ZeRO shards over more than one rank."""
        found = self._sharded.get(kind)
        if found is None:
            found = self._sharded[kind] = sum([elements for elements, shards, _ in self.portions(kind) if shards > 1])
        return found

    def split(self, axes: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """(axes of ZeRO, the others) of a weight's replica axes."""
        meant = self.mesh.real(self.zero_axes) if self.zero else ()
        return tuple([a for a in axes if a in meant]), tuple([a for a in axes if a not in meant])

    def shard_axes(self, weight: Weight) -> tuple[str, ...]:
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
