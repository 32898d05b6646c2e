"""Which nodes of a graph hang together."""

from __future__ import annotations

import numpy as np

from astrarium.arrays import I64

__all__ = ["connected"]


def connected(nodes: int, source: I64, target: I64) -> I64:
    """The lowest node with which each node is connected, directly or through others.

    Args: `nodes`: their number; `source` and `target` [links]: the ends of each link, in either order.
    Returns: [nodes] equal for nodes of one connected component.
    """
    lowest = np.arange(nodes, dtype=np.int64)
    while True:
        low = np.minimum(lowest[source], lowest[target])
        found: I64 = lowest.copy()
        for end in (source, target, lowest[source], lowest[target]):
            np.minimum.at(found, end, low)
        found = found[found]        # twice as far each time
        if np.array_equal(found, lowest):
            return found
        lowest = found
