"""One class of equal ranks to a Program: what each node does, where it runs, how long it takes, as in ASTRA-sim."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from astrarium.arrays import I64, U8
from astrarium.astra_sim.rules import ALL, AstraRules
from astrarium.engine.plan import Kind, Lane, Program
from astrarium.lower.node_tables import COMM_TYPE, children_of, table
from astrarium.trace.work import TraceClass
from astrarium.vocab import CommOp, NodeKind

__all__ = ["COLLECTIVE_OPS", "COMM_KIND", "program_of_class"]

Scalar = TypeVar("Scalar", np.bool_, np.uint8, np.int16)

MAX_NS = 9.2e15  # about 2^63 ps
COLLECTIVE_OPS = (CommOp.ALL_REDUCE, CommOp.ALL_GATHER, CommOp.ALL_TO_ALL, CommOp.REDUCE_SCATTER)
_SIMULATED = [*COLLECTIVE_OPS, CommOp.BROADCAST]
_DELAY, _REMOTE = int(Kind.DELAY), int(Kind.REMOTE)     # numpy compares with plain integers four times as fast


COMM_KIND = table(256, Kind.COLLECTIVE, Kind.SEND, Kind.RECV)

_UNKNOWN = 15                                           # no operation, and all unknown ones
_SHAPE = (2, max(NodeKind) + 1, _UNKNOWN + 1)           # on the CPU, type, operation
_FIRST = np.arange(_SHAPE[1]) * _SHAPE[2]               # place of operation 0 of a type
_CPU = _SHAPE[1] * _SHAPE[2]                            # from a node's place to that of its like on the CPU


def _by_node(dtype: type[Scalar], others: int, *rules: tuple[Any, int]) -> npt.NDArray[Scalar]:
    """A value for every node that there can be, flat (`_rows` finds a node's place); later rules win."""
    table = np.full(_SHAPE, others, dtype=dtype)
    for where, value in rules:
        table[where] = value
    return table.ravel()


_MEMORY, _COMM = [NodeKind.MEM_LOAD, NodeKind.MEM_STORE], [NodeKind.COMM_COLL, NodeKind.COMM_SEND, NodeKind.COMM_RECV]
_KIND = _by_node(
    np.uint8, Kind.SKIP, (np.s_[:, NodeKind.COMP], Kind.DELAY), (np.s_[:, _MEMORY], Kind.REMOTE),
    (np.s_[:, NodeKind.COMM_SEND], Kind.SEND), (np.s_[:, NodeKind.COMM_RECV], Kind.RECV),
    (np.s_[:, NodeKind.COMM_COLL], Kind.COLLECTIVE), (np.s_[:, NodeKind.COMM_COLL, CommOp.BROADCAST], Kind.DELAY))
_REFUSED = _by_node(
    np.bool_, False, (np.s_[:, NodeKind.COMM_COLL], True), (np.s_[:, NodeKind.COMM_COLL, _SIMULATED], False),
    (np.s_[1, _COMM], True))
_BUSY = _by_node(np.bool_, False, (np.s_[0, NodeKind.COMP], True))      # whose time counts as compute
# CPU nodes one by one, GPU compute one by one, everything else on the comm lane; receives need none.
_LANE = _by_node(
    np.int16, Lane.COMM, (np.s_[:, NodeKind.COMP], Lane.COMPUTE), (np.s_[:, NodeKind.COMM_RECV], -1),
    (np.s_[1], Lane.CPU))
_LANE_APART = _by_node(     # without the rule that communication takes turns
    np.int16, Lane.COMM, (np.s_[:, NodeKind.COMP], Lane.COMPUTE), (np.s_[:, NodeKind.COMM_RECV], -1),
    (np.s_[:, NodeKind.COMM_SEND], Lane.P2P), (np.s_[:, _MEMORY], Lane.COPY), (np.s_[1], Lane.CPU))


def _rows(trace: TraceClass) -> I64:
    """[nodes] place in the tables by node."""
    rows = _FIRST[trace.type] + np.minimum(trace.comm_type.view(np.uint32), _UNKNOWN)
    if trace.is_cpu.any():
        rows[trace.is_cpu] += _CPU
    return rows


def program_of_class(trace: TraceClass, *, roofline: bool, replay_only: bool, local_mem_bw: float,
                     peak_perf: float, rules: AstraRules = ALL) -> Program:
    """The Program of a class. `local_mem_bw` is in 10^9 bytes/s, `peak_perf` in 10^12 flop/s."""
    rows = _rows(trace)
    if replay_only:
        kind, duration = np.full(rows.size, Kind.DELAY, dtype=np.uint8), _recorded(trace)
        busy = np.where(trace.is_cpu, 0, duration)
    else:
        if _REFUSED[rows].any():
            _refuse(trace)
        kind = _KIND[rows]
        delay = kind == _DELAY
        busy = duration = np.zeros(rows.size, dtype=np.int64)
        if delay.any():
            duration = np.where(delay, _recorded(trace), 0)
            if roofline:
                _roofline(trace, kind, duration, local_mem_bw * 1_000_000_000, peak_perf * 1_000_000_000_000,
                          rules.whole_ns)
            busy = np.where(_BUSY[rows], duration, 0)
    comm = COMM_KIND[kind]
    size = np.where(comm, trace.comm_size, np.where(kind == _REMOTE, trace.tensor_size.view(np.int64), 0))
    slot = np.full(rows.size, -1, dtype=np.int32)
    nodes = comm.nonzero()[0]
    slot[nodes] = np.arange(nodes.size)
    child_ptr, child = children_of(trace.parent_ptr, trace.parent)
    return Program(node_id=trace.node_id, kind=kind, lane=(_LANE if rules.one_slot else _LANE_APART)[rows],
                   duration=duration, busy=busy, size=size, slot=slot,
                   parents=(trace.parent_ptr[1:] - trace.parent_ptr[:-1]).astype(np.int32), child_ptr=child_ptr,
                   child=child)


def _recorded(trace: TraceClass) -> I64:
    """ps; what was recorded with 0 us takes 1 ns."""
    return np.maximum(trace.duration_us.view(np.int64) * 1_000_000, 1000)


def _refuse(trace: TraceClass) -> None:
    """Refuse what ASTRA-sim throws on: comm nodes on the CPU, operations that it does not simulate."""
    for i in np.flatnonzero(COMM_TYPE[trace.type] & trace.is_cpu)[:1]:
        raise trace.fault(i, "a communication node on the CPU", expected="is_cpu_op false")
    for i in np.flatnonzero((trace.type == NodeKind.COMM_COLL) & ~np.isin(trace.comm_type, _SIMULATED))[:1]:
        op = int(trace.comm_type[i])
        name = CommOp(op).name if op in CommOp._value2member_map_ else "missing" if op < 0 else str(op)
        raise trace.refusal(i, f"comm_type {name} is not simulated under compat: astra_sim",
                            expected="ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL or BROADCAST")


def _roofline(trace: TraceClass, kind: U8, duration: I64, bandwidth: float, peak: float, whole_ns: bool) -> None:
    """GPU compute nodes take num_ops / min(bandwidth * num_ops / tensor_size, peak), truncated to ns; without a tensor
    they are skipped. Operations 0 take no time (ASTRA-sim divides 0 by 0)."""
    gpu = (trace.type == NodeKind.COMP) & ~trace.is_cpu
    for i in np.flatnonzero(gpu & np.isnan(trace.num_ops))[:1]:
        raise trace.fault(i, "no num_ops, which the roofline needs", expected="num_ops, or roofline-enabled 0")
    for i in np.flatnonzero(gpu & (trace.num_ops < 0))[:1]:
        raise trace.fault(i, f"num_ops {trace.num_ops[i]:.0f}", expected="operations, 0 or more")
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
