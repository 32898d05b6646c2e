"""ASTRA-sim's `[statistics]` lines: how long a rank's nodes of each kind ran, and what compute made of the roofline."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from astrarium.arrays import I64, Bool
from astrarium.astra_sim.lowering import AstraSystem
from astrarium.engine import Outcome, Plan
from astrarium.trace.work import TraceClass
from astrarium.vocab import NodeKind

__all__ = ["first_ranks", "node_times", "statistics"]


PS_PER_NS = 1000
COMM = [NodeKind.COMM_COLL, NodeKind.COMM_SEND, NodeKind.COMM_RECV]
MEMORY = [NodeKind.MEM_LOAD, NodeKind.MEM_STORE]


def first_ranks(outcome: Outcome) -> list[int]:
    """The first rank of every row."""
    found: list[int] = np.unique(outcome.row, return_index=True)[1].tolist()
    return found


def node_times(outcome: Outcome, row: int) -> tuple[I64, I64]:
    """Start and end of the row's nodes, ns."""
    nodes = slice(int(outcome.node_ptr[row]), int(outcome.node_ptr[row + 1]))
    return outcome.start[nodes] // PS_PER_NS, outcome.end[nodes] // PS_PER_NS


def statistics(outcome: Outcome, plan: Plan, classes: Sequence[TraceClass], system: AstraSystem) -> list[list[str]]:
    """Per row of a recorded run of `plan`, what ASTRA-sim's lines say after `sys[rank]`. Times are ns.

    Overlap is an unsigned 64-bit number there: idle time makes it very large. It is missing where a rank has nodes of
    other kinds than GPU compute and communication, where ASTRA-sim prints no statistics at all.
    """
    return [[f", {text}" for text in _block(classes[int(plan.program_of[rank])], *node_times(outcome, row), system)]
            for row, rank in enumerate(first_ranks(outcome))]


def _block(trace: TraceClass, start: I64, end: I64, system: AstraSystem) -> list[str]:
    comp = trace.type == NodeKind.COMP
    kinds = {"CPU": comp & trace.is_cpu, "GPU": comp & ~trace.is_cpu, "Comm": np.isin(trace.type, COMM),
             "Remote mem": np.isin(trace.type, MEMORY), "Invalid": trace.type == NodeKind.INVALID}
    times = {kind: _covered(start[nodes], end[nodes]) for kind, nodes in kinds.items() if nodes.any()}
    wall = int(end.max(initial=0))
    said = [f"Wall time: {wall}", *(f"{kind} time: {time}" for kind, time in times.items())]
    if times.keys() == {"GPU", "Comm"} and (overlap := (times["GPU"] + times["Comm"] - wall) % 2**64):
        said.append(f"Total compute-communication overlap: {overlap}")
    return said + _utilisation(trace, comp, end - start, system) if system.roofline else said


def _covered(start: I64, end: I64) -> int:
    """Length of the union of some intervals."""
    order = np.argsort(start, kind="stable")
    start, end = start[order], np.maximum.accumulate(end[order])
    before = np.concatenate([start[:1], end[:-1]])
    return int(np.maximum(end - np.maximum(start, before), 0).sum())


def _utilisation(trace: TraceClass, comp: Bool, duration: I64, system: AstraSystem) -> list[str]:
    """Means over compute time, to which ASTRA-sim adds 1 ns; nodes that did not run on the roofline count as 0."""
    total = 1 + int(duration[comp].sum())
    timed = comp & ~trace.is_cpu & (trace.tensor_size > 0) & (trace.num_ops > 0)
    if system.replay_only:
        timed[:] = False
    bandwidth, peak, weight = system.local_mem_bw * 1e9, system.peak_perf * 1e12, duration[timed]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        intensity = trace.num_ops[timed] / trace.tensor_size[timed].astype(np.float64)
        perf = np.minimum(bandwidth * intensity, peak)
        figures = (int(weight[perf >= peak].sum()) / total, float((perf / peak * weight).sum()) / total,
                   float((perf / intensity / bandwidth * weight).sum()) / total,
                   float((intensity * weight).sum()) / total)
    return [f"Compute bound percentage: {figures[0] * 100:.3f}%",
            f"Average compute utilization: {figures[1] * 100:.3f}%",
            f"Average memory utilization: {figures[2] * 100:.3f}%", f"Average operation intensity: {figures[3]:.3f}"]
