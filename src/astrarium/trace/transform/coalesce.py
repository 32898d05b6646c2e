"""Coalescing: runs of tiny nodes become one, and what waits for what, and for how long, stays as it was."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import numpy.typing as npt

from astrarium.config import Config, Knob
from astrarium.trace.columns import Attr, Columns
from astrarium.trace.graph import graph_of
from astrarium.trace.linked import UNEXPLAINED, unexplained_parts
from astrarium.trace.transform.files import Edit, Job, rebuilt
from astrarium.trace.transform.patch import Change
from astrarium.units import Time
from astrarium.vocab import NodeKind

__all__ = ["Coalesce", "coalesce"]

US = 1000


class Coalesce(Config, frozen=True):
    """Chains of compute nodes on one thread or stream become one node each."""

    below: Annotated[Time, Knob("Nodes of at most this duration are tiny.", ge=0)] = Time("20 us")


def coalesce(job: Job, step: Coalesce) -> Job:
    """Two tiny compute nodes become one where the second waits for the first alone, and nothing else for the first.

    Both run on the same thread or stream. The last node of a run keeps its id and gets the sum of the durations and
    the first one's dependencies. Nodes with num_ops stay: a roofline is not additive.
    """
    traces = job.traces()
    edits = [Edit(_changes(columns, float(step.below) / US)) for columns in traces.classes]
    return Job(rebuilt(traces, edits), job.groups)


def _changes(columns: Columns, below: float) -> dict[int, Change | None]:
    before = _previous(columns, below)
    follower = np.full(columns.nodes, -1, np.int64)
    second = np.flatnonzero(before >= 0)
    follower[before[second]] = second
    found: dict[int, Change | None] = {}
    for head in np.flatnonzero((follower >= 0) & (before < 0)).tolist():
        run = [head]
        while follower[run[-1]] >= 0:
            run.append(int(follower[run[-1]]))
        found.update(dict.fromkeys(run[:-1]))
        deps = [tuple(ids[int(ptr[head]):int(ptr[head + 1])].tolist())
                for ptr, ids in ((columns.data_ptr, columns.data_dep), (columns.ctrl_ptr, columns.ctrl_dep))]
        found[run[-1]] = Change(duration=int(columns.duration[run].sum()), data_deps=deps[0], ctrl_deps=deps[1],
                                name=f"{columns.name(head)} +{len(run) - 1}", values=_unexplained(columns, run))
    return found


def _unexplained(columns: Columns, run: list[int]) -> dict[str, float | None]:
    """The attribute that says how much of the run is unexplained; None removes the last node's own."""
    shares, lengths = unexplained_parts(columns, np.array(run, np.int64)), columns.duration[run].astype(np.float64)
    share = round(float((shares * lengths).sum() / lengths.sum()), 3)
    return {UNEXPLAINED: share or None}


def _previous(columns: Columns, below: float) -> npt.NDArray[np.int64]:
    """[nodes] the node that joins with each one, -1 where none does."""
    tiny = ((columns.type == NodeKind.COMP) & (columns.duration <= below) & (columns.duration > 0)
            & ~columns.has(Attr.NUM_OPS))
    graph = graph_of(columns)
    child = np.repeat(np.arange(columns.nodes), np.diff(graph.ptr))
    good = graph.parent >= 0
    pairs = np.unique(np.stack([graph.parent[good].astype(np.int64), child[good]], axis=1), axis=0)
    parents = np.bincount(pairs[:, 1], minlength=columns.nodes)
    children = np.bincount(pairs[:, 0], minlength=columns.nodes)
    first, second = pairs[:, 0], pairs[:, 1]
    missing = np.zeros(columns.nodes, np.bool_)
    missing[child[~good]] = True
    join = (tiny[first] & tiny[second] & (parents[second] == 1) & (children[first] == 1) & ~missing[second]
            & ~missing[first] & (columns.is_cpu_op[first] == columns.is_cpu_op[second])
            & (columns.stream[first] == columns.stream[second]) & (first != second)
            & (np.diff(columns.data_ptr)[second] > 0))
    out = np.full(columns.nodes, -1, np.int64)
    out[second[join]] = first[join]
    return out
