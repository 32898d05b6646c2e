"""How much of a critical path the traces leave unexplained."""

from __future__ import annotations

import numpy as np

from astrarium.engine.plan import Plan
from astrarium.result.nodes import seen
from astrarium.result.path import Path
from astrarium.result.source import Source
from astrarium.trace.columns import Columns, Traces
from astrarium.trace.linked import says_gaps, unexplained_parts

__all__ = ["places_of", "unexplained_share"]


def unexplained_share(plan: Plan, source: Source | None, path: Path) -> float | None:
    """Share of the path, 0 to 1, that is time which linked traces say nothing about; None where none of them is linked
    by a version that records it."""
    if not isinstance(source, Traces) or not any(says_gaps(columns) for columns in source.classes):
        return None
    length, found = path.end - path.start, 0.0
    for rank in seen(path.rank).tolist():
        mine = np.flatnonzero((path.rank == rank) & (path.node >= 0))
        ids = np.asarray(plan.programs[int(plan.program_of[rank])].node_id)[path.node[mine]]
        columns, _ = source.of(rank)
        node, known = places_of(columns, ids)
        found += float((unexplained_parts(columns, node[known]) * length[mine][known]).sum())
    return found / max(int(length.sum()), 1)


def places_of(columns: Columns, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """[ids] the node with each id, and whether there is one."""
    order = np.argsort(columns.node_id, kind="stable")
    place = np.minimum(np.searchsorted(columns.node_id, ids, sorter=order), max(order.size - 1, 0))
    node = order[place] if order.size else np.zeros(ids.size, np.int64)
    return node, (columns.node_id[node] == ids) if order.size else np.zeros(ids.size, np.bool_)
