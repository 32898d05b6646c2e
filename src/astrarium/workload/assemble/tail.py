"""The end of an iteration: what is left to reduce, the norm, the optimizer's step, and the new weights."""

from __future__ import annotations

from collections.abc import Sequence

from astrarium.vocab import CommOp, NodeKind
from astrarium.workload.assemble.builder import Builder, Template
from astrarium.workload.assemble.holdings import Holdings, holdings
from astrarium.workload.assemble.pool import Pool
from astrarium.workload.assemble.recipe import Recipe
from astrarium.workload.assemble.sharding import Pending, copied, reduction
from astrarium.workload.assemble.stages import Places
from astrarium.workload.assemble.step import STEP, step
from astrarium.workload.assemble.units import StageChunk

__all__ = ["NORM_BYTES", "tail"]

NORM_BYTES = 4       # one fp32 number: the sum of squares of a rank's gradients


def tail(recipe: Recipe, pool: Pool, where: Places, stage: int, parts: Sequence[StageChunk], start: int,
         ready: Sequence[int]) -> Template:
    """Nodes from number `start` on; after `ready` all gradients of weights are there, or reduced."""
    build = Builder(start)
    done = _reduced(recipe, pool, build, parts, list(ready))
    done = _copies(recipe, pool, build, where, stage, done)
    done = _tied(recipe, pool, build, where, stage, done)
    owned = holdings(recipe, parts)
    if recipe.flat.reduce == "buckets" and owned.buckets and recipe.zero < 3:
        elements = owned.buckets / recipe.sizes.sent
        done = [build.node(copied(pool, "gradients.copy", owned.buckets, elements * recipe.sizes.gradients), done)]
    done = _norm(recipe, pool, build, owned, done)
    done = step(recipe, pool, build, owned, done)
    stepped = done
    if recipe.zero in (1, 2):
        done = _updated(recipe, pool, build, parts, done)
    if recipe.checkpoint:
        build.node(pool.memory("checkpoint.store", NodeKind.MEM_STORE, owned.checkpoint), stepped)
    if recipe.launch > 0:
        build.node(pool.host("host.launches", recipe.launch * _launches(recipe, parts)), ())
    return build.template(done[-1])


def _launches(recipe: Recipe, parts: Sequence[StageChunk]) -> int:
    """Kernels that a rank of a stage launches in the passes of an iteration."""
    blocks = [recipe.kinds[block] for part in parts for block in part.blocks]
    steps = [step for block in blocks for piece in (block.forward, block.backward) for step in piece.steps]
    return recipe.batches * sum(step.kernel.launches for step in steps if step.kernel is not None and not step.host)


def _reduced(recipe: Recipe, pool: Pool, build: Builder, parts: Sequence[StageChunk], ready: list[int]) -> list[int]:
    """Everything that was not reduced as it came."""
    if recipe.reduces_each or recipe.overlap or recipe.placed.gradients is not None:
        return ready
    pending = Pending(recipe, pool, build)
    for block in (block for part in parts for block in part.blocks):
        pending.add(block, ready)
    return sorted({*pending.flush(everything=True), *ready})


def _copies(recipe: Recipe, pool: Pool, build: Builder, where: Places, stage: int, ready: list[int]) -> list[int]:
    """DualPipe: the gradients of both copies of each part, part after part: both stages agree on the order."""
    if recipe.schedule.copies == 1:
        return ready
    last: int | None = None
    for number in sorted(where.part[stage].tolist()):
        own = sum(w.elements / (recipe.shards(w) if recipe.zero else 1)
                  for block in recipe.parts[number] for w in recipe.kinds[block].weights)
        last = reduction(recipe, pool, build, (), own, ready, last, among="mirror")
    return ready if last is None else [last]


def _tied(recipe: Recipe, pool: Pool, build: Builder, where: Places, stage: int, ready: list[int]) -> list[int]:
    """The gradient of the embedding that the first and the last stage share (arXiv 1909.08053; Megatron-LM)."""
    ends = {int((where.part == number).argmax()) // where.part.shape[1] for number in (0, len(recipe.parts) - 1)}
    if not recipe.tied or recipe.schedule.copies > 1 or stage not in ends or len(ends) == 1:
        return ready
    own = sum(w.elements / (recipe.shards(w) if recipe.zero else 1)
              for block in set(recipe.parts[0]) for w in recipe.kinds[block].weights if w.name in recipe.tied)
    last = reduction(recipe, pool, build, (), own, ready, None, among="ends")
    return ready if last is None else [last]


def _norm(recipe: Recipe, pool: Pool, build: Builder, owned: Holdings, ready: list[int]) -> list[int]:
    """Square and add all gradients (2 FLOPs each), and sum up over the ranks that hold different ones: first over the
    replicas that ZeRO shards over, then over the parts of the model, as DeepSpeed (`get_grad_norm_direct`) and
    torchtitan (`clip_grad_norm_`) do. So no collective joins replicas of several stages, which come at different
    times."""
    if not recipe.clip:
        return ready
    size = owned.own * recipe.sizes.gradients
    node = build.node(pool.compute("gradients.norm", 2 * owned.own, size, STEP), ready)
    replicas = recipe.mesh.real(("cp", "sp", "dp") if recipe.zero else ("ep",))
    for axes in filter(None, (replicas, recipe.mesh.real(("tp", "pp")))):
        node = build.node(pool.collective("gradients.norm.all_reduce", CommOp.ALL_REDUCE, NORM_BYTES, axes), [node])
    if recipe.scales:
        node = build.node(pool.compute("gradients.scale", owned.own, 2 * size, STEP), [node])
    return [node]


def _updated(recipe: Recipe, pool: Pool, build: Builder, parts: Sequence[StageChunk], ready: list[int]) -> list[int]:
    """ZeRO 1 and 2: every rank gets the weights that the others have stepped, as many collectives as for gradients."""
    total: dict[tuple[str, ...], float] = {}
    for block in (block for part in parts for block in part.blocks):
        for axes, elements in recipe.totals(block).summed.items():
            shard = tuple(axis for axis in axes if axis in recipe.mesh.real(recipe.zero_axes))
            if shard:
                total[shard] = total.get(shard, 0.0) + elements * recipe.sizes.weights
    for shard, size in total.items():
        pieces = max(1, int(size // recipe.bucket)) if recipe.bucket > 0 else 1
        row = pool.collective("weights.all_gather", CommOp.ALL_GATHER, size / pieces / recipe.mesh.size(shard), shard,
                              stream="weights")
        ready = [build.chain([row] * pieces, ready)]
    return ready
