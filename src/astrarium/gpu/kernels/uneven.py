"""An all_to_all in which ranks send each other different amounts, as in MoE dispatch and combine.

The launch is that of the even kernel whose chunks are the largest one, with every copy cut down to what its two ranks
exchange. So GPUs run different grids, and all of them are simulated.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from astrarium.errors import InputError, UnsupportedError
from astrarium.gpu.engine import Launch, Operation, Workgroup
from astrarium.gpu.kernels.build import FLAG, kernel_launch
from astrarium.gpu.kernels.device import Gpu
from astrarium.gpu.kernels.exam import prove
from astrarium.gpu.kernels.exam_values import Promise, Region, one
from astrarium.gpu.kernels.settings import Kernels
from astrarium.units import Bytes
from astrarium.vocab import CommOp

__all__ = ["uneven_all_to_all"]


def uneven_all_to_all(sizes: Sequence[Sequence[float]], gpu: Gpu, kernels: Kernels | None = None, *,
                      examined: bool = True, path: str = "kernels") -> Launch:
    """The launch of an all_to_all in which rank i sends `sizes[i][j]` bytes to rank j (rounded up to whole requests).

    `examined`: prove it. `at_once` of `kernels` has no meaning here: copies have different sizes. Raises InputError and
    UnsupportedError at `path`.
    """
    kernels = replace(Kernels() if kernels is None else kernels, at_once=False)
    n = len(sizes)
    if n < 2 or any(len(row) != n for row in sizes):
        raise InputError(f"{path}.sizes", f"{n} rows", expected="as many rows as columns, at least 2")
    if not all(0 <= each < 1 << 62 for row in sizes for each in row):
        raise InputError(f"{path}.sizes", "an entry is out of range", expected="bytes, 0 or more")
    if kernels.program is not None:
        raise UnsupportedError(f"{path}.program", "a program, whose chunks are even", expected="a built-in kernel")
    request = int(float(Bytes.of(gpu.request))) - (FLAG if kernels.protocol == "ll128" else 0)
    requests = [[-(-int(each) // request) for each in row] for row in sizes]
    most = max(1, *(each for row in requests for each in row))
    even = kernel_launch(CommOp.ALL_TO_ALL, most * request * n, n, gpu, kernels, path=path)
    launch = replace(even, grids=tuple(tuple(_cut(group, number, rank, even, requests) for number, group in
                                             enumerate(even.grids[0])) for rank in range(n)))
    if examined:
        prove(launch, _promise(launch, requests), path=path)
    return launch


def _cut(group: Workgroup, number: int, rank: int, even: Launch, requests: Sequence[Sequence[int]]) -> Workgroup:
    """What workgroup `number` does on a rank: its share of each copy."""
    n, count = even.gpus, len(even.grids[0])
    chunk = even.buffers[0].size // n

    def cut(op: Operation) -> Operation | None:
        if not op.sources:
            return op
        place = op.targets[0]               # position p holds what came from the rank at that distance
        receiver = (rank + place.peer) % n
        size = requests[(receiver + place.offset // chunk) % n][receiver]
        first, end = size * number // count, size * (number + 1) // count
        if first == end:
            return None
        sources, targets = (tuple(replace(each, offset=each.offset // chunk * chunk + first) for each in places)
                            for places in (op.sources, op.targets))
        return replace(op, size=end - first, sources=sources, targets=targets)

    return Workgroup(tuple(op for op in map(cut, group.operations) if op is not None))


def _promise(launch: Launch, requests: Sequence[Sequence[int]]) -> Promise:
    """Input and output of each rank, by distance; beyond what two ranks exchange, chunks hold nothing."""
    n = launch.gpus
    chunk = launch.buffers[0].size // n

    def part(buffer: int, rank: int) -> Region:
        elements, counts = np.full(n * chunk, -1, np.int64), list[tuple[int, ...]]()
        for position in range(n):
            other = (rank + position) % n
            sender, receiver = (rank, other) if buffer == 0 else (other, rank)
            held = requests[sender][receiver]
            first = (sender * n + receiver) * chunk
            elements[position * chunk:position * chunk + held] = np.arange(first, first + held)
            counts += [one(n, sender)] * chunk
        return Region(buffer, 0, elements, counts)

    return Promise("all_to_all", [part(0, rank) for rank in range(n)], [part(1, rank) for rank in range(n)])
