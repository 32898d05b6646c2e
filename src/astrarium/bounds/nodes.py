"""Steps of a model's pieces as the nodes that a compute model times."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from astrarium.arrays import F64
from astrarium.compute.config import Compute
from astrarium.lower.compute_nodes import compute_nodes
from astrarium.lower.nodes import program_of
from astrarium.memory.config import Memory
from astrarium.trace.work import TraceClass
from astrarium.vocab import NodeKind
from astrarium.workload.assemble.pool import Pool
from astrarium.workload.mesh import Mesh
from astrarium.workload.pieces import Step

if TYPE_CHECKING:
    from astrarium.compute.kernels.power import Mix

__all__ = ["Nodes"]


class Nodes:
    """Steps, of which those that compute take time."""

    def __init__(self, mesh: Mesh, steps: Sequence[Step]) -> None:
        self.steps, self._mesh = steps, mesh
        self._compute = [place for place, step in enumerate(steps) if step.kind == NodeKind.COMP]

    @cached_property
    def _trace(self) -> TraceClass:
        pool, size = Pool(self._mesh), len(self._compute)
        rows = np.array([pool.step(self.steps[place]) for place in self._compute])
        columns = {name: values[rows] for name, values in pool.columns().items()}
        return TraceClass(
            ranks=np.zeros(1, np.int32), node_id=np.arange(1, size + 1, dtype=np.uint64), type=columns["type"],
            is_cpu=columns["duration_us"] > 0, duration_us=columns["duration_us"], num_ops=columns["num_ops"],
            tensor_size=columns["tensor_size"], comm_type=columns["comm_type"], comm_size=columns["comm_size"],
            involved=np.full(size, -1, np.int32), priority=columns["priority"],
            parent_ptr=np.zeros(size + 1, np.int64), parent=np.zeros(0, np.int32), slot_a=np.zeros((1, 0), np.int32),
            slot_b=np.zeros((1, 0), np.int32), kernel=columns["kernel"], kernels=tuple(pool.kernels))

    def durations(self, compute: Compute, memory: Memory, clock: float) -> F64:
        """ns that each step takes by a compute model, 0 for those that do not compute. `clock`: where clocks follow
        from what runs."""
        found = np.zeros(len(self.steps))
        if self._compute:
            found[self._compute] = program_of(self._trace, compute.at(clock), memory).duration / 1000.0
        return found

    def mix(self, compute: Compute, memory: Memory) -> Mix | None:
        """What each step loads the chip with; None: no clock follows from that."""
        found = compute.mix(compute_nodes(self._trace, np.arange(len(self._compute)), memory, 0))
        if found is None:
            return None
        sets = np.zeros((4, len(self.steps)))
        sets[:, self._compute] = found.sets
        return replace(found, sets=sets)
