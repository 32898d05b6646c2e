"""Operators that run on a thread of their own (gloo's) wait for the operator that issued them."""

from __future__ import annotations

from astrarium.profile.link.between import HostNodes
from astrarium.profile.link.comm import CPU_BACKENDS, annotated
from astrarium.profile.link.host import HostTrace
from astrarium.profile.link.join import Join
from astrarium.profile.link.nodes import Draft
from astrarium.profile.link.records import DeviceTrace

__all__ = ["issue_edges"]


def issue_edges(trace: DeviceTrace, host: HostTrace | None, join: Join, found: HostNodes, draft: Draft) -> None:
    """`c10d::allreduce_` -> `gloo:all_reduce`: the host trace says who called, times alone only who ran before.

    Where an operation queued behind others of its thread, nothing else says that it cannot begin before it was issued.
    """
    if host is None:
        return
    number = {identity: node for node, identity in enumerate(host.id)}
    operator = {node: place for place, node in enumerate(join.host) if node >= 0}
    threads = trace.operators.thread
    for place, name in enumerate(trace.operators.name):
        if ":" not in name or annotated(name, CPU_BACKENDS) is None or join.host[place] < 0:
            continue
        caller = operator.get(number.get(host.parent[join.host[place]], -1), -1)
        if caller < 0 or threads[caller] == threads[place]:
            continue
        first, second = found.operator.get(caller, -1), found.operator.get(place, -1)
        if first >= 0 and second >= 0 and draft.end[first] <= draft.start[second]:
            draft.edge(first, second)
