"""What Themis needs beyond its rule: payloads and costs of a collective's chunks, and the turns of its phases."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from astrarium.collective import themis
from astrarium.collective.algorithms import steps
from astrarium.collective.groups import SubDim
from astrarium.collective.settings import Settings
from astrarium.collective.turns import Visit, turns
from astrarium.engine.plan import Phase
from astrarium.errors import InputError, InternalError
from astrarium.vocab import CommOp

__all__ = ["orders_of", "turns_of"]


def orders_of(op: CommOp, sizes: Sequence[int], parts: Sequence[SubDim], settings: Settings,
              path: str) -> list[tuple[SubDim, ...]]:
    """Per chunk of so many bytes, the dims as its reduce_scatter takes them. InputError for a dim without a link."""
    return themis.orders(_payloads(op, sizes, parts), parts, _costs(op, parts, settings, path))


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


def _payloads(op: CommOp, sizes: Sequence[int], parts: Sequence[SubDim]) -> list[int]:
    """Full payloads of the chunks: an all_gather's shard times its members."""
    members = 1
    for part in parts:
        members *= part.n if op == CommOp.ALL_GATHER else 1
    return [size * members for size in sizes]


def _costs(op: CommOp, parts: Sequence[SubDim], settings: Settings, path: str) -> list[themis.DimCost]:
    costs = []
    for part in parts:
        if part.dim >= len(settings.links):
            raise InputError(f"{path}.composition", f"themis without bandwidth and latency of network dim {part.dim}",
                             expected="a link for every dim")
        link = settings.links[part.dim]
        single = CommOp.ALL_GATHER if op == CommOp.ALL_GATHER else CommOp.REDUCE_SCATTER
        chain = steps(settings.algorithm(single, part, path).partition(":")[0], single, part.n)
        costs.append(themis.DimCost(chain * link.latency, link.bandwidth))
    return costs
