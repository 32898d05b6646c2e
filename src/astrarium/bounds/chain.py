"""The longest chain of a block's nodes from its entry to its exit.

Besides what a step waits for, two orders hold. Collectives of one group run in order (`strip_of`). And of the free
nodes of the one compute lane the first one runs first: a compute step w runs before a later one x where everything that
w waits for is in front of x (the lemma of `search.bounds.graph`). So gradients of weights count in the chain where no
communication can hide them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from astrarium.vocab import NodeKind
from astrarium.workload.mesh import Mesh
from astrarium.workload.pieces import Piece, Step

__all__ = ["longest_chain"]

NEAR = 8        # compute steps that one is compared with


def longest_chain(piece: Piece, mesh: Mesh, took: Callable[[int, Step], float]) -> float:
    """ns up to the piece's exit, where step number n takes at least `took(n, step)`."""
    if piece.exit < 0:
        return 0.0
    end, before = [0.0] * len(piece.steps), [0] * len(piece.steps)
    last: dict[tuple[str, ...], int] = {}
    computed: list[tuple[int, int]] = []        # compute steps so far: number, mask of what each waits for
    for number, step in enumerate(piece.steps):
        waits = list(step.after)
        if step.kind == NodeKind.COMM_COLL:
            group = mesh.real(step.axes)
            waits += [last[group]] if group in last else []
            last[group] = number
        mask = _mask(waits)
        for other in waits:
            before[number] |= before[other] | 1 << other
        if step.kind == NodeKind.COMP and not step.host:
            for other, needs in computed[:-NEAR - 1:-1]:
                if not before[number] >> other & 1 and needs & ~before[number] == 0:
                    waits.append(other)
                    before[number] |= before[other] | 1 << other
            computed.append((number, mask))
        end[number] = max([end[other] for other in waits], default=0.0) + took(number, step)
    return end[piece.exit]


def _mask(numbers: Sequence[int]) -> int:
    found = 0
    for number in numbers:
        found |= 1 << number
    return found
