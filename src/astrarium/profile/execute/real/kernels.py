"""Which kernels a profiled replay ran for which item, from Kineto's file: by the call that launched each."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict

from astrarium.profile.execute.real.runner import MARK
from astrarium.profile.link.calls import classified
from astrarium.profile.link.kineto import read_device

__all__ = ["kernels_of"]


def kernels_of(data: bytes, where: str) -> dict[int, list[list[float]]]:
    """Item -> for each time that it ran the us of its GPU operations, in the order of their launches."""
    trace = read_device(data, where)
    marks = sorted((trace.operators.start[number], trace.operators.end[number], int(name[len(MARK):]))
                   for number, name in enumerate(trace.operators.name)
                   if name.startswith(MARK) and name[len(MARK):].isdecimal())
    starts = [start for start, _, _ in marks]
    gpu, calls = trace.gpu, trace.calls
    found = defaultdict[int, list[tuple[int, int]]](list)
    for operation, call in classified(trace).launcher.items():
        at = bisect_right(starts, calls.start[call]) - 1
        if at >= 0 and calls.start[call] <= marks[at][1]:
            found[at].append((calls.start[call], gpu.end[operation] - gpu.start[operation]))
    out = defaultdict[int, list[list[float]]](list)
    for at, (_, _, item) in enumerate(marks):
        if at in found:
            out[item].append([length / 1e3 for _, length in sorted(found[at])])
    return dict(out)
