"""What a stage holds from the start to the end of an iteration, and what its optimizer step costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct

from astrarium.workload.assemble.recipe import Recipe
from astrarium.workload.assemble.units import StageChunk
from astrarium.workload.pieces import Weight

__all__ = ["Holdings", "holdings"]


class Holdings(Struct, frozen=True):
    """Bytes of one rank in its local memory; `elements` are parameters before ZeRO, `own` those whose optimizer states
    are this rank's.

    `buckets`: buffers that are there besides. `away`: what other memories hold instead, by the name of the
    tier ("": remote memory). `fetched`: what the optimizer's step has in the local memory for a while at most, by kind;
    it works in `pieces`, of which `buffers` are there at once. `checkpoint`: this rank's share of weights and states,
    each of which is stored once by all that hold it together.
    """

    elements: float
    own: float
    weights: float
    gradients: float
    states: float
    buckets: float
    checkpoint: float
    away: Mapping[str, float]
    fetched: Mapping[str, float]
    pieces: int
    buffers: int


def holdings(recipe: Recipe, parts: Sequence[StageChunk]) -> Holdings:
    """Holdings of a stage with these parts (Rajbhandari et al., arXiv 1910.02054, section 5: what each ZeRO stage
    divides)."""
    elements = own = weights = gradients = once = spread = whole = 0.0
    for block, times in Counter(block for part in parts for block in part.blocks).items():
        for size, shards, replicas in recipe.totals(block).portions:
            each = size * times
            elements += each
            spread += each if shards > 1 else 0.0
            once += each / replicas
            own += each / (shards if recipe.zero >= 1 else 1)
            gradients += each / (shards if recipe.zero >= 2 else 1)
            weights += each / (shards if recipe.zero >= 3 else 1)
            whole += each if shards > 1 and recipe.kept_whole(block) else 0.0
    sizes, states = recipe.sizes, own * recipe.sizes.states
    besides = spread if recipe.weight_gradients == "beside" else _placeholders(recipe, parts)
    placed, away = recipe.placed, dict[str, float]()
    unreduced = elements * sizes.sent if recipe.zero >= 2 and recipe.flat.whole else 0.0
    stored = sizes.shards if recipe.zero >= 3 else sizes.weights
    kept = {"weights": weights * stored, "gradients": gradients * sizes.gradients, "states": states}
    for kind, tier in zip(kept, (placed.parameters, placed.gradients, placed.states), strict=True):
        if tier is not None:
            away[tier] = away.get(tier, 0.0) + kept[kind]
            kept[kind] = 0.0
    streamed = not placed.step and any(away)
    pieces, buffers = sum(len(part.blocks) for part in parts) if streamed else 1, placed.prefetch + 2
    return Holdings(elements, own, kept["weights"] + whole * sizes.weights,
                    kept["gradients"] + unreduced + besides * sizes.weights, kept["states"],
                    _buckets(recipe, parts, spread), once * (stored + sizes.states), away,
                    _fetched(recipe, own * min(1.0, buffers / pieces)), pieces, buffers)


def _buckets(recipe: Recipe, parts: Sequence[StageChunk], spread: float) -> float:
    """Bytes of the buffers of collectives that are there all the time; `spread` elements are reduced."""
    flat = recipe.flat
    if flat.pools and flat.gather and recipe.zero >= 3:
        return recipe.sizes.weights * _gathered(recipe, parts)
    if flat.reduce == "buckets":
        return spread * recipe.sizes.sent
    return min(flat.count * recipe.bucket, spread * recipe.sizes.sent) if flat.reduce == "fixed" else 0.0


def _gathered(recipe: Recipe, parts: Sequence[StageChunk]) -> float:
    """Elements of the buffers of two gathers in flight: of the largest group, and of the largest block besides."""
    kinds = [block for part in parts for block in part.blocks]
    whole = sum(recipe.totals(kind).sharded for kind in kinds if recipe.kept_whole(kind))
    others = sorted([recipe.totals(kind).sharded for kind in kinds if not recipe.kept_whole(kind)], reverse=True)
    return sum(sorted([whole, *others[:2]], reverse=True)[:2])


def _fetched(recipe: Recipe, own: float) -> Mapping[str, float]:
    """What comes to the local memory of `own` elements in the optimizer's step: what the NPU steps, or passes on to
    another tier."""
    placed, sizes = recipe.placed, recipe.sizes
    found = dict[str, float]()
    if not placed.step and (placed.states is not None or sizes.step_held):
        found["states"] = own * ((sizes.states if placed.states is not None else 0.0) + sizes.step_held)
    if placed.gradients is not None and not (placed.step and placed.gradients == placed.states):
        found["gradients"] = own * sizes.gradients
    if placed.parameters is not None and not (placed.step and placed.parameters == placed.states):
        found["weights"] = own * sizes.weights
    return found


def _placeholders(recipe: Recipe, parts: Sequence[StageChunk]) -> float:
    """Elements of one tensor for every shape of a layer's matrices: what autograd is given for a gradient that the
    product has already added to the gradients of the step. Matrices whose gradients one product makes are one
    tensor."""
    if recipe.weight_gradients != "placeholders":
        return 0.0
    shapes = dict[tuple[tuple[str, float], ...], float]()
    for block in {block for part in parts for block in part.blocks} & recipe.inner:
        products = dict[int, list[Weight]]()
        for weight in recipe.kinds[block].weights:
            products.setdefault(weight.product, []).append(weight)
        products.pop(-1, None)
        for made in products.values():
            shapes[tuple((weight.name, weight.matrix) for weight in made)] = sum(weight.matrix for weight in made)
    return sum(shapes.values())
