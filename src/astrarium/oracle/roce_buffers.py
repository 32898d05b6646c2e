"""The bytes of a RoCE node that its links share."""

from __future__ import annotations

from astrarium.engine.plan import RoceRules
from astrarium.errors import UnsupportedError
from astrarium.oracle.net import Net

__all__ = ["shared_bytes"]


def shared_bytes(net: Net, rules: RoceRules) -> list[int]:
    """Per node its buffer without the headroom of its links. UnsupportedError where nothing is left."""
    ways, packet = net.ways, net.rules.size + net.rules.header
    shared, links = [rules.buffer] * ways.nodes, [0] * ways.nodes
    for (_, node), latency, bandwidth, inside in zip(ways.ends, ways.latency, ways.bandwidth, ways.inside, strict=True):
        if inside:
            continue
        shared[node] -= int(2 * (latency / 1000 * bandwidth)) + 3 * packet
        links[node] += 1
    for node, left in enumerate(shared):
        if links[node] > 1 and left < 1:
            raise UnsupportedError("workload", f"a RoCE buffer of {rules.buffer} bytes at node {node}: the headroom of "
                                   f"its links takes {rules.buffer - left}")
    return shared
