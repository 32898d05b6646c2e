"""What links cost on ways: the time of a message of 1 MB, so that ways inside a host go over its fast links."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from astrarium.engine.plan import Graph

__all__ = ["MESSAGE", "costed", "several_ways"]

MESSAGE = 1_000_000     # bytes
MOST = 2**62            # of a way, which crosses each node once at most


def costed(graph: Graph, npus: int) -> Graph:
    """The graph with `cost`: ps in which `MESSAGE` crosses a link, and 1, so that of ways that take equally long the
    one of fewer links counts. An NPU that forwards a message costs as much as the slowest link once more: the network
    forwards first, other hosts last."""
    time = (graph.latency + MESSAGE / graph.bandwidth) * 1000
    most = MOST // graph.nodes // 2
    cost = np.rint(np.minimum(time, most - 1)).astype(np.int64) + 1
    return replace(graph, cost=cost + np.where(graph.target < npus, cost.max(initial=0), 0))


def several_ways(graph: Graph) -> bool:
    """Whether two nodes may have several ways: there are more links than a tree has."""
    return int(graph.source.size) // 2 >= graph.nodes
