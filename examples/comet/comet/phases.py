"""A run's time by phase: compute, and communication that no compute hides."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium import Transformer
from astrarium.result import Result, Work
from astrarium.result.source import generated_class
from astrarium.trace.work import Generated, TraceClass
from astrarium.workload.training import recipe_of
from comet.decompose import FORWARD, INPUT, PHASES, UPDATE, WEIGHT, phases_of_block

__all__ = ["Breakdown", "breakdown", "phases_of", "trace_of"]

I64 = npt.NDArray[np.int64]
COMPUTES = np.array([work in (Work.COMPUTE, Work.HOST) for work in Work])
MOVES = np.array([work in (Work.COLLECTIVE, Work.MESSAGE, Work.MEMORY) for work in Work])
SUMS = ".gradients."        # collectives of gradients over data parallelism, which belong to no block


class Breakdown(Struct, frozen=True):
    """ns by phase (of PHASES): `compute`, and `exposed` communication: in flight while the node computes nothing. What
    is left of the makespan, the node waits for others (0 where all nodes are equal)."""

    compute: Mapping[str, float]
    exposed: Mapping[str, float]

    @property
    def total(self) -> float:
        """All of it."""
        return sum(self.compute.values()) + sum(self.exposed.values())

    def without(self, phase: str) -> Breakdown:
        """This breakdown with `phase` set to 0."""
        return Breakdown({**self.compute, phase: 0.0}, {**self.exposed, phase: 0.0})


def phases_of(workload: Transformer, trace: TraceClass) -> npt.NDArray[np.int8]:
    """[nodes] which phase (an index of PHASES) every node of the workload's trace belongs to."""
    assert trace.names is not None
    backward = {step: PHASES.index(phase) for block in recipe_of(workload).kinds
                for step, phase in phases_of_block(block).items()}
    return np.array([_phase(trace.names(node), backward) for node in range(len(trace.node_id))], np.int8)


def _phase(name: str, backward: Mapping[str, int]) -> int:
    if name.startswith("step."):
        return PHASES.index(UPDATE)
    if ".forward." in name:
        return PHASES.index(FORWARD)
    if SUMS in name or ".weight." in name:
        return PHASES.index(WEIGHT)
    return backward.get(name.partition(".backward.")[2], PHASES.index(INPUT))


def breakdown(result: Result, phases: npt.NDArray[np.int8]) -> Breakdown:
    """Times of the node that finishes last. `phases` [nodes of its trace]: see `phases_of`."""
    nodes, row = result.nodes, int(result.outcome.row[result.last_rank])
    at = np.flatnonzero(nodes.row == row)
    phase = phases[nodes.node[at]]
    compute, moving = COMPUTES[nodes.work[at]], MOVES[nodes.work[at]]
    start, end = nodes.start[at], nodes.end[at]
    busy = np.bincount(phase[compute], (end - start)[compute], len(PHASES)) / 1000
    open_ = _exposed(start, end, phase, compute, moving) / 1000
    return Breakdown(dict(zip(PHASES, busy.tolist())), dict(zip(PHASES, open_.tolist())))


def _exposed(start: I64, end: I64, phase: npt.NDArray[np.int8], compute: npt.NDArray[np.bool_],
             moving: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
    """ps by phase with communication in flight and no compute; of several phases in flight the first counts."""
    chosen = np.flatnonzero((compute | moving) & (end > start))
    kind = np.where(compute[chosen], 0, phase[chosen].astype(np.int64) + 1)     # 0: compute, else a phase's messages
    times, place = np.unique(np.concatenate([start[chosen], end[chosen]]), return_inverse=True)
    first, last = np.split(place.reshape(-1), 2)
    size = (len(PHASES) + 1) * times.size
    change = np.bincount(kind * times.size + first, minlength=size) - np.bincount(kind * times.size + last,
                                                                                  minlength=size)
    there = np.cumsum(change.reshape(-1, times.size), axis=1)[:, :-1] > 0
    there[1:] &= ~np.logical_or.accumulate(there, axis=0)[:-1]
    return np.asarray(there[1:] @ np.diff(times), np.float64)


def trace_of(result: Result) -> TraceClass:
    """The trace of the node that finishes last."""
    assert isinstance(result.traces, Generated)
    return generated_class(result.traces, result.last_rank)
