"""FLOPs of a training step: those that the model needs, and those that its ranks execute.

Model FLOPs are the products of one forward and one backward pass: of weights with activations, twice that in
backward, and attention's two products with twice that in backward; every score counts, whether a causal mask hides it
or not. Recomputation does not count, nor do padded vocabularies, imbalance of experts, or what is no product
(Chowdhery et al., PaLM, arXiv 2204.02311, appendix B; Korthikanti et al., arXiv 2205.05198, appendix A). Executed
FLOPs are all products of all ranks: with recomputation, with the scores that flash attention computes again, without
those that `mask: skip` leaves out.
"""

from __future__ import annotations

import functools

from astrarium.workload.graph import Options
from astrarium.workload.model.base import Model
from astrarium.workload.model.stacks import model_pieces
from astrarium.workload.pieces import BlockPieces
from astrarium.workload.training import recipe_of, sequence_of
from astrarium.workload.transformer import Transformer

__all__ = ["executed_flops", "model_flops"]


def model_flops(workload: Transformer) -> float:
    """What one step needs, over all ranks."""
    return workload.global_batch * _of_a_sample(workload.model, sequence_of(workload))


@functools.lru_cache(maxsize=256)
def _of_a_sample(model: Model, seq: int) -> float:
    options = Options({}, 1, seq, attention="unfused", fuse=False, uneven="fractional", padded=False)
    pieces = model_pieces(model, options)
    return sum(_products(pieces.blocks[number]) for number in (*pieces.first, *pieces.layers, *pieces.last))


def executed_flops(workload: Transformer) -> float:
    """What all ranks execute in one step."""
    recipe = recipe_of(workload)
    once = sum(_products(recipe.kinds[block]) for part in recipe.parts for block in part)
    return once * workload.micro_batches * workload.ranks / workload.pp


def _products(block: BlockPieces) -> float:
    """FLOPs of GEMM class of both passes."""
    return sum(step.gemm for piece in (block.forward, block.backward) for step in piece.steps)
