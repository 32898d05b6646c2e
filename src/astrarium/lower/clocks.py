"""The clock and the power of each class of ranks in a run with `compute.clock: sustained`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from astrarium.arrays import I32
from astrarium.design import Design, npu_types
from astrarium.lower.compute_nodes import compute_nodes
from astrarium.lower.jobs import all_npus
from astrarium.lower.work import work_of
from astrarium.trace.columns import Traces
from astrarium.vocab import NodeKind

if TYPE_CHECKING:
    from astrarium.compute.kernels.power import Clocked
    from astrarium.trace.work import Generated

__all__ = ["clocks_of"]


def clocks_of(design: Design, source: Traces | Generated | None) -> Iterator[tuple[I32, Clocked]]:
    """(ranks, their clock) of the classes of a workload, generated or read, whose clock follows from their kernels."""
    kinds, types = npu_types(design)
    wanted = {number for number, (compute, _) in enumerate(types) if compute.sustained}
    if not wanted or source is None:
        return
    kind_of = kinds[all_npus(design)]
    for trace in work_of(design, source).classes if isinstance(source, Traces) else source.classes:
        chosen = trace.type == NodeKind.COMP
        if trace.tier is not None:
            chosen &= trace.tier < 0
        for number in sorted(wanted.intersection(kind_of[trace.ranks].tolist())):
            compute, memory = types[number]
            found = compute.clocked(compute_nodes(trace, np.flatnonzero(chosen), memory, number))
            if found is not None:
                yield trace.ranks[kind_of[trace.ranks] == number], found
