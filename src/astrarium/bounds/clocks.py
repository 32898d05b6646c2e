"""The highest clocks at which stages can run where clocks follow from what ranks run (`compute.clock: sustained`).

The power of a rank that runs more kernels is at any clock no less than that of its blocks' kernels alone over the time
of all of them. So the clock of blocks beside at least as many ns of other kernels that draw nothing (`Mix.highest`) is
an upper bound of its clock. These others are the norm of its gradients and the step of its optimizer, which move bytes,
at any clock in the same time. From PROBE on they take ever less time a byte, so b bytes take at most (1 + b / PROBE)
times what PROBE bytes take.

A kernel, a chain of them, and the larger of two times never get shorter as clocks fall, nor do they grow by more than
in proportion to 1 / clock. So with f at the clock of the whole model, f x min(1, clock of the whole model / clock of a
stage) is a lower bound of its time on that stage.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from astrarium.arrays import F64
from astrarium.bounds.nodes import Nodes
from astrarium.bounds.sums import sums
from astrarium.compute.config import Compute
from astrarium.memory.config import Memory
from astrarium.vocab import NodeKind
from astrarium.workload.assemble.recipe import LOCAL, USUAL_AXES, Recipe
from astrarium.workload.assemble.step import STEP
from astrarium.workload.pieces import Step

if TYPE_CHECKING:
    from astrarium.compute.kernels.power import Mix

__all__ = ["PROBE", "Clocks", "clocks_of"]

PROBE = Step("probe", NodeKind.COMP, bytes=2.0**26, kernel=STEP)
KERNELS = 3         # of an optimizer: norm, scale, step


class Clocks(Struct, frozen=True, eq=False):
    """`mix`: sums over the blocks in front of each, [4, blocks + 1], for one micro-batch; `slower`: 1 / clock of the
    whole model, as kernels see it; ns of an optimizer at most: `fixed`, and `element` of each that it steps."""

    mix: Mix
    slower: float
    fixed: float
    element: float

    def highest(self, at: npt.NDArray[np.int64], stages: int) -> tuple[F64, F64]:
        """Highest values of stages whose parts begin at these blocks: see `Mix.highest`."""
        parts = np.diff(self.mix.sets[:, at])
        return replace(self.mix, sets=parts.reshape(4, -1, stages).sum(axis=1)).highest()

    def scale(self, share: F64, room: F64, own: F64, batches: int) -> F64:
        """[stages] factor on times, with optimizers that step `own` elements after `batches` micro-batches."""
        other = (self.fixed + self.element * own) / batches
        share = np.minimum(1.0, share * (1 + other / np.maximum(room - other, 1e-9)))
        return np.minimum(1.0, _slower(share) / self.slower)


def _slower(share: F64) -> F64:
    from astrarium.compute.kernels.power import FOLLOWS

    return 1 + FOLLOWS * (1 / share - 1)


def clocks_of(recipe: Recipe, compute: Compute, memory: Memory, nodes: Nodes, ends: Sequence[int]) -> Clocks | None:
    """Clocks of a recipe whose kinds' steps end at `ends` of the nodes, with PROBE behind them. None: clocks are given,
    or follow from a host's time, copies for collectives, other memories, or a part of ZeRO's axes, too."""
    if (not compute.sustained or recipe.launch or recipe.flat.gather or recipe.flat.reduce != "in_place"
            or recipe.placed != LOCAL or recipe.zero_axes != USUAL_AXES or any(step.host for step in nodes.steps)):
        return None
    mix = nodes.mix(compute, memory)
    if mix is None:
        return None
    kinds = np.diff(sums(mix.sets)[:, [0, *ends]])
    blocks = replace(mix, sets=sums(kinds[:, [block for part in recipe.parts for block in part]]))
    share, _ = replace(mix, sets=blocks.sets[:, -1:]).highest()
    moved = recipe.sizes.step_bytes + KERNELS * recipe.sizes.gradients      # the norm reads, scaling writes, too
    took = float(mix.sets[2, -1])
    return Clocks(blocks, float(_slower(share)[0]), KERNELS * took, moved / PROBE.bytes * took)
