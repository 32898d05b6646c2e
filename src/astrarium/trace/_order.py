"""Is one node of a trace bound to be issued before another?"""

from __future__ import annotations

from astrarium.trace.columns import Columns
from astrarium.trace.graph import Dependencies, graph_of

__all__ = ["forced_before"]


def forced_before(columns: Columns, first: int, second: int, deps: Dependencies) -> bool:
    """Whether node index `first` is always issued before `second`.

    So it is where `second` waits for it, directly or not, and where both wait for the same nodes and `first` has the
    lower id (equally ready nodes are issued in order of id).
    """
    graph = graph_of(columns, deps)

    def parents(node: int) -> set[int]:
        return {int(p) for p in graph.parent[graph.ptr[node]:graph.ptr[node + 1]]}

    if parents(first) == parents(second) and int(columns.node_id[first]) < int(columns.node_id[second]):
        return True
    seen, work = {second}, [second]
    while work:
        for parent in parents(work.pop()):
            if parent == first:
                return True
            if parent >= 0 and parent not in seen:
                seen.add(parent)
                work.append(parent)
    return False
