"""When each stage of a pipeline runs which micro-batch, from a recorded run."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from astrarium.result import Result
from astrarium.result.nodes import Work
from astrarium.result.source import generated_class
from astrarium.trace.work import Generated
from astrarium.workload.transformer import Transformer

__all__ = ["Unit", "units_of"]

MOST = 2_000_000      # compute nodes that are looked at


class Unit(Struct, frozen=True):
    """One pass of a micro-batch through a part of the model: `way` forward, backward or step (the optimizer's)."""

    way: str
    batch: int
    start: float
    end: float


def units_of(result: Result, workload: Transformer) -> tuple[tuple[Unit, ...], ...]:
    """Per stage its units in order, in ns, of its first rank; nothing where there are too many nodes."""
    source, outcome, nodes = result.traces, result.outcome, result.nodes
    compute = nodes.work == Work.COMPUTE
    if not isinstance(source, Generated) or int(compute.sum()) > MOST:
        return ()
    stage = workload.mesh.coordinate("pp")
    found = []
    for place in range(workload.pp):
        rank = int(np.flatnonzero(stage == place)[0])
        row = int(outcome.row[rank])
        names = generated_class(source, rank).names
        chosen = np.arange(int(outcome.node_ptr[row]), int(outcome.node_ptr[row + 1]))
        chosen = chosen[compute[chosen]]
        units: list[Unit] = []
        for at, node in zip(chosen.tolist(), nodes.node[chosen].tolist()):
            way, batch = _unit(names(node) if names is not None else "")
            start, end = float(nodes.start[at]) / 1000, float(nodes.end[at]) / 1000
            if way != "step" and units and (units[-1].way, units[-1].batch) == (way, batch):
                units[-1] = Unit(way, batch, min(units[-1].start, start), max(units[-1].end, end))
            else:
                units.append(Unit(way, batch, start, end))
        found.append(tuple(units))
    return tuple(found)


def _unit(name: str) -> tuple[str, int]:
    """`batch3.block12.forward.STEP` as (forward, 3)."""
    first, *rest = name.split(".")
    if not first.startswith("batch"):
        return "step", -1
    way = next((part for part in rest if part in ("forward", "backward", "weight")), "forward")
    return "backward" if way == "weight" else way, int(first[len("batch"):])
