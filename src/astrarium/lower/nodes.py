"""One class of equal ranks to a Program natively: what each node does, on which lane, and for how long."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from astrarium.arrays import I16, I32, I64, U8, Bool
from astrarium.cache import frozen
from astrarium.compute.config import replays_all
from astrarium.engine.plan import Kind, Lane, Program
from astrarium.lower.attached import codes_of
from astrarium.lower.compute_nodes import timed
from astrarium.lower.distinct import distinct
from astrarium.lower.node_tables import COMM_TYPE, children_of, table
from astrarium.lower.pooled import pool_times
from astrarium.lower.tiers import reached
from astrarium.memory.config import Memory
from astrarium.trace.work import TraceClass
from astrarium.vocab import CommOp, NodeKind

if TYPE_CHECKING:
    from astrarium.engine.plugins import ComputeModel

__all__ = ["program_of"]


_KIND = np.full(256, Kind.SKIP, np.uint8)
_KIND[[NodeKind.MEM_LOAD, NodeKind.MEM_STORE]] = Kind.REMOTE
_KIND[[NodeKind.COMP, NodeKind.COMM_SEND, NodeKind.COMM_RECV, NodeKind.COMM_COLL]] = [
    Kind.DELAY, Kind.SEND, Kind.RECV, Kind.COLLECTIVE]
_LANE = np.full(len(Kind), -1, np.int16)
_LANE[[Kind.REMOTE, Kind.DELAY, Kind.SEND, Kind.COLLECTIVE]] = [Lane.COPY, Lane.COMPUTE, Lane.P2P, Lane.COMM]
_COMM = table(len(Kind), Kind.COLLECTIVE, Kind.SEND, Kind.RECV)
_HOSTED = table(len(Kind), Kind.DELAY, Kind.REMOTE, Kind.COLLECTIVE, Kind.SEND)   # what takes a CPU thread on a host
_KNOWN = table(len(CommOp) + 1, *CommOp)


def program_of(trace: TraceClass, compute: ComputeModel, memory: Memory, *, remote: bool = True,
               npu_type: int = 0) -> Program:
    """The Program of a class on NPUs with `compute` and `memory`; arrays [nodes], durations in ps.

    Lanes: compute nodes COMPUTE, collectives COMM, sends P2P, receives none, remote memory COPY, host nodes CPU; what
    reaches a tier none, or COMM where it goes over the network (see `tiers`). `remote`: there is remote memory.
    Raises TraceError for a node without the duration, operations or remote memory that it needs.
    """
    if replays_all(compute):
        return _replayed(trace, compute, memory, npu_type)
    kind = _KIND[trace.type]
    lane = _lanes(kind, trace.is_cpu)
    comm, moves, delays = _COMM[kind], kind == Kind.REMOTE, kind == Kind.DELAY
    duration, tiers = np.zeros(kind.size, np.int64), reached(trace, memory)
    if tiers is not None:
        delays[tiers.nodes] = False
        kind[tiers.nodes], lane[tiers.nodes], duration[tiers.nodes] = Kind.DELAY, tiers.lane, tiers.duration
        trace = replace(trace, parent_ptr=tiers.parent_ptr, parent=tiers.parent)
    nodes = np.flatnonzero(delays)
    duration[nodes] = timed(trace, nodes, compute, memory, npu_type)
    _refuse(trace, remote, kind)
    pooled, over = pool_times(trace, kind, memory), _takes_turns(memory)
    slot = np.where(kind == Kind.REMOTE, codes_of(trace, memory), _slots(trace, comm))
    if pooled is not None or over:      # also where the host asks: an NPU has one access at a time
        lane = np.where(kind == Kind.REMOTE, np.int16(Lane.COMM if over else Lane.COPY), lane)
    if pooled is not None:
        duration = duration + pooled
        kind = np.where(kind == Kind.REMOTE, np.uint8(Kind.DELAY), kind)
    if tiers is not None:
        there = tiers.code < -1
        kind[tiers.nodes[there]], slot[tiers.nodes[there]] = Kind.REMOTE, tiers.code[there]
    size = np.where(comm, trace.comm_size, np.where(moves, trace.tensor_size.astype(np.int64), 0))
    return _program(trace, kind, lane, duration, size, slot)


def _replayed(trace: TraceClass, compute: ComputeModel, memory: Memory, npu_type: int) -> Program:
    """The Program of a class whose nodes all take their recorded times, but for meetings."""
    kind = _KIND[trace.type]
    lane = _lanes(kind, trace.is_cpu)
    kind[(kind != Kind.SKIP) & ~_met(trace)] = Kind.DELAY
    comm, nodes, duration = _COMM[kind], np.flatnonzero(kind == Kind.DELAY), np.zeros(kind.size, np.int64)
    duration[nodes] = timed(trace, nodes, compute, memory, npu_type)
    _refuse(trace, True, kind)
    return _program(trace, kind, lane, duration, np.where(comm, trace.comm_size, 0), _slots(trace, comm))


def _program(trace: TraceClass, kind: U8, lane: I16, duration: I64, size: I64, slot: I32) -> Program:
    """The Program of these columns [nodes], which begins when its ranks do; read only."""
    child_ptr, child = children_of(trace.parent_ptr, trace.parent)
    found = Program(node_id=frozen(trace.node_id), kind=kind, lane=lane, duration=duration,
                    busy=np.where(lane == Lane.COMPUTE, duration, 0), size=size, slot=slot,
                    parents=np.diff(trace.parent_ptr).astype(np.int32), child_ptr=child_ptr, child=child)
    if trace.begin and kind.size:
        found = _later(found, trace.begin)
    for name in found.__struct_fields__:
        getattr(found, name).flags.writeable = False
    return found


def _takes_turns(memory: Memory) -> bool:
    """Whether remote accesses take turns with collectives."""
    return memory.remote.over == "network" and memory.remote.dim is None


def _later(program: Program, begin: int) -> Program:
    """The program behind a wait of `begin` ps: one more node at its end, on no lane, for which every root waits."""
    nodes, roots = len(program.node_id), np.flatnonzero(program.parents == 0).astype(np.int32)
    parents = program.parents.copy()
    parents[roots] = 1
    last = int(program.node_id.max())
    values: dict[str, int] = {"node_id": last + (last < 2**64 - 1), "kind": int(Kind.SKIP), "lane": -1,
                              "duration": begin, "busy": 0, "size": 0, "slot": -1}
    columns = {name: np.append(getattr(program, name), getattr(program, name).dtype.type(value))
               for name, value in values.items()}
    return Program(**columns, parents=np.append(parents, np.int32(0)),
                   child_ptr=np.append(program.child_ptr, np.int32(program.child_ptr[nodes] + roots.size)),
                   child=np.concatenate([program.child, roots]))


def _slots(trace: TraceClass, comm: Bool) -> I32:
    """Slot of every node, -1 of those without arguments: the trace's, renumbered where replayed nodes leave gaps."""
    slot = np.full(comm.size, -1, np.int32)
    if trace.slot is not None and trace.slot.size == np.count_nonzero(comm):
        slot[comm] = trace.slot
    elif trace.slot is None:
        slot[comm] = np.arange(np.count_nonzero(comm), dtype=np.int32)
    else:
        slot[comm] = distinct(trace.slot[comm[COMM_TYPE[trace.type]]])[2]
    return slot


