"""A model's blocks under a parallelisation: `lower_stack` is the door.

`ir` blocks and operators, `layout` which axes shard which dim, `infer` collectives from placements, `ops` costs and
gradients, `side` and `lower` a block's steps, `forms` what layouts have in common, `options` what a parallelisation
says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from astrarium.workload.graph.forms import Forms
from astrarium.workload.graph.ir import Block
from astrarium.workload.graph.layout import Size
from astrarium.workload.graph.lower import lower_block
from astrarium.workload.graph.options import Options, layout_of
from astrarium.workload.pieces import BlockPieces

__all__ = ["Forms", "ModelPieces", "Options", "Stack", "lower_stack"]

LOGITS = "logits"       # what every language head calls them


class Stack(Struct, frozen=True):
    """A model as blocks. `first`, `layers` and `last` hold indexes of `blocks` in the order in which they run; layers
    are what pipeline stages divide. `sizes` of the dims that the blocks name (batch and seq come from the options),
    `axes` of dims that the usual table lacks. `tied`: weights that stand in `first` and `last` but are one.
    """

    blocks: tuple[Block, ...]
    first: tuple[int, ...]
    layers: tuple[int, ...]
    last: tuple[int, ...]
    sizes: Mapping[str, Size]
    axes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    tied: frozenset[str] = frozenset()


class ModelPieces(Struct, frozen=True):
    """The pieces of a stack's blocks on one rank; the rest as in Stack."""

    blocks: tuple[BlockPieces, ...]
    first: tuple[int, ...]
    layers: tuple[int, ...]
    last: tuple[int, ...]
    tied: frozenset[str]


def lower_stack(stack: Stack, options: Options, forms: Forms | None = None) -> ModelPieces:
    """Every block of a stack for one micro-batch; `forms` keeps what it has in common with others. Raises InputError
    where a size does not divide (`uneven: refuse`)."""
    layout, made = layout_of(options, stack.sizes, stack.axes), lower_block if forms is None else forms.pieces
    blocks = tuple(made(block, layout, recompute=options.recompute if number in stack.layers else "none",
                        modules=options.modules, fuse=options.fusion, widths=options.widths, backward=options.backward,
                        numbers=options.numbers, temporary=_temporary(options.weight_gradients, number in stack.layers))
                   for number, block in enumerate(_losses(stack.blocks, options)))
    return ModelPieces(blocks, stack.first, stack.layers, stack.last, stack.tied)


def _temporary(gradients: str, layer: bool) -> bool:
    """Whether the gradient of a block's weight is a tensor of its own before it is added to that of the step."""
    return gradients == "temporary" or (gradients == "placeholders" and not layer)


def _losses(blocks: Sequence[Block], options: Options) -> Sequence[Block]:
    """The blocks, with logits in the format of activations where the loss is not a plain one; a fused one puts their
    gradient in their place."""
    if options.cross_entropy == "plain":
        return blocks
    reused = frozenset({LOGITS} if options.cross_entropy == "fused" else ())
    return [replace(block, widths={name: role for name, role in block.widths.items() if name != LOGITS},
                    reused=reused) if LOGITS in block.widths else block for block in blocks]
