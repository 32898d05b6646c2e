"""Places of a collective's data in a launch whose chunks are ordered by rank, as plans and programs of others count
them.

Input and output are two buffers, or one that has both (in place); scratch and whatever else follows.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from astrarium.errors import UnsupportedError
from astrarium.gpu.engine import Buffer, Launch, Place, Workgroup
from astrarium.gpu.kernels.exam_values import Region, one
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
        """The buffers of input and output."""
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

    def starts(self) -> list[Region]:
        """What each rank holds before the collective."""
        return [self._part(rank, "i") for rank in range(self.n)]

    def ends(self) -> list[Region]:
        """What each rank holds after it."""
        return [self._part(rank, "o") for rank in range(self.n)]

    def _part(self, rank: int, kind: str) -> Region:
        (buffer, first), size, n = self.at(rank, kind), self._size(kind), self.n
        requests: npt.NDArray[np.int64] = np.arange(size, dtype=np.int64)
        of, rest = np.divmod(requests, max(1, size // n))
        elements = requests + (rank * size if _OWN.get(self.op) == kind else 0)
        counts = [one(n, rank)] * size if kind == "i" else [(1,) * n] * size
        if self.op == CommOp.ALL_TO_ALL:
            pair = of * n + rank if kind == "i" else rank * n + of
            elements = pair * max(1, size // n) + rest
        if kind == "o" and self.op in (CommOp.ALL_TO_ALL, CommOp.ALL_GATHER):
            single = [one(n, each) for each in range(n)]
            counts = [single[each] for each in of.tolist()]
        return Region(buffer, first, elements, counts)


def check_room(path: str, n: int, buffers: tuple[Buffer, ...]) -> None:
    """Raise UnsupportedError where the exam could not hold all buffers in memory."""
    requests = n * sum(buffer.size for buffer in buffers)
    if requests > MOST:
        raise UnsupportedError(path, f"{requests} requests in all buffers",
                               expected=f"at most {MOST}, which the exam holds in memory")


def fold(launch: Launch, layout: Layout) -> Launch:
    """The launch with chunks placed by distance from their GPU, as built-in kernels place them, if all GPUs then run
    one grid, so that the engine simulates one of them; else the launch as it is."""
    first = _by_distance(launch, layout, 0)
    if first is None or any(_by_distance(launch, layout, rank) != first for rank in range(1, launch.gpus)):
        return replace(launch, grids=launch.grids[:1]) if launch.symmetric else launch
    return replace(launch, grids=(first,))


def _by_distance(launch: Launch, layout: Layout, rank: int) -> tuple[Workgroup, ...] | None:
    """The grid of a rank with the shares of input and output by distance; None where an operation crosses them."""
    n = launch.gpus
    shares = {layout.at(0, kind)[0]: launch.buffers[layout.at(0, kind)[0]].size // n for kind in "io"
              if layout.in_place or _OWN.get(layout.op) != kind}
    if any(share * n != launch.buffers[buffer].size for buffer, share in shares.items()):
        return None

    def moved(place: Place) -> Place:
        share = shares.get(place.buffer)
        if share is None:
            return place
        block, rest = divmod(place.offset, share)
        turn = (place.turn + share) % (n * share) if place.peer == n > 1 else 0      # of all GPUs: the same for each
        return replace(place, offset=(block - rank - place.peer) % n * share + rest, turn=turn)

    for op in (op for group in launch.grid(rank) for op in group.operations):
        for place in (*op.sources, *op.targets):
            if place.buffer in shares and place.offset % shares[place.buffer] + op.size > shares[place.buffer]:
                return None
    return tuple(Workgroup(tuple(replace(op, sources=tuple(map(moved, op.sources)),
                                         targets=tuple(map(moved, op.targets))) for op in group.operations))
                 for group in launch.grid(rank))
