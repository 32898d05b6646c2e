"""A custom collective from Chakra traces, read as ASTRA-sim reads them."""

from __future__ import annotations

import numpy as np

from astrarium.lower.astra_collectives import CustomCollective
from astrarium.lower.astra_programs import program_of_class
from astrarium.lower.classes import trace_classes
from astrarium.trace import Traces

__all__ = ["custom_collective"]


def custom_collective(traces: Traces) -> CustomCollective:
    """One program per position; peers are positions. Compute nodes take their duration, or 1 ns."""
    programs, peers, tags = {}, {}, {}
    for found in trace_classes(traces, []):
        program = program_of_class(found, roofline=False, replay_only=False, local_mem_bw=0.0, peak_perf=0.0)
        for row, rank in enumerate(found.ranks.tolist()):
            programs[rank] = program
            peers[rank] = np.ascontiguousarray(found.slot_a[row])
            tags[rank] = np.ascontiguousarray(found.slot_b[row])
    order = range(traces.ranks)
    return CustomCollective(tuple(programs[r] for r in order), tuple(peers[r] for r in order),
                            tuple(tags[r] for r in order))
