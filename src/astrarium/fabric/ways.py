"""What links cost on ways: the time of a message of 1 MB, and more than any way in a host where they leave one."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from astrarium.arrays import Bool
from astrarium.engine.plan import Graph

__all__ = ["MESSAGE", "costed", "several_ways"]

MESSAGE = 1_000_000     # bytes
MOST = 2**62            # of a way, which crosses each node once at most


def costed(graph: Graph, npus: int, leaving: Bool, span: int) -> Graph:
    """The graph with `cost`: ps in which `MESSAGE` crosses a link, and 1, so that of ways that take equally long the
    one of fewer links counts. An NPU that forwards a message costs as much as the slowest link once more: the network
    forwards first, other hosts last. Links that are `leaving` [links] a host of at most `span` nodes cost more than
    any way inside one: what can stay on the links of a host does."""
    time = (graph.latency + MESSAGE / graph.bandwidth) * 1000
    most = MOST // graph.nodes // (2 * (1 + span))
    cost = np.rint(np.minimum(time, most - 1)).astype(np.int64) + 1
    slowest = int(cost.max(initial=0))
    return replace(graph, cost=cost + np.where(graph.target < npus, slowest, 0)
                   + np.where(leaving, 2 * slowest * span, 0))


def several_ways(graph: Graph) -> bool:
    """Whether two nodes may have several ways: there are more links than a tree has."""
    return int(graph.source.size) // 2 >= graph.nodes
