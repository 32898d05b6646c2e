"""Themis: the order of the dims, chunk by chunk, that keeps all dims equally busy.

Rashidi et al., "Themis: a network bandwidth-aware collective scheduling policy for distributed training of DL models",
ISCA 2022 (arXiv 2110.04478): a dim's load is A + N * B, with A the fixed delay of its algorithm (steps times
latency), N the bytes that an NPU sends there and B the time per byte. A chunk's reduce_scatter takes the least loaded
dim first, because the first dim carries most bytes; its all_gather comes back in the opposite order. While the loads
differ by less than the time of a sixteenth of the chunk on the least loaded dim, the chunk takes the default order.
Dims of equal load keep the order of the chunk before, as in ASTRA-sim (tag tutorial-asplos2023, OfflineGreedy.cc).
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from astrarium.collective.groups import SubDim

__all__ = ["DimCost", "loads", "orders"]


class DimCost(Struct, frozen=True):
    """What a dim costs an NPU: `fixed` ns per reduce_scatter or all_gather; `bandwidth` out of an NPU, bytes/ns."""

    fixed: float
    bandwidth: float


def _time(size: float, part: SubDim, cost: DimCost) -> float:
    """ns that a reduce_scatter of `size` bytes keeps an NPU's ports of the dim busy: size (n - 1) / n / bandwidth."""
    return size * (part.n - 1) / part.n / cost.bandwidth


def _added(size: float, order: Sequence[int], shape: Sequence[SubDim], costs: Sequence[DimCost]) -> list[float]:
    """ns that a chunk in this order keeps each dim busy."""
    added = [0.0] * len(shape)
    for d in order:
        added[d] = _time(size, shape[d], costs[d])
        size /= shape[d].n
    return added


def orders(sizes: Sequence[int], shape: Sequence[SubDim], costs: Sequence[DimCost]) -> list[tuple[SubDim, ...]]:
    """Per chunk, the dims in the order of its reduce_scatter; `sizes` are the chunks' full payloads in bytes.

    Deterministic: of equal loads, the one that came first in the chunk before does so again.
    """
    load = [cost.fixed for cost in costs]
    default = order = tuple(range(len(shape)))
    even = {size: [_time(size / 16, part, cost) for part, cost in zip(shape, costs)] for size in set(sizes)}
    known: dict[tuple[int, tuple[int, ...]], tuple[list[float], tuple[SubDim, ...]]] = {}
    result = []
    for size in sizes if shape else ():
        by_load = tuple(sorted(order, key=load.__getitem__))
        least = by_load[0]
        order = default if load[by_load[-1]] - load[least] < even[size][least] else by_load
        if (size, order) not in known:
            known[size, order] = _added(size, order, shape, costs), tuple([shape[d] for d in order])
        added, chosen = known[size, order]
        load = [before + more for before, more in zip(load, added)]
        result.append(chosen)
    return result if shape else [()] * len(sizes)


def loads(sizes: Sequence[int], chosen: Sequence[Sequence[SubDim]], shape: Sequence[SubDim],
          costs: Sequence[DimCost]) -> list[float]:
    """ns that each dim is busy with the reduce_scatters of all chunks in the `chosen` orders."""
    load = [cost.fixed for cost in costs]
    for size, order in zip(sizes, chosen):
        added = _added(size, [list(shape).index(part) for part in order], shape, costs)
        load = [before + more for before, more in zip(load, added)]
    return load
