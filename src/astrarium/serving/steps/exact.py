"""Times of kernels and collectives, each alone, as a run of the design has them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
from msgspec import Struct, field

from astrarium.arrays import I64
from astrarium.compute.config import Compute, replays_all
from astrarium.design import Design, npu_types
from astrarium.engine.plugins.compute import ComputeNodes, durations_of
from astrarium.engine.plugins.kernels import tabled
from astrarium.lower.changes import changing
from astrarium.lower.compute_nodes import local_memory
from astrarium.lower.kept import Kept
from astrarium.lower.plan import placement_of
from astrarium.memory.config import Memory
from astrarium.serving.shape import Shape
from astrarium.serving.steps.nodes import InseparableError, Node, nodes_of, whose
from astrarium.serving.steps.simulated import NAMES, gaps, packed_of
from astrarium.simulate import simulate
from astrarium.vocab import Kernel, NodeKind
from astrarium.workload.assemble.pool import whole_kernel
from astrarium.workload.graph import Forms
from astrarium.workload.graph.packed import Packed, Sequences
from astrarium.workload.inference.chain import Exchange, chain_of
from astrarium.workload.inference.join import joined
from astrarium.workload.inference.replica import Replica
from astrarium.workload.pieces import Step

__all__ = ["Times", "class_of", "exchange_of", "step_times"]

OTHER = "other kernels"
MOVING = ("pointwise", "normalisation", "embedding")    # kinds of these


def class_of(step: Step) -> str:
    """The class of a node: its collective, the kind of its kernel, or OTHER for kernels that move bytes."""
    if step.kernel is None:
        assert step.op is not None
        return step.op.name.lower()
    return _kind(step.kernel.kind)


def _kind(kind: str) -> str:
    return OTHER if kind in MOVING else kind


class Times(Struct, frozen=True, dict=True):
    """Times in ps of what the ranks of a replica run, the first of which is `start`; the design's other ranks are idle.
    `only`: the class of nodes that take any time (empty: all).

    Raises InseparableError, when made, where a sum of these is no time of a step.
    """

    design: Design
    replica: Replica
    start: int = 0
    kept: Kept = field(default_factory=Kept)
    forms: Forms = field(default_factory=Forms)
    only: str = ""

    def __post_init__(self) -> None:
        if path := changing(self.design):
            raise InseparableError(f"{path} make steps differ")
        if replays_all(self._own[1]):
            raise InseparableError("compute.model replays what was recorded")
        if self._own[1].sustained:
            raise InseparableError("compute.clock follows from all kernels of a step")

    @cached_property
    def _own(self) -> tuple[int, Compute, Memory]:
        ranks = np.arange(self.start, self.start + self.replica.mesh.ranks)
        type_of, types = npu_types(self.design)
        kinds = set(type_of[placement_of(self.design)[ranks]].tolist())
        if len(kinds) > 1:
            raise InseparableError("NPUs of several types wait for each other")
        number = kinds.pop()
        return (number, *types[number])

    @cached_property
    def _exchanges(self) -> dict[Exchange, int]:
        return {}

    def kernels(self, kernels: Sequence[Kernel], names: Sequence[str] | None = None) -> I64:
        """Times of kernels [kernels]."""
        number, compute, memory = self._own
        table = tabled(kernels)
        none, names = np.zeros(len(table), np.int64), names or table.column("kind").tolist()
        found = durations_of(compute, ComputeNodes(
            table.column("flops"), table.column("bytes"), none, names, none.astype(np.bool_), number,
            np.arange(len(table), dtype=np.int32), table, local_memory(memory)))
        if self.only:
            found = found * np.array([_kind(kind) == self.only for kind in table.column("kind").tolist()], np.int64)
        return found

    def exchanges(self, wanted: Iterable[Exchange]) -> list[int]:
        """Times of collectives, each alone on the network with its like of the replica's other groups."""
        wanted, known = list(wanted), self._exchanges
        if self.only:
            known.update((each, 0) for each in wanted if each.op.name.lower() != self.only)
        fresh = [each for each in dict.fromkeys(wanted) if each not in known]
        if fresh:
            part = chain_of(self.replica.mesh, fresh, self.start)
            made = joined([part, *gaps([part], self.design.network.npus)], [], NAMES)
            outcome = simulate(self.design, traces=made, kept=self.kept).outcome
            row = int(outcome.row[self.start])
            end = outcome.end[outcome.node_ptr[row]:outcome.node_ptr[row + 1]]
            known.update(zip(fresh, np.diff(end[:len(fresh)], prepend=0).tolist(), strict=True))
        return [known[each] for each in wanted]

    def of(self, nodes: Sequence[Node]) -> I64:
        """Times of nodes, all runs of each together [nodes]."""
        found, steps = np.zeros(len(nodes), np.int64), [node.step for node in nodes]
        comm = np.array([each.kind == NodeKind.COMM_COLL for each in steps])
        kernels = [whole_kernel(each.kernel, each.flops, each.bytes) for each in steps if each.kernel]
        found[~comm] = self.kernels(kernels, [each.name for each in steps if each.kernel])
        found[comm] = self.exchanges(exchange_of(each) for each in steps if not each.kernel)
        return found * np.array([node.times for node in nodes], np.int64)

    def of_passes(self, passes: Sequence[Packed], shared: tuple[int, int] | None = None) -> I64:
        """Times of passes of the model [passes]; all their kernels are timed together. `shared`: see Shape."""
        nodes = [nodes_of(self.replica, each, self.forms) for each in passes]
        if shared is not None:
            others = [node for place, tokens in enumerate(shared, 1)
                      for node in nodes_of(self.replica, Packed((Sequences(1, tokens, 0),)), self.forms)
                      if whose(node.step) == place]
            nodes = [[node for node in each if not whose(node.step)] + others for each in nodes]
        lasts = self.of([node for each in nodes for node in each])
        ends = np.cumsum([len(each) for each in nodes])
        return np.array([each.sum() for each in np.split(lasts, ends[:-1])], np.int64)


def step_times(design: Design, replica: Replica, shapes: Sequence[Shape]) -> I64:
    """Times in ps [shapes] of steps of a replica on the first ranks, without tables: the cheapest way for a few steps
    of each of many designs. Raises InseparableError where the time of a step is no sum over its nodes."""
    return Times(design, replica).of_passes([packed_of(each) for each in shapes])


def exchange_of(step: Step) -> Exchange:
    """The collective of a step."""
    assert step.op is not None
    return Exchange(step.op, round(step.bytes), tuple(step.axes))
