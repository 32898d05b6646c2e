"""Where a collective's data stand in a launch whose chunks go by rank, as plans and programs of others count them.

Input and output are two buffers, or one that has both (in place); scratch and whatever else follows.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from astrarium.collective.kernels.exam_values import Part, one
from astrarium.engine.gpu import Buffer, Launch, Place, Workgroup
from astrarium.errors import UnsupportedError
from astrarium.vocab import CommOp

__all__ = ["Layout", "fold"]

MOST = 1 << 26
_OWN = {CommOp.ALL_GATHER: "i", CommOp.REDUCE_SCATTER: "o"}     # of which a GPU has its own part only


class Layout(Struct, frozen=True):
    """`inputs`, `outputs`: requests of a GPU's input and output."""

    op: CommOp
    n: int
    in_place: bool
    inputs: int
    outputs: int

    def buffers(self) -> tuple[Buffer, ...]:
        """Those of input and output."""
        if self.in_place:
            return (Buffer("data", max(self.inputs, self.outputs)),)
        return Buffer("input", self.inputs), Buffer("output", self.outputs)

    def at(self, rank: int, kind: str) -> tuple[int, int]:
        """(number of the buffer, request of it) where a rank's input ("i") or output ("o") begins."""
        if not self.in_place:
            return "io".index(kind), 0
        return 0, rank * self._size(kind) if _OWN.get(self.op) == kind else 0

    def _size(self, kind: str) -> int:
        return self.inputs if kind == "i" else self.outputs

    def starts(self) -> list[Part]:
        """What each rank holds before the collective."""
        return [self._part(rank, "i") for rank in range(self.n)]

    def ends(self) -> list[Part]:
        """What each rank holds after it."""
        return [self._part(rank, "o") for rank in range(self.n)]

    def _part(self, rank: int, kind: str) -> Part:
        (buffer, first), size, n = self.at(rank, kind), self._size(kind), self.n
        requests = np.arange(size)
        of, rest = np.divmod(requests, max(1, size // n))
        elements = requests + (rank * size if _OWN.get(self.op) == kind else 0)
        counts = [one(n, rank)] * size if kind == "i" else [(1,) * n] * size
        if self.op == CommOp.ALL_TO_ALL:
            there, sender = (of, rank) if kind == "i" else (rank, of)
            elements = (there * n + sender) * max(1, size // n) + rest
        if kind == "o" and self.op in (CommOp.ALL_TO_ALL, CommOp.ALL_GATHER):
            single = [one(n, each) for each in range(n)]
            counts = [single[each] for each in of.tolist()]
        return Part(buffer, first, elements, counts)


def check_room(path: str, n: int, buffers: tuple[Buffer, ...]) -> None:
    """Raise UnsupportedError where the exam could not hold all buffers in memory."""
    requests = n * sum(buffer.size for buffer in buffers)
    if requests > MOST:
        raise UnsupportedError(path, f"{requests} requests in all buffers",
                               expected=f"at most {MOST}, which the exam holds in memory")


def fold(launch: Launch, layout: Layout) -> Launch:
    """The launch with chunks placed by distance from their GPU, as built-in kernels place them, if all GPUs then run one
    grid, of which the engine simulates one; else the launch as it is."""
    grids: list[tuple[Workgroup, ...]] = []
    for rank, grid in enumerate(launch.grids):
        moved = tuple(Workgroup(tuple(replace(op, sources=_moved(launch, layout, rank, op.size, op.sources),
                                              targets=_moved(launch, layout, rank, op.size, op.targets))
                                      for op in group.operations)) for group in grid)
        if grids and moved != grids[0]:
            return launch
        grids[:] = [moved]
    return replace(launch, grids=tuple(grids))


def _moved(launch: Launch, layout: Layout, rank: int, size: int, places: tuple[Place, ...]) -> tuple[Place, ...]:
    found = []
    for place in places:
        whole = launch.buffers[place.buffer].size
        share = whole // launch.gpus
        kinds = "io" if layout.in_place else "io"[place.buffer] if place.buffer < 2 else ""
        if place.buffer >= (1 if layout.in_place else 2) or whole % launch.gpus or share * launch.gpus != whole or (
                not layout.in_place and _OWN.get(layout.op) == kinds):
            found.append(place)
            continue
        block, rest = divmod(place.offset, share)
        owner = (rank + place.peer) % launch.gpus
        if rest + size > share:
            found.append(place)
        else:
            found.append(replace(place, offset=(block - owner) % launch.gpus * share + rest))
    return tuple(found)
