"""A model on its ranks: pieces of any pass, weights, and bytes of cache."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from astrarium import config
from astrarium.errors import InputError
from astrarium.vocab import NodeKind
from astrarium.workload.graph import Forms, ModelPieces, Options, lower_stack
from astrarium.workload.graph.ir import Block
from astrarium.workload.graph.layout import Layout, Size
from astrarium.workload.graph.options import AXES, layout_of
from astrarium.workload.graph.packed import Packed, Sequences
from astrarium.workload.inference.formats import Compression, Formats, density, dispatch_width, numbers_of, widths_of
from astrarium.workload.mesh import Mesh
from astrarium.workload.model.base import Model
from astrarium.workload.model.stacks import stack_of
from astrarium.workload.routing import Routing

__all__ = ["Replica", "even_layers"]


class _Made(Struct, frozen=True):
    """A step: pieces, and bytes of cache of each block."""

    pieces: ModelPieces
    cache: tuple[float, ...]


def _own_cache(block: Block, layout: Layout, widths: Mapping[str, float]) -> float:
    """Bytes of the caches to which a block appends, on one rank; a cache that is only read is another layer's."""
    own = {out.tensor for op in block.ops if op.kind == "append" for out in op.outputs}
    return sum(layout.elements(dims) * widths[block.widths.get(state, "state")]
               for state, dims in block.states.items() if state in own)


