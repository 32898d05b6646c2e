"""Memory nodes of a pool behind switches: their times, and which NPUs share what they move."""

from __future__ import annotations

import numpy as np

from astrarium.arrays import I64, U8
from astrarium.engine.plan import Kind
from astrarium.errors import InputError
from astrarium.lower.tiers import checked_ps
from astrarium.memory.access import behind
from astrarium.memory.config import Memory
from astrarium.memory.pool import is_switched, pool_ns
from astrarium.trace.work import TraceClass
from astrarium.vocab import CommOp, NodeKind

__all__ = ["pool_times", "sharers_of"]


def sharers_of(trace: TraceClass) -> I64:
    """[nodes] NPUs that share the bytes of a memory node; 1 of the others, and of nodes that do not say.

    A load of `tensor_size` bytes with comm_type ALL_GATHER is gathered in the memory, a store with REDUCE_SCATTER is
    summed there; `comm_size` is one NPU's part of it, so tensor_size / comm_size NPUs share it. Raises TraceError where
    that is no whole number.
    """
    found = np.ones(trace.type.size, np.int64)
    shared = np.flatnonzero(((trace.type == NodeKind.MEM_LOAD) & (trace.comm_type == CommOp.ALL_GATHER))
                            | ((trace.type == NodeKind.MEM_STORE) & (trace.comm_type == CommOp.REDUCE_SCATTER)))
    whole, part = trace.tensor_size[shared].astype(np.int64), trace.comm_size[shared]
    count = whole // np.maximum(part, 1)
    for node in shared[(count < 1) | (count * part != whole)][:1].tolist():
        raise trace.fault(node, f"{int(trace.tensor_size[node])} bytes are shared in parts of "
                          f"{int(trace.comm_size[node])}",
                          expected="comm_size: tensor_size divided by the NPUs that share it")
    found[shared] = count
    return found


def pool_times(trace: TraceClass, kind: U8, memory: Memory) -> I64 | None:
    """[nodes] ps of nodes of kind REMOTE, 0 of the others, where remote memory is a pool behind switches; None where it
    is another one. Raises TraceError for a node that a memory without switches would have to gather or sum."""
    nodes = np.flatnonzero(kind == Kind.REMOTE)
    if not nodes.size:
        return None
    remote, sharers = behind(memory), sharers_of(trace)[nodes]
    if not is_switched(remote):
        for node in nodes[sharers > 1][:1].tolist():
            raise trace.fault(node, "is gathered or summed in the remote memory, which has no switches",
                              expected="memory.remote.kind: pool with levels, or workload.gather: network")
        return None
    found = np.zeros(kind.size, np.int64)
    try:
        times = pool_ns(remote, trace.tensor_size[nodes], sharers)
    except InputError as error:     # a number of sharers that does not divide the NPUs
        raise trace.fault(int(nodes[np.argmax(sharers)]), error.message, expected=error.expected) from error
    found[nodes] = checked_ps(trace, nodes, times)
    return found
