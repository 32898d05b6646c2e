"""The memory that a row states: the most of a step, or what the stack's log means by it.

nanotron's table prints `max_memory_allocated` since its counters were reset, which it does behind the last micro-batch
(`log_memory` in `src/nanotron/logging/base.py`, called by `trainer.py`): what a rank holds for good, and the copies of
the weights that the gather of ZeRO makes (`all_gather_coalesced`: all of them, and this rank's share), and under tensor
parallelism two buffers of a whole micro-batch's activations that are kept for the next one (`MemoryBuffer` in
`parallel/utils.py`: gathered inputs, and gathered gradients).
"""

from __future__ import annotations

from collections.abc import Iterator

from astrarium import catalog
from astrarium.workload.assemble.holdings import holdings
from astrarium.workload.assemble.stages import parts_of, places
from astrarium.workload.footprint import training_footprint
from astrarium.workload.precision import BYTES
from astrarium.workload.training import recipe_of
from astrarium.workload.transformer import Transformer

__all__ = ["stated_bytes"]


def stated_bytes(work: Transformer, stack: str) -> float:
    """Bytes of the stage that holds most, as a row of this stack counts them."""
    if catalog.load("stacks").get(stack, {}).get("memory") == "optimizer step":
        return max(_at_the_step(work))
    return max(stage.total for stage in training_footprint(work))


def _at_the_step(work: Transformer) -> Iterator[float]:
    recipe = recipe_of(work)
    where, buffers = places(recipe), 0.0
    if work.tp > 1:
        wide = float(getattr(work.model, "d_model", 0))
        buffers = 2 * (work.micro_batch or 1) * (work.seq or 0) * wide * BYTES[work.precision.activations]
    for stage in range(recipe.stages):
        owned = holdings(recipe, parts_of(recipe, where, stage))
        copies = owned.elements + owned.own if recipe.zero and owned.own < owned.elements else 0.0
        yield owned.weights + owned.gradients + owned.states + copies * recipe.sizes.weights + buffers
