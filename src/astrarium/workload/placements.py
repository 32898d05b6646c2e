"""Rules that place a job: which of the free NPUs it takes, one function each.

A rule gets the free NPU numbers (ascending), how many to take, the dims' sizes (innermost first) and the job's seed. It
returns the NPU of every rank, or None where no free NPUs suit it; there are at least as many as it has to take.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from astrarium.arrays import I64

__all__ = ["packed", "rail_aligned", "random", "spread"]


def packed(free: I64, count: int, sizes: Sequence[int], seed: int | None) -> I64:
    """The lowest free NPUs: a job fills the inner dims before it goes on."""
    del sizes, seed
    return free[:count]


def random(free: I64, count: int, sizes: Sequence[int], seed: int | None) -> I64:
    """Free NPUs drawn from the seed, each set as likely as any other; ranks in order of NPU numbers."""
    del sizes
    generator = np.random.Generator(np.random.PCG64(seed))
    return np.sort(generator.permutation(free)[:count])


def spread(free: I64, count: int, sizes: Sequence[int], seed: int | None) -> I64:
    """Free NPUs at equal distances in their list: every group of every dim gives as many as its free NPUs are of all,
    rounded up or down."""
    del sizes, seed
    return free[np.arange(count) * free.size // count]


def rail_aligned(free: I64, count: int, sizes: Sequence[int], seed: int | None) -> I64 | None:
    """Take the same coordinates of the innermost dim (rails) in every group: adjacent rails, as few as suffice, the
    first for which enough groups have them free. Ranks are in order of NPU numbers. None if there are no such rails."""
    del seed
    table = np.zeros((math.prod(sizes[1:]), sizes[0]), np.bool_)
    table.reshape(-1)[free] = True
    for rails in range(1, sizes[0] + 1):
        for first in range(sizes[0] - rails + 1):
            groups = np.flatnonzero(table[:, first:first + rails].all(axis=1))
            if groups.size * rails >= count:
                return (groups[:, None] * sizes[0] + np.arange(first, first + rails)).reshape(-1)[:count]
    return None
