"""A model's blocks under a parallelisation: `lower_stack` is the door.

`ir` blocks and operators, `layout` which axes shard which dim, `infer` collectives from placements, `ops` costs and
gradients, `side` and `lower` a block's steps, `forms` what layouts have in common, `options` what a parallelisation
says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from astrarium.workload.graph.eager import halves, in_torch, joined_axes, joined_sizes
from astrarium.workload.graph.forms import Forms
from astrarium.workload.graph.ir import Block
from astrarium.workload.graph.layout import Size
from astrarium.workload.graph.lower import lower_block
from astrarium.workload.graph.options import Options, layout_of, usual_axes
from astrarium.workload.pieces import BlockPieces, Fusion

__all__ = ["Forms", "ModelPieces", "Options", "Stack", "lower_stack"]

LOGITS = "logits"       # what every language head calls them


class Stack(Struct, frozen=True):
    """A model as blocks. `first`, `layers` and `last` hold indexes of `blocks` in the order in which they run; layers
    are what pipeline stages divide. `sizes` of the dims that the blocks name (batch and seq come from the options),
    `axes` of dims that the usual table lacks. `tied`: weights that are in `first` and `last` but are one.
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
    stack, ends = _in_torch(stack, options)
    layout, made = layout_of(options, stack.sizes, stack.axes), lower_block if forms is None else forms.pieces
    blocks = tuple(made(block, layout, recompute=options.recompute if number in stack.layers else "none",
                        modules=options.modules, fuse=options.fusion if number in stack.layers else ends,
                        widths=options.widths, backward=options.backward, numbers=options.numbers,
                        gradients=_gradients(options.weight_gradients, number in stack.layers))
                   for number, block in enumerate(_losses(stack.blocks, options)))
    return ModelPieces(blocks, stack.first, stack.layers, stack.last, stack.tied)


def _in_torch(stack: Stack, options: Options) -> tuple[Stack, Fusion]:
    """The stack in operators of PyTorch where `operators` says so, and what shares a kernel in its ends."""
    if options.operators == "fused":
        return stack, options.fusion
    tied = stack.tied if options.degrees.get("pp", 1) == 1 else ()
    blocks = tuple(in_torch(block, options.form, compiled=options.operators == "compiled" and number in stack.layers,
                            fused_qkv=options.fused_qkv, fused_gate=options.fused_gate,
                            whole_loss=options.degrees.get("tp", 1) == 1, tied=tied if number in stack.first else ())
                   for number, block in enumerate(stack.blocks))
    sizes = {**stack.sizes, **halves(blocks, stack.sizes), **joined_sizes(blocks, stack.sizes)}
    axes = {**stack.axes, **joined_axes(usual_axes(options))}
    return replace(stack, blocks=blocks, sizes=sizes, axes=axes), options.fusion._replace(
        neighbours=False, operators="eager")


def _gradients(gradients: str, layer: bool) -> str:
    """What the gradient of a block's weight is: a tensor of its own before it is added to that of the step
    (`temporary`), that of the step itself, made here (`fresh`), or added by the product to what was there."""
    return "temporary" if gradients == "placeholders" and not layer else gradients


def _losses(blocks: Sequence[Block], options: Options) -> Sequence[Block]:
    """The blocks, with logits in the format of activations where the loss is not a plain one; a fused one puts their
    gradient in their place."""
    if options.cross_entropy == "plain":
        return blocks
    reused = frozenset({LOGITS} if options.cross_entropy == "fused" else ())
    return [replace(block, widths={name: role for name, role in block.widths.items() if name != LOGITS},
                    reused=reused) if LOGITS in block.widths else block for block in blocks]
