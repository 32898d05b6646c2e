"""Doctor: faults that a node shows on its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from astrarium.arrays import Bool
from astrarium.trace.columns import Attr, Columns
from astrarium.trace.finding import Findings, Severity
from astrarium.trace.node import decode_metadata
from astrarium.vocab import CommOp, NodeKind

__all__ = ["check"]

Ranks = npt.NDArray[np.intp]

LONGEST = ((1 << 63) - 1) // 1_000_000     # us
_COMM_BITS = sum(1 << a for a in (Attr.IS_CPU_OP, Attr.COMM_TYPE, Attr.COMM_SIZE, Attr.COMM_PRIORITY, Attr.PG_NAME,
                                  Attr.COMM_SRC, Attr.COMM_DST, Attr.COMM_TAG, Attr.INVOLVED_DIM))
_LOCAL_BITS = sum(1 << a for a in (Attr.IS_CPU_OP, Attr.NUM_OPS, Attr.TENSOR_SIZE))


def check(columns: Columns, ranks: Ranks, found: Findings) -> None:
    """Types, ids, durations, sizes, and attributes that are missing or of the wrong type."""
    if not columns.nodes:
        found.add("warning", "empty", ranks.tolist(), "the trace has no nodes",
                  "leave the rank out, or write its nodes")
        return

    def report(mask: Bool, severity: Severity, code: str, message: str | Callable[[int], str], fix: str) -> None:
        _report(columns, ranks, found, np.flatnonzero(mask), (severity, code, message, fix))

    kind = columns.type
    comm = np.zeros(columns.nodes, np.bool_)
    comm[columns.comm_node] = True
    _identity(columns, report)
    report(columns.duration > LONGEST, "error", "too_long", lambda i: f"a duration of {int(columns.duration[i])} us",
           "set duration_micros to at most 106 days (2^63 ps), which is what a run can count")
    local = (kind == NodeKind.COMP) & (columns.duration == 0) & ~columns.has(Attr.NUM_OPS)
    if _profiled(columns):      # an operator of less than half a microsecond of its own time is recorded with 0
        local &= columns.is_cpu_op == 0
    report(local, "warning", "missing_duration", "compute node with neither a duration nor num_ops",
           "set duration_micros (whole microseconds), or num_ops and tensor_size")
    memory = (kind == NodeKind.MEM_LOAD) | (kind == NodeKind.MEM_STORE)
    report(memory & ~columns.has(Attr.TENSOR_SIZE), "error", "missing_tensor_size",
           "memory node without tensor_size", "set tensor_size in bytes")
    report(columns.has(Attr.NUM_OPS) & ~((columns.num_ops >= 0) & (columns.num_ops < np.inf)), "error", "negative_size",
           lambda i: f"num_ops {columns.num_ops[i]:g}", "set num_ops in flop, a number from 0")
    report(~comm & (columns.tensor_size < 0), "error", "negative_size",
           lambda i: f"tensor_size {int(columns.tensor_size[i])}", "set tensor_size in bytes, 0 to 2^63 - 1")
    report((comm & (columns.wrong & _COMM_BITS != 0)) | (~comm & (columns.wrong & _LOCAL_BITS != 0)), "error",
           "wrong_type", lambda i: _wrong(columns, i), "write it as an integer (int64_val)")
    _comm(columns, comm, report)


def _profiled(columns: Columns) -> bool:
    """Whether the file says that its times were measured (`kind` of `trace link`)."""
    return any(a.name == "kind" and a.value == "profiled" for a in decode_metadata(columns.metadata).attrs)


def _identity(columns: Columns, report: Callable[..., None]) -> None:
    ids = np.sort(columns.node_id)
    if (ids[1:] == ids[:-1]).any():
        first = np.zeros(columns.nodes, np.bool_)
        first[np.unique(columns.node_id, return_index=True)[1]] = True
        report(~first, "error", "duplicate_id", "another node before it has the same id", "give every node its own id")
    report(columns.type == 255, "error", "unknown_type", "a node type that Chakra does not define",
           "use one of " + ", ".join(f"{k.value} {k.name}" for k in NodeKind))
    report(columns.type == NodeKind.INVALID, "warning", "invalid_node", "an INVALID node: it does nothing",
           "give it a type, or remove it and connect its dependants to its dependencies")


def _comm(columns: Columns, comm: Bool, report: Callable[..., None]) -> None:
    kind, size = columns.type, columns.comm_size
    has_type, has_size = columns.has(Attr.COMM_TYPE), columns.has(Attr.COMM_SIZE)
    coll = kind == NodeKind.COMM_COLL
    op = columns.comm_type
    barrier = coll & has_type & (op == CommOp.BARRIER)
    report(comm & (columns.is_cpu_op != 0), "error", "comm_on_cpu", "communication node flagged is_cpu_op",
           "set is_cpu_op to false")
    report(coll & ~has_type & ~columns.is_wrong(Attr.COMM_TYPE), "error", "missing_comm_type",
           "collective without comm_type", "set comm_type (0 ALL_REDUCE … 9 BARRIER)")
    report(coll & has_type & ((op < 0) | (op > CommOp.BARRIER)), "error", "unknown_comm_type",
           lambda i: f"comm_type {int(op[i])}", "use 0 (ALL_REDUCE) to 9 (BARRIER)")
    report(comm & ~has_size & ~barrier & ~columns.is_wrong(Attr.COMM_SIZE), "error", "missing_comm_size",
           "communication node without comm_size", "set comm_size in bytes")
    report(comm & (size < 0), "error", "negative_size", lambda i: f"comm_size {int(size[i])}",
           "set comm_size in bytes, 0 to 2^63 - 1")
    report(comm & has_size & (size == 0) & ~barrier, "warning", "zero_size", "communication of 0 bytes",
           "set comm_size in bytes, or remove the node")


def _wrong(columns: Columns, index: int) -> str:
    bits = _COMM_BITS if columns.type[index] in (5, 6, 7) else _LOCAL_BITS
    names = [attr.name.lower() for attr in Attr if int(columns.wrong[index]) & bits & 1 << attr]
    return f"{' and '.join(names)} {'have' if len(names) > 1 else 'has'} a value of the wrong type"


def _report(columns: Columns, ranks: Ranks, found: Findings, nodes: npt.NDArray[Any],
            what: tuple[Severity, str, str | Callable[[int], str], str]) -> None:
    if not len(nodes):
        return
    severity, code, message, fix = what
    members = ranks.tolist()
    for done, index in enumerate(nodes.tolist()):
        if found.full(code):
            found.more(severity, code, len(nodes) - done)
            return
        text = message if isinstance(message, str) else message(index)
        found.add(severity, code, members, text, fix, int(columns.node_id[index]), columns.name(index))
