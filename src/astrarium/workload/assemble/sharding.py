"""ZeRO and gradient reduction: which collectives, over which axes, of how many bytes.

Rajbhandari et al., ZeRO (arXiv 1910.02054): stage 1 shards the optimizer's states, 2 the gradients too, 3 the weights
too. Here stages 0 and 1 reduce gradients once per iteration, after the last micro-batch; stages 2 and 3 after every
micro-batch, since a rank does not keep gradients that are not its own (DeepSpeed; PyTorch FSDP with gradient
synchronisation on). Where only some of a weight's replica axes are in `zero_axes` (hybrid sharding), the shards are
then reduced over the others.

Where weights and gradients are in a remote memory that gathers and sums (`Recipe.gathers`), loads and stores of the
memory take the place of these collectives.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct, field

from astrarium.errors import InputError
from astrarium.vocab import CommOp, NodeKind
from astrarium.workload.assemble.builder import Builder
from astrarium.workload.assemble.pool import Pool
from astrarium.workload.assemble.recipe import Recipe
from astrarium.workload.pieces import Sketch

__all__ = ["Pending", "copied", "gathers", "loads", "reduction"]

Axes = tuple[str, ...]
MOST_BUCKETS = 1 << 20


def reduction(recipe: Recipe, pool: Pool, build: Builder, axes: Axes, elements: float, after: Iterable[int],
              last: int | None, among: str = "") -> int | None:
    """Adds the collectives that sum up gradients; each after the one before (`last`); returns the last one."""
    shard, rest = recipe.split(axes)
    size = elements * recipe.sizes.sent
    if size <= 0 or not (axes or among):
        return last
    pieces = max(1, int(size // recipe.bucket)) if recipe.bucket > 0 else 1
    if pieces > MOST_BUCKETS:
        raise InputError("workload.bucket", f"makes {pieces:,} collectives of {size:.3g} bytes of gradients",
                         expected=f"at most {MOST_BUCKETS:,}: a larger bucket, or a smaller model")
    rows, part = list[int](), size / pieces
    if shard:
        rows.append(pool.collective("gradients.reduce_scatter", CommOp.REDUCE_SCATTER, part, shard, stream="gradients"))
        part /= recipe.mesh.size(shard)
    if rest or among or not shard:
        rows.append(pool.collective("gradients.all_reduce", CommOp.ALL_REDUCE, part, rest, among=among,
                                    stream="gradients"))
    return build.chain(rows * pieces, (*after, *(() if last is None else (last,))))


def copied(pool: Pool, name: str, read: float, written: float) -> int:
    """Row number of a kernel that copies tensors into a buffer, or out of it: these many bytes, wider ones written than
    read where it casts."""
    op = "to_fp32" if written > read else "cat"
    return pool.compute(name, 0.0, read + written, Sketch("pointwise", "bf16", op=op))


def loads(recipe: Recipe, pool: Pool, kind: int) -> list[int]:
    """Row numbers of the loads of a kind of block whose weights the remote memory gathers."""
    return [pool.memory("weights.load", NodeKind.MEM_LOAD, elements * recipe.sizes.weights, "",
                        recipe.mesh.size(recipe.split(axes)[0]))
            for axes, elements in recipe.totals(kind).summed.items()]


def gathers(recipe: Recipe, pool: Pool, kind: int) -> list[int]:
    """Row numbers of the all_gathers that bring the weights of a kind of block together (ZeRO 3)."""
    found = []
    for axes, elements in recipe.totals(kind).summed.items():
        shard, _ = recipe.split(axes)
        if shard:
            size = elements * recipe.sizes.weights / recipe.mesh.size(shard)
            found.append(pool.collective("weights.all_gather", CommOp.ALL_GATHER, size, shard, priority=1,
                                         stream="weights"))
    return found


class Pending(Struct):
    """Gradients that are there and not yet reduced, by axes: elements, and the nodes that make them."""

    recipe: Recipe
    pool: Pool
    build: Builder
    last: int | None = None
    waiting: dict[Axes, tuple[float, list[int]]] = field(default_factory=dict)

    def add(self, kind: int, nodes: Sequence[int]) -> None:
        """The gradients of a kind of block are ready after `nodes`."""
        for axes, elements in self.recipe.totals(kind).summed.items():
            before, known = self.waiting.get(axes, (0.0, []))
            self.waiting[axes] = before + elements, known + list(nodes)

    def behind(self, node: int) -> None:
        """What is not yet reduced waits for a node, too."""
        self.waiting = {axes: (elements, nodes if node in nodes else [*nodes, node])
                        for axes, (elements, nodes) in self.waiting.items()}

    def flush(self, *, everything: bool = False) -> list[int]:
        """Reduces what fills a bucket, or everything; returns the last collective of each set of axes, or what stores
        the gradients elsewhere."""
        done = []
        for axes, (elements, nodes) in list(self.waiting.items()):
            if not everything and elements * self.recipe.sizes.sent < self.recipe.bucket:
                continue
            del self.waiting[axes]
            found = nodes
            if axes and not self.recipe.gathers:
                self.last = reduction(self.recipe, self.pool, self.build, axes, elements, nodes, self.last)
                found = [self.last] if self.last is not None and self.last >= 0 else nodes
            done += self._stored(axes, elements, found)
        return done

    def _stored(self, axes: Axes, elements: float, nodes: list[int]) -> list[int]:
        """The node that stores reduced gradients in the memory that holds them, where that is not the NPU's own."""
        recipe = self.recipe
        ranks = recipe.mesh.size(recipe.split(axes)[0])
        size = elements / (1 if recipe.gathers else ranks) * recipe.sizes.gradients
        if recipe.placed.gradients is None or size <= 0:
            return nodes
        row = self.pool.memory("gradients.store", NodeKind.MEM_STORE, size, recipe.placed.gradients,
                               ranks if recipe.gathers else 1)
        return [self.build.node(row, nodes)]
