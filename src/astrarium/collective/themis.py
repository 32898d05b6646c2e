"""Themis: the order of the dims, chunk by chunk, that keeps all dims equally busy, and the turns of the chunks.

Rashidi et al., "Themis: a network bandwidth-aware collective scheduling policy for distributed training of DL models",
ISCA 2022 (arXiv 2110.04478): a dim's load is A + N * B, with A the fixed delay of its algorithm (steps times
latency), N the bytes that an NPU sends there and B the time per byte. A chunk's reduce_scatter takes the least loaded
dim first, because the first dim carries most bytes; its all_gather comes back in the opposite order. While the loads
differ by less than the time of a sixteenth of the chunk on the least loaded dim, the chunk takes the default order.
Dims of equal load keep the order of the chunk before, as in ASTRA-sim (tag tutorial-asplos2023, OfflineGreedy.cc).

Turns: where every chunk takes the dims in another order and a dim has room for few chunks at a time, each rank deciding
for itself could stop: chunk A goes from dim 0 to dim 1 and chunk B the other way; a rank whose dim 0 has taken A waits
for one whose dim 1 has taken B. The paper fixes the order beforehand by a simulation of the whole; so does this: a dim
serves one chunk at a time, smallest first. Ranks that all keep to an order in which one run has gone to its end cannot
wait for each other in a circle: what comes first in it of all that is not done waits for nothing else.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from math import prod

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.collective.algorithms import steps
from astrarium.collective.groups import SubDim
from astrarium.collective.settings import Link, Settings
from astrarium.engine.plan import Phase
from astrarium.errors import InputError, InternalError
from astrarium.vocab import CommOp

__all__ = ["DimCost", "Visit", "dim_cost", "orders", "orders_of", "turns", "turns_of"]


class DimCost(Struct, frozen=True):
    """What a dim costs an NPU: `fixed` ns per reduce_scatter or all_gather; `bandwidth` out of an NPU, bytes/ns."""

    fixed: float
    bandwidth: float


def dim_cost(algorithm: str, op: CommOp, part: SubDim, link: Link) -> DimCost:
    """What a dim costs where `algorithm` runs an operation's reduce_scatters, or an all_gather's own steps."""
    return DimCost(steps(algorithm, _single(op), part.n) * link.latency, link.bandwidth)


def _single(op: CommOp) -> CommOp:
    return CommOp.ALL_GATHER if op == CommOp.ALL_GATHER else CommOp.REDUCE_SCATTER


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


def orders_of(op: CommOp, sizes: Sequence[int], parts: Sequence[SubDim], settings: Settings,
              path: str) -> list[tuple[SubDim, ...]]:
    """Per chunk of so many bytes, the dims as its reduce_scatter takes them. InputError for a dim without a link."""
    costs, single = [], _single(op)
    for part in parts:
        if part.dim >= len(settings.links):
            raise InputError(f"{path}.composition", f"themis without bandwidth and latency of network dim {part.dim}",
                             expected="a link for every dim")
        algorithm = settings.algorithm(single, part, path).partition(":")[0]
        costs.append(dim_cost(algorithm, op, part, settings.links[part.dim]))
    members = prod(part.n for part in parts) if op == CommOp.ALL_GATHER else 1
    return orders([size * members for size in sizes], parts, costs)


# ------------------------------------------------------------ turns
class Visit(Struct, frozen=True):
    """A chunk in one of its phases: `size` bytes as it arrives, which takes the ports of `dim` for `ps`."""

    dim: int
    size: int
    ps: int


def turns(chunks: Sequence[Sequence[Visit]]) -> dict[int, list[tuple[int, int]]]:
    """Per dim, (chunk, number of its visit) in the order in which they start; chunks[c] are c's visits in order.

    All chunks are there at 0. Of those that wait for a dim the smallest goes first, of equal ones the last to come;
    dims that are free at the same instant are served as their chunks arrive, of an instant the inner dim first.
    """
    found: dict[int, list[tuple[int, int]]] = {visit.dim: [] for visits in chunks for visit in visits}
    waiting: dict[int, list[tuple[int, int, int, int]]] = {dim: [] for dim in found}    # size, -arrival, chunk, number
    running: dict[int, tuple[int, int]] = {}
    ends: list[tuple[int, int]] = []        # time, dim
    arrivals = 0

    def serve(dim: int, now: int) -> None:
        if dim not in running and waiting[dim]:
            *_, chunk, number = heapq.heappop(waiting[dim])
            running[dim] = chunk, number
            found[dim].append((chunk, number))
            heapq.heappush(ends, (now + chunks[chunk][number].ps, dim))

    def come(chunk: int, number: int, now: int, left: int | None) -> None:
        """To the next visit, if there is one; the dim just left goes on first."""
        nonlocal arrivals
        arrivals += 1
        dims = [] if left is None else [left]
        if number < len(chunks[chunk]):
            visit = chunks[chunk][number]
            heapq.heappush(waiting[visit.dim], (visit.size, -arrivals, chunk, number))
            dims.append(visit.dim)
        for dim in dims:
            serve(dim, now)

    for chunk in range(len(chunks)):
        come(chunk, 0, 0, None)
    while ends:
        now, dim = heapq.heappop(ends)
        chunk, number = running.pop(dim)
        come(chunk, number + 1, now, dim)
    return found


def turns_of(rows: Sequence[tuple[int, tuple[Phase, ...]]],
             settings: Settings) -> tuple[npt.NDArray[np.int32], ...]:
    """Per dim, innermost first: the chunks' visits in the order in which all ranks take them."""
    chunks = [[_visit(phase, settings) for phase in phases] for count, phases in rows for _ in range(count)]
    phases = len(rows[0][1])
    return tuple(np.array([chunk * phases + number for chunk, number in visits], np.int32)
                 for _, visits in sorted(turns(chunks).items()))


def _visit(phase: Phase, settings: Settings) -> Visit:
    """How long a phase keeps an NPU's ports of its dim: its steps' latencies, and what the busiest NPU sends."""
    schedule, link = phase.schedule, settings.links[phase.dim]
    if schedule is None:
        raise InternalError("a phase of a native collective has no schedule")
    sent = int(np.diff(schedule.send_block_ptr[schedule.send_ptr]).max(initial=0)) * phase.block_size
    chain = steps(schedule.algorithm, CommOp(phase.op), phase.n)
    ns = settings.endpoint_delay + chain * (link.latency + settings.endpoint_delay) + sent / link.bandwidth
    return Visit(phase.dim, phase.size, round(ns * 1000))
