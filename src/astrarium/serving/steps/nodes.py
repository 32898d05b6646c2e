"""What a step runs, node by node, and whether the nodes run one after the other, so that their times add up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from astrarium.errors import AstrariumError
from astrarium.vocab import CommOp, NodeKind
from astrarium.workload.graph import Forms
from astrarium.workload.graph.layout import Size
from astrarium.workload.graph.packed import Packed
from astrarium.workload.inference.replica import Replica
from astrarium.workload.pieces import Piece, Step

__all__ = ["InseparableError", "Node", "launches_of", "nodes_of", "sized_nodes", "whose"]

SHARED = frozenset({"ep", "mdp"})       # axes over which ranks of dp share experts
GATHERED = frozenset({CommOp.ALL_GATHER, CommOp.REDUCE_SCATTER})


class InseparableError(AstrariumError):
    """Why a step's time is no sum over its nodes."""


class Node(NamedTuple):
    """A step of a block, and how often a pass runs it."""

    step: Step
    times: int


def launches_of(replica: Replica, packed: Packed) -> int:
    """Kernels and collectives that the hosts of a replica's stages launch in one pass, one after the other."""
    pieces = replica.lowered(packed, Forms())[0]
    return sum(replica.launches(stage, pieces) for stage in range(replica.stages))


def nodes_of(replica: Replica, packed: Packed, forms: Forms) -> list[Node]:
    """The nodes of one pass, equal ones of equal blocks together. Raises InseparableError where some overlap, and
    InputError where a size does not divide."""
    return sized_nodes(replica, packed, forms)[0]


def sized_nodes(replica: Replica, packed: Packed, forms: Forms) -> tuple[list[Node], Mapping[str, Size]]:
    """The nodes of one pass, and the sizes of its dims."""
    if replica.stages > 1:
        raise InseparableError("pipeline stages wait for each other")
    pieces, sizes = replica.lowered(packed, forms)
    counts: dict[int, int] = {}
    for block in replica.blocks_of(0, pieces):
        counts[block] = counts.get(block, 0) + 1
    found = []
    for block, times in counts.items():
        piece = pieces.blocks[block].forward
        _check(piece)
        found += [Node(step, times) for step in piece.steps]
    return found, sizes


def whose(step: Step) -> int:
    """Whose tokens make the size of a step: 0 the rank's own (an all_to_all ends when the busiest rank has sent its
    own), 1 those of all ranks of dp (products of experts), 2 those that ranks of dp gather."""
    if SHARED & set(step.axes) and step.op in GATHERED:
        return 2
    return int(step.kernel is not None and step.kernel.kind == "grouped_gemm")


def _check(piece: Piece) -> None:
    """Raise InseparableError unless a block's compute nodes and collectives follow each other."""
    above: list[set[int]] = []
    for step in piece.steps:
        if not (step.kernel if step.kind == NodeKind.COMP else step.kind == NodeKind.COMM_COLL):
            raise InseparableError(f"{step.name} is no kernel and no collective")
        above.append(set().union(step.after, *(above[each] for each in step.after)))
    for number, step in enumerate(piece.steps):
        if step.kind != NodeKind.COMM_COLL:
            continue
        before = _before(piece, above, number)
        for other in range(len(piece.steps)):
            if other not in before and other != number and number not in above[other]:
                raise InseparableError(f"{step.name} overlaps with {piece.steps[other].name}")


def _before(piece: Piece, above: Sequence[set[int]], collective: int) -> set[int]:
    """The nodes that are done when a collective starts: those that it waits for, and compute nodes that nothing waits
    for here. The latter are before a compute node of higher number, which the collective waits for, if they wait for
    nothing that this node does not wait for or follow: nodes that are ready start in order."""
    before = set(above[collective])
    compute = [each for each, step in enumerate(piece.steps) if step.kind == NodeKind.COMP]
    waited = [each for each in compute if each in above[collective]]
    for node in compute:
        if any(node < other and above[node] <= above[other] | before for other in waited):
            before.add(node)
    return before
