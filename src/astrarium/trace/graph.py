"""The dependency graph of a class as indexes, and the order in which its nodes become ready."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.trace import _native
from astrarium.trace.columns import Columns

__all__ = ["Dependencies", "Graph", "graph_of", "index_of", "ready_order", "runs_through"]

Dependencies = Literal["data+ctrl", "data"]


class Graph(Struct, frozen=True, eq=False):
    """Who waits for whom: node i for the indexes `parent[ptr[i]:ptr[i + 1]]`; -1 is a node that is missing.

    Control dependencies on missing nodes are left out; duplicates stay.
    """

    ptr: npt.NDArray[np.int64]            # [nodes + 1]
    parent: npt.NDArray[np.int32]         # [edges]
    dangling_data: npt.NDArray[np.int64]  # positions in Columns.data_dep of ids that no node has
    dangling_ctrl: npt.NDArray[np.int64]  # positions in Columns.ctrl_dep


def index_of(columns: Columns, ids: npt.NDArray[np.uint64]) -> npt.NDArray[np.int32]:
    """Index of the node with each id (the first in the file where several have it), -1 where there is none."""
    known = columns.node_id
    if not len(known) or not len(ids):
        return np.full(len(ids), -1, np.int32)
    ascending = bool((known[1:] > known[:-1]).all())
    by_id = None if ascending else np.argsort(known, kind="stable")
    ordered = known if by_id is None else known[by_id]
    at = np.minimum(np.searchsorted(ordered, ids), len(known) - 1)
    index = at if by_id is None else by_id[at]
    return np.where(ordered[at] == ids, index, -1).astype(np.int32)


def graph_of(columns: Columns, deps: Dependencies = "data+ctrl") -> Graph:
    """The graph under the chosen dependency semantics: `data+ctrl` as ASTRA-sim, or `data` alone."""
    data = index_of(columns, columns.data_dep)
    none = np.empty(0, np.int64)
    dangling = np.flatnonzero(data < 0)
    if deps == "data" or not len(columns.ctrl_dep):
        return Graph(columns.data_ptr, data, dangling, none)
    ctrl = index_of(columns, columns.ctrl_dep)
    kept = ctrl >= 0
    nodes = np.arange(columns.nodes, dtype=np.int64)
    child = np.concatenate([np.repeat(nodes, np.diff(columns.data_ptr)),
                            np.repeat(nodes, np.diff(columns.ctrl_ptr))[kept]])
    order = np.argsort(child, kind="stable")
    parent = np.concatenate([data, ctrl[kept]])[order]
    ptr = np.zeros(columns.nodes + 1, np.int64)
    np.cumsum(np.bincount(child, minlength=columns.nodes), out=ptr[1:])
    return Graph(ptr, parent, dangling, np.flatnonzero(~kept))


def ready_order(columns: Columns, graph: Graph, *, pure: bool = False) -> npt.NDArray[np.int32]:
    """Node indexes in the order in which they become ready when nothing takes time, lowest id first among ready ones.

    Nodes behind a cycle or behind a missing node are not in it.
    """
    parent = np.ascontiguousarray(graph.parent)
    return _native.backend(pure).topological_order(columns.node_id, graph.ptr, parent)


def runs_through(node_id: npt.NDArray[np.uint64], ptr: npt.NDArray[np.int64], parent: npt.NDArray[np.int32]) -> bool:
    """Whether no node waits for itself: node i waits for the indexes `parent[ptr[i]:ptr[i + 1]]`."""
    child = np.repeat(np.arange(len(node_id), dtype=np.int64), np.diff(ptr))
    return bool((parent < child).all()) or \
        len(_native.backend(False).topological_order(node_id, ptr, np.ascontiguousarray(parent))) == len(node_id)
