"""One class of equal ranks to a Program: what each node does, where it runs, how long it takes, as in ASTRA-sim."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from astrarium.engine.plan import Kind, Lane, Program
from astrarium.lower.astra_rules import ALL, AstraRules
from astrarium.trace.work import TraceClass
from astrarium.vocab import CommOp, NodeKind

__all__ = ["COLLECTIVE_OPS", "COMM_TYPE", "program_of_class"]

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]
U64 = npt.NDArray[np.uint64]
F64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

MAX_NS = 9.2e15  # about 2^63 ps
COLLECTIVE_OPS = (CommOp.ALL_REDUCE, CommOp.ALL_GATHER, CommOp.ALL_TO_ALL, CommOp.REDUCE_SCATTER)


def _table(size: int, *members: int) -> Bool:
    """[size] whether a number is one of `members`: on short traces far faster than numpy.isin."""
    table = np.zeros(size, dtype=np.bool_)
    table[list(members)] = True
    return table


_COMM_KIND = _table(256, Kind.COLLECTIVE, Kind.SEND, Kind.RECV)
COMM_TYPE = _table(256, NodeKind.COMM_COLL, NodeKind.COMM_SEND, NodeKind.COMM_RECV)
_SIMULATED = _table(16, *COLLECTIVE_OPS, CommOp.BROADCAST)
_KIND = np.full(256, Kind.SKIP, dtype=np.uint8)
_KIND[[NodeKind.MEM_LOAD, NodeKind.MEM_STORE]] = Kind.REMOTE
_KIND[NodeKind.COMP], _KIND[NodeKind.COMM_COLL] = Kind.DELAY, Kind.COLLECTIVE
_KIND[NodeKind.COMM_SEND], _KIND[NodeKind.COMM_RECV] = Kind.SEND, Kind.RECV


def program_of_class(trace: TraceClass, *, roofline: bool, replay_only: bool, local_mem_bw: float,
                     peak_perf: float, rules: AstraRules = ALL) -> Program:
    """The Program of a class. `local_mem_bw` is in 10^9 bytes/s, `peak_perf` in 10^12 flop/s."""
    replay = np.where(trace.duration_us == 0, 1, trace.duration_us.astype(np.int64) * 1000) * 1000
    if replay_only:
        kind, duration = np.full(trace.type.size, Kind.DELAY, dtype=np.uint8), replay
        busy = np.where(trace.is_cpu, 0, replay)
    else:
        _check(trace)
        kind = _kinds(trace)
        duration = np.where(kind == Kind.DELAY, replay, 0)
        if roofline:
            _roofline(trace, kind, duration, local_mem_bw * 1_000_000_000, peak_perf * 1_000_000_000_000,
                      rules.whole_ns)
        busy = np.where((trace.type == NodeKind.COMP) & ~trace.is_cpu, duration, 0)
    comm = _COMM_KIND[kind]
    size = np.where(comm, trace.comm_size, np.where(kind == Kind.REMOTE, trace.tensor_size.astype(np.int64), 0))
    child_ptr, child = _children(trace.parent_ptr, trace.parent)
    return Program(node_id=trace.node_id, kind=kind, lane=_lanes(trace, rules.one_slot), duration=duration, busy=busy,
                   size=size, slot=np.where(comm, np.cumsum(comm) - 1, -1).astype(np.int32),
                   parents=np.diff(trace.parent_ptr).astype(np.int32), child_ptr=child_ptr, child=child)


def _check(trace: TraceClass) -> None:
    """Refuse what ASTRA-sim throws on: comm nodes on the CPU, operations that it does not simulate."""
    comm = COMM_TYPE[trace.type]
    for i in np.flatnonzero(comm & trace.is_cpu)[:1]:
        raise trace.fault(i, "a communication node on the CPU", expected="is_cpu_op false")
    known = (trace.comm_type >= 0) & (trace.comm_type < len(_SIMULATED)) & _SIMULATED[trace.comm_type % len(_SIMULATED)]
    for i in np.flatnonzero((trace.type == NodeKind.COMM_COLL) & ~known)[:1]:
        op = int(trace.comm_type[i])
        name = CommOp(op).name if op in CommOp._value2member_map_ else "missing" if op < 0 else str(op)
        raise trace.refusal(i, f"comm_type {name} is not simulated under compat: astra_sim",
                            expected="ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL or BROADCAST")


def _kinds(trace: TraceClass) -> U8:
    kind = np.asarray(_KIND[trace.type])
    kind[(trace.type == NodeKind.COMM_COLL) & (trace.comm_type == CommOp.BROADCAST)] = Kind.DELAY
    return kind


def _lanes(trace: TraceClass, one_slot: bool) -> npt.NDArray[np.int16]:
    """CPU nodes one by one, GPU compute one by one, everything else on the comm lane; receives need none."""
    lane = np.where(trace.type == NodeKind.COMP, Lane.COMPUTE, Lane.COMM)
    if not one_slot:
        lane = np.where(trace.type == NodeKind.COMM_SEND, Lane.P2P, lane)
        lane = np.where(_KIND[trace.type] == Kind.REMOTE, Lane.COPY, lane)
    lane = np.where(trace.type == NodeKind.COMM_RECV, -1, lane)
    return np.where(trace.is_cpu, Lane.CPU, lane).astype(np.int16)


def _roofline(trace: TraceClass, kind: U8, duration: I64, bandwidth: float, peak: float, whole_ns: bool) -> None:
    """GPU compute nodes take num_ops / min(bandwidth * num_ops / tensor_size, peak), truncated to ns; without a tensor
    they are skipped. Operations 0 take no time (ASTRA-sim divides 0 by 0)."""
    gpu = (trace.type == NodeKind.COMP) & ~trace.is_cpu
    for i in np.flatnonzero(gpu & np.isnan(trace.num_ops))[:1]:
        raise trace.fault(i, "no num_ops, which the roofline needs", expected="num_ops, or roofline-enabled 0")
    kind[gpu & (trace.tensor_size == 0)] = Kind.SKIP
    duration[gpu] = 0
    timed = gpu & (trace.tensor_size > 0) & (trace.num_ops > 0)
    ops = trace.num_ops[timed]
    with np.errstate(over="ignore", divide="ignore"):
        ns = ops / np.minimum(bandwidth * (ops / trace.tensor_size[timed].astype(np.float64)), peak) * 1e9
    for bad in np.flatnonzero(~(ns < MAX_NS))[:1]:
        raise trace.fault(int(np.flatnonzero(timed)[bad]), "takes more than 2^63 ps on the roofline",
                          expected="at most 106 days; local-mem-bw and peak-perf above 0")
    duration[timed] = ns.astype(np.int64) * 1000 if whole_ns else (ns * 1000).astype(np.int64)


def _children(parent_ptr: I64, parent: I32) -> tuple[I32, I32]:
    """Turn "waits for" round: child_ptr [nodes + 1] and child [edges], children ascending."""
    nodes = parent_ptr.size - 1
    if not parent.size:
        return np.zeros(nodes + 1, dtype=np.int32), parent
    waiting = np.repeat(np.arange(nodes, dtype=np.int32), np.diff(parent_ptr))
    pointer = np.zeros(nodes + 1, dtype=np.int32)
    np.cumsum(np.bincount(parent, minlength=nodes), out=pointer[1:])
    return pointer, waiting[np.argsort(parent, kind="stable")]
