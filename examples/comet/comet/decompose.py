"""What one node does per layer and phase: products, FLOPs, bytes, and the collectives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from msgspec import Struct

from astrarium import NodeKind, Transformer
from astrarium.workload.pieces import BlockPieces, Step
from astrarium.workload.training import recipe_of

__all__ = ["PHASES", "LayerPhase", "decompose", "phases_of_block"]

PHASES = ("forward", "recomputation", "input gradient", "weight gradient", "update")
FORWARD, RECOMPUTATION, INPUT, WEIGHT, UPDATE = PHASES
AGAIN = "again."            # how steps of backward are called that are forward's again


class LayerPhase(Struct, frozen=True):
    """One phase of one kind of layer, for one micro-batch on one node.

    `layers`: how many layers of the model are of this kind. `products`: (batch, m, n, k) of matrix products; `flops`
    and `bytes` (each operand once) of all compute; `collectives`: (operation, bytes as traces count them, axes).
    Gradients of weights are summed over data parallelism by the schedule, not here.
    """

    layer: str
    layers: int
    phase: str
    products: tuple[tuple[float, ...], ...]
    flops: float
    bytes: float
    collectives: tuple[tuple[str, float, tuple[str, ...]], ...]


def phases_of_block(block: BlockPieces) -> Mapping[str, str]:
    """Step of the block's backward pass -> its phase. A collective that forward has, too, is computed again."""
    before = {step.name for step in block.forward.steps}
    return {step.name: _phase(step, before) for step in block.backward.steps}


def _phase(step: Step, before: set[str]) -> str:
    if step.name in before or step.name.startswith(AGAIN):
        return RECOMPUTATION
    return WEIGHT if step.weight else INPUT


def decompose(workload: Transformer) -> tuple[LayerPhase, ...]:
    """Every kind of layer and phase, in the order of the model; phases without work are left out."""
    recipe = recipe_of(workload)
    count = Counter(block for part in recipe.parts for block in part)
    return tuple([row for number, many in count.items() for row in _rows(recipe.kinds[number], many)])


def _rows(block: BlockPieces, layers: int) -> Iterator[LayerPhase]:
    phases = phases_of_block(block)
    steps = [(FORWARD, step) for step in block.forward.steps]
    steps += [(phases[step.name], step) for step in block.backward.steps]
    for phase in PHASES:
        own = [step for each, step in steps if each == phase]
        if not own:
            continue
        products = tuple([tuple(map(float, step.kernel.shape)) for step in own
                          if step.kernel is not None and step.kernel.kind in ("gemm", "grouped_gemm")])
        computed = [step for step in own if step.kind == NodeKind.COMP]
        moved = tuple([(step.op.name.lower(), float(step.bytes), step.axes) for step in own if step.op is not None])
        yield LayerPhase(block.name, layers, phase, products, float(sum(step.flops for step in computed)),
                         float(sum(step.bytes for step in computed)), moved)
