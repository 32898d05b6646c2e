"""Costs of the blocks of a model on one rank, from which lower bounds of the time of a step follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from msgspec import Struct

from astrarium.arrays import F64
from astrarium.bounds.chain import longest_chain
from astrarium.bounds.clocks import PROBE, Clocks, clocks_of
from astrarium.bounds.nodes import Nodes
from astrarium.bounds.sums import sums
from astrarium.bounds.wires import Wires
from astrarium.compute.config import Compute
from astrarium.memory.config import Memory
from astrarium.vocab import NodeKind
from astrarium.workload.assemble.recipe import Recipe, Sizes
from astrarium.workload.mesh import Mesh
from astrarium.workload.pieces import BlockPieces, Step

__all__ = ["Costs", "costs_of"]

Axes = tuple[str, ...]


class Costs(Struct, frozen=True, eq=False):
    """Sums over the blocks in front of each, [blocks + 1], for one micro-batch on one rank.

    `forward`, `backward`: ns of the longest chain of a block's nodes from its entry to its exit, collectives at their
    lower bounds; `busy`: ns of all its compute nodes; `sent`: ns of its messages along an
    axis, on the rank whose ports are slowest; `wired` [rows, blocks + 1]: ns for which its collectives need ports (see
    `Wires`); `saved`: bytes from its forward to its backward pass. `elements`
    [blocks]: parameters by the axes over which their gradients are summed. `clocks`: where clocks follow from what
    ranks run; times are those at the clock of the whole model then.
    """

    blocks: int
    forward: F64
    backward: F64
    busy: F64
    sent: F64
    wired: F64
    saved: F64
    elements: Mapping[Axes, F64]
    sizes: Sizes
    zero_axes: Axes
    first: int
    last: int
    clocks: Clocks | None = None

    def same(self, other: Costs) -> bool:
        """Whether blocks take and save the same."""
        return all(bool(np.array_equal(mine, theirs)) for mine, theirs in (
            (self.forward, other.forward), (self.backward, other.backward), (self.busy, other.busy),
            (self.saved, other.saved)))


def costs_of(recipe: Recipe, compute: Compute, memory: Memory, wires: Wires) -> Costs:
    """Costs of the blocks of a recipe; they hold for every recipe with these blocks whose groups are no smaller. Raises
    InputError for kernels that the compute model refuses."""
    mesh, kinds, order = recipe.mesh, recipe.kinds, [block for part in recipe.parts for block in part]
    pieces = [piece for kind in kinds for piece in (kind.forward, kind.backward)]
    probe, ends = (PROBE,) if compute.sustained else (), np.cumsum([len(piece.steps) for piece in pieces])
    nodes = Nodes(mesh, [*(step for piece in pieces for step in piece.steps), *probe])
    clocks = clocks_of(recipe, compute, memory, nodes, ends[1::2].tolist())
    places = iter(np.split(nodes.durations(compute, memory, 1.0 if clocks is None else 1 / clocks.slower), ends))
    chains, (busy, sent) = np.zeros((2, len(kinds))), np.zeros((2, len(kinds)))
    wired = np.zeros((wires.port_rows, len(kinds)))
    for number, kind in enumerate(kinds):
        for way, piece in enumerate((kind.forward, kind.backward)):
            ns = next(places)
            busy[number] += sum(each for each, step in zip(ns.tolist(), piece.steps) if not step.host)
            chains[way, number] = longest_chain(piece, mesh, partial(_took, wires, mesh, ns))
            sent[number] += sum(wires.passed(step.bytes, step.axes, step.shift, mesh) for step in piece.steps
                                if step.kind == NodeKind.COMM_SEND)
            for step in piece.steps:
                if step.op is not None:
                    wired[:, number] += step.bytes * wires.ports(step.op, step.axes, mesh)
    saved = np.array([kind.saved for kind in kinds], np.float64)
    inner = [place for place, block in enumerate(order) if block in recipe.inner] or [0]
    forward, backward, busy, sent, wired, saved = (
        sums(each[..., order]) for each in (chains[0], chains[1], busy, sent, wired, saved))
    return Costs(len(order), forward, backward, busy, sent, wired, saved, _elements(kinds, order), recipe.sizes,
                 recipe.zero_axes, first=inner[0], last=len(order) - 1 - inner[-1], clocks=clocks)


def _elements(kinds: Sequence[BlockPieces], order: Sequence[int]) -> dict[Axes, F64]:
    axes = dict.fromkeys(weight.replicas for kind in kinds for weight in kind.weights)
    return {each: np.array([sum(weight.elements for weight in kind.weights if weight.replicas == each)
                            for kind in kinds], np.float64)[order] for each in axes}


def _took(wires: Wires, mesh: Mesh, ns: F64, number: int, step: Step) -> float:
    return wires.bound(step.op, step.bytes, step.axes, mesh) if step.op is not None else float(ns[number])