class Replica(Struct, frozen=True, dict=True):
    """One model laid out on a mesh, and how it runs."""

    model: Model
    mesh: Mesh
    formats: Formats
    compression: Compression
    attention: str = "flash"
    mask: str = "skip"
    fusion: bool | str = True
    uneven: str = "refuse"
    stage_layers: tuple[int, ...] = ()
    exchange: str = "all_to_all"
    routing: Routing = Routing()
    redundant: int = 0
    module: bool = False
    operators: str = "fused"
    fused_weights: bool = False
    launch: float = 0.0         # ns of the host for each kernel

    def drafting(self, draft: Model | Literal["mtp"]) -> Replica:
        """A draft on the same ranks: a model, or the model's own module for multi-token prediction (`mtp`)."""
        if isinstance(draft, str):
            return replace(self, module=True)
        return replace(self, model=draft, routing=Routing(), redundant=0)

    @cached_property
    def _made(self) -> dict[Packed, _Made]:
        return {}

    @property
    def stages(self) -> int:
        """Pipeline stages."""
        return self.mesh.size(("pp",))

    @property
    def widths(self) -> Mapping[str, float]:
        """Bytes per element by role."""
        return {**widths_of(self.formats), "dispatch": dispatch_width(self.formats, self.exchange)}

    def packed(self, packed: Packed) -> Packed:
        """The step with this replica's compression and sparsity."""
        return replace(packed, keep=Fraction(self.compression.keep).limit_denominator(10**6),
                       share=self.compression.share, density=density(self.formats))

    def pieces(self, step: Packed) -> ModelPieces:
        """The pieces of one step; each distinct one is made once. Raises InputError where a size does not divide."""
        return self._step(step).pieces

    def _step(self, step: Packed) -> _Made:
        if step not in self._made:
            options = self.options(self.packed(step))
            stack = stack_of(self._padded(), options)
            layout = layout_of(options, stack.sizes, stack.axes)
            cache = tuple(_own_cache(block, layout, self.widths) for block in stack.blocks)
            self._made[step] = _Made(lower_stack(stack, options), cache)
        return self._made[step]

    def lowered(self, step: Packed, forms: Forms) -> tuple[ModelPieces, Mapping[str, Size]]:
        """What `pieces` gives, for many steps, which have `forms` in common; sizes of its dims before any rank's
        share."""
        options = self.options(self.packed(step))
        stack = stack_of(self._padded(), options)
        return lower_stack(stack, options, forms), stack.sizes

    def sizes(self, step: Packed) -> Mapping[str, Size]:
        """Sizes of the dims of one step, before any rank's share."""
        return self._padded().sizes(self.options(self.packed(step)))

    def cache_bytes(self, stage: int, step: Packed) -> float:
        """Bytes of keys and values on a rank of a stage after a step of one micro-batch."""
        made = self._step(step)
        return sum(made.cache[block] for block in self.blocks_of(stage, made.pieces))

    def cache_of_layers(self, step: Packed, stage: int | None = None) -> tuple[float, ...]:
        """Bytes of the same, layer by layer; None: of all stages."""
        made = self._step(step)
        blocks = made.pieces.layers if stage is None else self.blocks_of(stage, made.pieces)
        return tuple(made.cache[block] for block in blocks if block in made.pieces.layers)

    def working(self, stage: int, step: Packed) -> float:
        """Most bytes that a block of the stage needs besides, and what goes on to the next one."""
        blocks = self._step(step).pieces.blocks
        return max(blocks[each].working + blocks[each].output for each in self.blocks_of(stage, self.pieces(step)))

    def weight_bytes(self, stage: int) -> float:
        """Bytes of weights on a rank of a stage; a tied embedding counts once where both its uses are there."""
        pieces = self.pieces(Packed((Sequences(self.mesh.size(("sp", "cp")), 1, 1),)))
        elements, tied = dict[str, float](), set[str]()
        for number in self.blocks_of(stage, pieces):
            for weight in pieces.blocks[number].weights:
                if weight.name not in tied:
                    elements[weight.role] = elements.get(weight.role, 0.0) + weight.elements
                tied |= {weight.name} & pieces.tied
        return sum(size * self.widths.get(role, self.widths["weights"]) for role, size in elements.items())

    def options(self, step: Packed) -> Options:
        """The parallelisation as the graph wants it; every data-parallel replica runs the same step."""
        degrees = {axis: self.mesh.size((axis,)) for axis in AXES}
        return Options(degrees=degrees, batch=self.mesh.size(("dp",)), seq=step.tokens, attention=self.attention,
                       mask=self.mask, fuse=bool(self.fusion), backward=False, uneven=self.uneven, packed=step,
                       engine=isinstance(self.fusion, str), reduced=self.fusion == "engine_norms",
                       widths=self.widths, numbers=numbers_of(self.formats),
                       exchange=self.exchange, routing=self.routing, redundant=self.redundant, module=self.module,
                       operators=self.operators, fused_qkv=self.fused_weights, fused_gate=self.fused_weights)

    def launches(self, stage: int, pieces: ModelPieces) -> int:
        """Kernels and collectives that the host of a stage launches in one pass."""
        steps = (step for block in self.blocks_of(stage, pieces) for step in pieces.blocks[block].forward.steps)
        return sum(step.kernel.launches if step.kernel else 1 for step in steps
                   if step.kind in (NodeKind.COMP, NodeKind.COMM_COLL))

    def blocks_of(self, stage: int, pieces: ModelPieces) -> tuple[int, ...]:
        """Blocks of a stage, in order: indexes into `pieces.blocks`."""
        counts = self.layers_of(len(pieces.layers))
        start = sum(counts[:stage])
        layers = pieces.layers[start:start + counts[stage]]
        return (*(pieces.first if stage == 0 else ()), *layers, *(pieces.last if stage == self.stages - 1 else ()))

    def layers_of(self, layers: int) -> tuple[int, ...]:
        """Layers of every stage."""
        return self.stage_layers or even_layers(layers, self.stages)

    def _padded(self) -> Model:
        """The model with a vocabulary that tp divides."""
        vocab, tp = getattr(self.model, "vocab", None), self.mesh.size(("tp",))
        if not isinstance(vocab, int) or vocab % tp == 0 or self.uneven != "refuse":
            return self.model
        return config.replace(self.model, "vocab", -(-vocab // tp) * tp)


def even_layers(layers: int, stages: int) -> tuple[int, ...]:
    """Equal numbers; what is left over goes to the second stage, the third, ..., the first, the last."""
    if stages > layers:
        raise InputError("workload.pp", f"{stages} stages of {layers} layers", expected=f"at most {layers}")
    order = [*range(1, stages - 1), 0, stages - 1]
    extra = order[:layers % stages]
    return tuple(layers // stages + (stage in extra) for stage in range(stages))
