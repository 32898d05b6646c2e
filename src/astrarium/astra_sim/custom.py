"""A custom collective from Chakra traces, read as ASTRA-sim reads them."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from msgspec.structs import replace

from astrarium.arrays import I32
from astrarium.astra_sim.custom_program import CustomCollective
from astrarium.astra_sim.hash_order import ids_in_order
from astrarium.astra_sim.programs import program_of_class
from astrarium.engine.plan import Program
from astrarium.errors import TraceError
from astrarium.lower.classes import trace_classes
from astrarium.trace import Traces
from astrarium.trace.columns import Columns

__all__ = ["custom_collective"]


def custom_collective(traces: Traces) -> CustomCollective:
    """One program per position; peers are positions. Compute nodes take their duration, or 1 ns."""
    programs, roots, peers, tags = {}, {}, {}, {}
    for read, columns in zip(trace_classes(traces, []), traces.classes, strict=True):
        found = replace(read, is_cpu=np.zeros_like(read.is_cpu))      # nothing in here waits for a lane
        program = program_of_class(found, roofline=False, replay_only=False, local_mem_bw=0.0, peak_perf=0.0)
        program, first = _in_order_of_release(program, columns, traces.sources[int(found.ranks[0])])
        for row, rank in enumerate(found.ranks.tolist()):
            programs[rank], roots[rank] = program, first
            peers[rank] = np.ascontiguousarray(found.slot_a[row])
            tags[rank] = np.ascontiguousarray(found.slot_b[row])
    order = range(traces.ranks)
    return CustomCollective(tuple(programs[r] for r in order), tuple(peers[r] for r in order),
                            tuple(tags[r] for r in order), tuple(roots[r] for r in order), tuple(traces.sources))


def _in_order_of_release(program: Program, columns: Columns, source: str) -> tuple[Program, I32]:
    """The program with the children of each node in the order in which ASTRA-sim frees them, and its roots likewise.

    Its feeder keeps nodes, their parents and their children in hash sets, filled in the order of the file.
    """
    index = {node: i for i, node in enumerate(program.node_id.tolist())}
    parents: dict[int, list[int]] = {}
    children: defaultdict[int, list[int]] = defaultdict(list)
    met: dict[int, None] = {}
    for i, node in enumerate(columns.node_id.tolist()):
        data = columns.data_dep[int(columns.data_ptr[i]):int(columns.data_ptr[i + 1])].tolist()
        ctrl = columns.ctrl_dep[int(columns.ctrl_ptr[i]):int(columns.ctrl_ptr[i + 1])].tolist()
        parents[node] = ids_in_order(list(dict.fromkeys([*data, *ctrl])))
        met[node] = None
        for parent in parents[node]:
            if parent not in index:
                raise TraceError(source, f"depends on node {parent}, which the trace does not have", node=node,
                                 name=columns.name(i))
            met[parent] = None
            children[parent].append(node)
    roots = [index[node] for node in ids_in_order(list(met)) if not parents[node]]
    child = [index[node] for parent in index for node in ids_in_order(children[parent])]
    return replace(program, child=np.array(child, dtype=np.int32)), np.array(roots, dtype=np.int32)