def _lanes(kind: U8, host: Bool) -> I16:
    lane = _LANE[kind]
    return np.where(host & _HOSTED[kind], np.int16(Lane.CPU), lane) if host.any() else lane


def _met(trace: TraceClass) -> Bool:
    """[nodes] whether a collective is a meeting (`recorded_meetings`) on every rank of the class."""
    found = np.zeros(trace.node_id.size, np.bool_)
    comm = np.flatnonzero(COMM_TYPE[trace.type])
    a = trace.slot_a if trace.slot is None else trace.slot_a[:, trace.slot]
    found[comm] = (trace.type[comm] == NodeKind.COMM_COLL) & (a >= 0).all(axis=0)
    return found


def _refuse(trace: TraceClass, remote: bool, kind: U8) -> None:
    if not remote:
        for node in np.flatnonzero(kind == Kind.REMOTE)[:1]:
            raise trace.fault(int(node), "moves bytes to or from remote memory, and the design has none",
                              expected="memory.remote.kind: per_npu, per_node or pool, or one of memory.tiers")
    collective = kind == Kind.COLLECTIVE
    known = _KNOWN[np.clip(trace.comm_type, -1, len(CommOp))]
    for node in np.flatnonzero(collective & ~known)[:1]:
        raise trace.fault(int(node), f"comm_type {int(trace.comm_type[node])} is no collective operation",
                          expected="a CollectiveCommType of Chakra, 0 to 9")
