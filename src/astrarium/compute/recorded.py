"""Kernels of a recorded run, with their times, as timings that calibrate a device."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.compute.operators import kernel_of
from astrarium.compute.timings import Timing
from astrarium.profile.launches import COPY, Launches
from astrarium.vocab import Kernel

__all__ = ["Recorded", "Share", "kernels_of", "recorded_timings"]

UNOWNED = "launched by no recorded operator (a CUDA graph, or a library of its own)"
TICKS = 20          # of the recording's clock that a kernel must take: rounding is 5 % of it at most
STREAM_NS = 10_000  # that a kernel must take that only moves bytes: a shorter one is mostly its launch
BESIDE = 0.05       # of a kernel's time during which another may run


class Share(Struct):
    """A number of GPU operations, and their time."""

    operations: int = 0
    ns: int = 0

    def add(self, operations: int, ns: int) -> None:
        """Count more of them."""
        self.operations += operations
        self.ns += ns


class Recorded(Struct, frozen=True):
    """`times`: kernel -> ns of each of its calls; `unused`: why -> what was not used, most time first."""

    times: Mapping[Kernel, Sequence[int]]
    used: Share
    unused: Mapping[str, Share]

    @property
    def timings(self) -> list[Timing]:
        """Each kernel with the median of its times."""
        return [Timing(kernel, float(np.median(ns))) for kernel, ns in self.times.items()]


def recorded_timings(runs: Sequence[Launches], refusal: Callable[[Kernel], str]) -> Recorded:
    """The calls of operators that are kernels of known shapes and ran alone; of all else how much it was and why.

    A call's time is the sum over the kernels that it launched. `refusal`: why a kernel is of no use, else "".
    """
    times: dict[Kernel, list[int]] = defaultdict(list)
    used, unused = Share(), defaultdict[str, Share](Share)
    for run in runs:
        length, together, calls = run.end - run.start, _beside(run), defaultdict[int, list[int]](list)
        for operation, owner in enumerate(run.owner.tolist()):
            if run.other[operation] or owner < 0:
                unused[run.other[operation] or UNOWNED].add(1, int(length[operation]))
            else:
                calls[owner].append(operation)
        for owner, operations in calls.items():
            ns = int(length[operations].sum())
            found = kernel_of(run.operator(owner), [run.name[each] for each in operations])
            if not isinstance(found, str):
                found = _doubt(found, ns, run.tick, bool(together[operations].any())) or refusal(found) or found
            if isinstance(found, str):
                unused[found].add(len(operations), ns)
            else:
                times[found].append(ns)
                used.add(len(operations), ns)
    return Recorded(times, used, dict(sorted(unused.items(), key=lambda pair: (-pair[1].ns, pair[0]))))


def kernels_of(run: Launches) -> list[Kernel | None]:
    """[GPU operations] the kernel that each is: of a call of known shapes that launched it alone; of others None."""
    owners = [-1 if other else owner for owner, other in zip(run.owner.tolist(), run.other, strict=True)]
    alone = Counter(owners)
    found = [kernel_of(run.operator(owner), [run.name[operation]]) if owner >= 0 and alone[owner] == 1 else ""
             for operation, owner in enumerate(owners)]
    return [None if isinstance(each, str) else each for each in found]


def _doubt(kernel: Kernel, ns: int, tick: int, together: bool) -> str:
    if together:
        return "ran beside another kernel"
    if ns < TICKS * tick:
        return f"shorter than {TICKS * tick / 1000:g} us, where the recording counts whole microseconds"
    return f"moves bytes in less than {STREAM_NS / 1000:g} us" if kernel.kind == "pointwise" and ns < STREAM_NS else ""


def _beside(run: Launches) -> npt.NDArray[np.bool_]:
    """[GPU operations] whether another kernel ran during more than BESIDE of it; copies do not count as kernels."""
    found = np.zeros(len(run.owner), np.bool_)
    kernels = np.flatnonzero(np.array([other != COPY for other in run.other], np.bool_))
    order = kernels[np.argsort(run.start[kernels], kind="stable")]
    if order.size < 2:
        return found
    start, end = run.start[order], run.end[order]
    before, after = np.zeros(order.size, np.int64), np.zeros(order.size, np.int64)
    before[1:] = np.maximum.accumulate(end)[:-1] - start[1:]
    after[:-1] = end[:-1] - start[1:]
    most = np.maximum(2 * run.tick, BESIDE * (end - start))
    found[order] = np.maximum(before, after) > most
    return found
