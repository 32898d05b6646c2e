"""What is in one trace file: nodes by kind, GPU operations, collectives, streams, recorded time."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import asdict

from astrarium.trace.columns import Attr, Columns, total
from astrarium.trace.linked import labelled, logical_ops
from astrarium.trace.micros import in_ns
from astrarium.trace.node import decode_metadata
from astrarium.vocab import CommOp, NodeKind

__all__ = ["Statistics", "statistics"]

RUN = (NodeKind.COMP, NodeKind.COMM_COLL, NodeKind.COMM_SEND, NodeKind.COMM_RECV)      # kinds that take a device's time
_FILL, _COPY = ("memset", "fillbuffer"), ("memcpy", "copybuffer", "copyhost", "copydevice", "dmarequest")


class Statistics(Struct, frozen=True):
    """Counts of one rank's trace; recorded times in microseconds.

    `gpu_operations` are the kernels and copies of the accelerator (`accelerated`); fills of memory are `gpu_memsets`.
    `collectives` counts by operation, `unspecified` those without `comm_type`, and `collective_bytes` sums their sizes;
    `streams` has operations and recorded time per GPU stream.
    """

    nodes: int
    by_kind: dict[str, int]
    host_nodes: int
    gpu_operations: int
    gpu_kernels: int
    gpu_memcpys: int
    gpu_memsets: int
    collectives: dict[str, int]
    collective_bytes: dict[str, int]
    sends: int
    receives: int
    streams: dict[str, dict[str, int]]
    recorded_us: dict[str, int]
    flop: float
    tensor_bytes: int
    edges: dict[str, int]
    roots: int
    leaves: int
    gpu_leaves: int
    metadata: dict[str, Any]

    def plain(self) -> dict[str, Any]:
        """As JSON values."""
        found: dict[str, Any] = in_ns(asdict(self))
        return found


def statistics(columns: Columns) -> Statistics:
    """Counts of the nodes of `columns` (for a class of equal ranks: of each rank)."""
    kind, duration = columns.type, columns.duration.astype(np.int64)
    host = columns.is_cpu_op != 0
    gpu = accelerated(columns)
    lane = gpu & columns.has(Attr.STREAM)
    fill, copy = _named(columns, gpu, _FILL), _named(columns, gpu, _COPY)
    coll = kind == NodeKind.COMM_COLL
    ops = _operations(columns, coll)
    leaf = _leaves(columns)
    names = {NodeKind(number).name.lower(): int((kind == number).sum()) for number in NodeKind}
    streams = {str(number): {"operations": int((mask := lane & (columns.stream == number)).sum()),
                             "recorded_us": int(duration[mask].sum())}
               for number in np.unique(columns.stream[lane]).tolist()}
    return Statistics(
        nodes=columns.nodes, by_kind={name: count for name, count in names.items() if count},
        host_nodes=int(host.sum()), gpu_operations=int((gpu & ~fill).sum()),
        gpu_kernels=int((gpu & ~fill & ~copy).sum()), gpu_memcpys=int(copy.sum()), gpu_memsets=int(fill.sum()),
        collectives={op: int(mask.sum()) for op, mask in ops.items()},
        collective_bytes={op: int(columns.comm_size[mask].sum()) for op, mask in ops.items()},
        sends=int((kind == NodeKind.COMM_SEND).sum()), receives=int((kind == NodeKind.COMM_RECV).sum()),
        streams=streams,
        recorded_us={"host": int(duration[host].sum()), "gpu": int(duration[gpu].sum()),
                     "collectives": int(duration[coll].sum()), "all": int(duration.sum())},
        flop=total(columns.num_ops[kind == NodeKind.COMP]),
        tensor_bytes=int(columns.tensor_size[kind == NodeKind.COMP].sum()),
        edges={"data": columns.data_dep.size, "control": columns.ctrl_dep.size},
        roots=int((np.diff(columns.data_ptr) + np.diff(columns.ctrl_ptr) == 0).sum()), leaves=int(leaf.sum()),
        gpu_leaves=int((leaf & gpu).sum()), metadata=_metadata(columns))


def _operations(columns: Columns, coll: npt.NDArray[np.bool_]) -> dict[str, npt.NDArray[np.bool_]]:
    """Name of a collective operation -> [nodes] which are of it; empty ones are left out."""
    told, asked = columns.has(Attr.COMM_TYPE), np.full(columns.nodes, "", object)
    for node, name in logical_ops(columns).items():
        asked[node] = name
    found = {labelled(op.name.lower(), other or None): coll & told & (columns.comm_type == op) & (asked == other)
             for op in CommOp for other in sorted(set(asked.tolist()))}
    return {name: mask for name, mask in (found | {"unspecified": coll & ~told}).items() if mask.any()}


def accelerated(columns: Columns) -> npt.NDArray[np.bool_]:
    """[nodes] what runs on the accelerator: what has a stream; in traces without streams what `is_cpu_op` says is no
    host operation. A trace without such compute has no accelerator: its collectives are the host's (gloo)."""
    device: npt.NDArray[np.bool_] = columns.has(Attr.IS_CPU_OP) & (columns.is_cpu_op == 0)
    lane: npt.NDArray[np.bool_] = columns.has(Attr.STREAM) & (columns.is_cpu_op == 0)
    if lane.any() or not (device & (columns.type == NodeKind.COMP)).any():
        return lane
    return np.asarray(device & np.isin(columns.type, RUN), np.bool_)


def _named(columns: Columns, among: npt.NDArray[np.bool_], words: tuple[str, ...]) -> npt.NDArray[np.bool_]:
    """[nodes] whether the name begins with one of some words, case and punctuation aside; names are read once each."""
    out = np.zeros(columns.nodes, np.bool_)
    known: dict[bytes, bool] = {}
    for node in np.flatnonzero(among).tolist():
        start = int(columns.name_offset[node])
        head = columns.data[start:start + min(int(columns.name_size[node]), 16)]
        if head not in known:
            text = "".join(c for c in head.decode("utf-8", "replace").lower() if c.isalpha())
            known[head] = text.removeprefix("hip").removeprefix("cuda").startswith(words)
        out[node] = known[head]
    return out


def _leaves(columns: Columns) -> npt.NDArray[np.bool_]:
    """[nodes] no data dependency names the node."""
    return ~np.isin(columns.node_id, columns.data_dep)


def _metadata(columns: Columns) -> dict[str, Any]:
    found = decode_metadata(columns.metadata)
    values = {a.name: a.value for a in found.attrs if isinstance(a.value, (str, int, float, bool))}
    return {"version": found.version, **values}
