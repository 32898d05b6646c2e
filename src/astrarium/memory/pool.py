"""A pool of remote memory behind levels of switches: how long accesses take that all NPUs make at once.

A hierarchical pool as in ASTRA-sim 2.0 (arXiv 2303.14006, section IV-D: a pipelined pool with switches in and between
nodes, and collectives in the switches), for any number of levels. Every tensor is spread evenly over the memory groups,
each of which sends it in chunks. A chunk passes the levels one after the other, and chunks follow each other:

    chunks n = ceil(bytes that the groups move / (groups * chunk))
    time     = latency + (sum of the levels' times + (n - 1) * the longest) / n          of one level: bytes / bandwidth

the time of n equal jobs in a row of machines (a permutation flow shop). The paper's equations as remembered, not read,
are `n = bytes * NPUs / (groups * chunk)` and `sum of stages + (n - 1) * longest stage`: the same.

What an end of a level moves depends on who shares: NPUs that load the same bytes get copies from the lowest switches
that can make them (gather on load), and those that store gradients of the same weights have them added there (reduce on
store), so the levels above move them once. Loads and stores take equally long.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.arrays import F64
from astrarium.errors import InputError
from astrarium.memory.config import Remote

__all__ = ["Crossed", "crossed", "is_switched", "pool_ns"]


class Crossed(Struct, frozen=True):
    """One level of a pool: `size` bytes that one of its `ends` moves per byte of an NPU, and its `rate` in byte/ns."""

    name: str
    ends: int
    size: float
    rate: float


def is_switched(remote: Remote) -> bool:
    """Whether remote memory is a pool behind switches, with times of this module."""
    return remote.kind == "pool" and bool(remote.levels)


def crossed(remote: Remote, sharers: int = 1) -> tuple[Crossed, ...]:
    """What every level moves when each NPU moves one byte, and `sharers` NPUs share each: groups first, NPUs last.

    Sharers are spread over the nodes as evenly as can be, as ranks are where replicas are the outer axes: an end with m
    NPUs has min(m, NPUs / sharers) different bytes. Raises InputError where `sharers` does not divide the NPUs.
    """
    npus = remote.levels[-1].ends
    if sharers < 1 or npus % sharers:
        raise InputError("memory.remote.levels", f"{sharers} NPUs share a tensor, of {npus}",
                         expected=f"a number that divides {npus}")
    size, found = 1.0, list[Crossed]()
    above = [1, *[level.ends for level in remote.levels[:-1]]]
    for level, ends in zip(reversed(remote.levels), reversed(above), strict=True):
        found.append(Crossed(level.name, level.ends, size, level.links * float(level.bandwidth)))
        if level.gathers and level.ends > ends:
            size = float(min(npus // ends, npus // sharers))
        else:
            size *= level.ends // ends
    assert remote.groups is not None
    assert remote.bandwidth is not None
    found.append(Crossed("memory groups", remote.groups, size / remote.groups, float(remote.bandwidth)))
    return tuple(reversed(found))


def pool_ns(remote: Remote, size: npt.ArrayLike, sharers: npt.ArrayLike = 1) -> F64:
    """Time in ns of accesses of `size` bytes per NPU (any shape), made by all NPUs of a pool with levels at once.

    `sharers` (of the same shape, or one for all): NPUs that load the same bytes, or whose stored bytes are added.
    """
    moved = np.asarray(size, np.float64)
    shared = np.broadcast_to(np.asarray(sharers, np.int64), moved.shape)
    found = np.empty(moved.shape)
    for count in np.flatnonzero(np.bincount(shared.ravel())).tolist():
        chosen = shared == count
        found[chosen] = _piped(remote, crossed(remote, count), moved[chosen])
    return found


@np.errstate(over="ignore", invalid="ignore")      # what is too long is refused where it becomes ps
def _piped(remote: Remote, levels: Sequence[Crossed], moved: F64) -> F64:
    """Times [accesses] of accesses that are alike but for their size."""
    assert remote.chunk is not None
    chunks = np.maximum(np.ceil(moved * levels[0].size / float(remote.chunk)), 1.0)
    times = np.array([level.size / level.rate for level in levels])
    one = moved / chunks
    return np.asarray(float(remote.latency) + one * times.sum() + (chunks - 1.0) * one * times.max())
