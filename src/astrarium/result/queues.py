"""Queues of links over time, of a run of packets that recorded them."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from astrarium.arrays import I32, I64
from astrarium.engine.outcome import Outcome
from astrarium.engine.plan import Plan
from astrarium.fabric.graph import graph_of
from astrarium.result.links import LinkNames

__all__ = ["Queues", "queues_of"]


class Queues(Struct, frozen=True, eq=False):
    """Links for which packets waited, or which PFC stopped [links], over spans of `bin` ps [bins] from 0 on.

    `number`: of the link in the graph (of dims: `fabric.graph`), from node `source` to node `target`. `longest`
    [links, bins]: the longest queue that stood in a span, bytes. `paused` [links, bins]: for how long of it PFC stopped
    the link, ps.
    """

    number: I32
    source: I32
    target: I32
    bin: int
    longest: I64
    paused: I64
    names: LinkNames | None = None

    def name(self, row: int) -> str:
        """`leaf.0.asic.0 -> spine.1.asic.0`, or the numbers of its nodes."""
        ends = int(self.source[row]), int(self.target[row])
        return " -> ".join(f"node {node}" if self.names is None else self.names.name(node) for node in ends)


def queues_of(plan: Plan, outcome: Outcome, names: LinkNames | None = None) -> Queues | None:
    """What `network.packets.queues` recorded, up to the last change; None where it was not asked for, or nothing
    waited."""
    counts = outcome.packets
    if counts is None or not counts.watched.size:
        return None
    graph = plan.network.graph or graph_of(plan.network.dims)
    shape = counts.watched.size, -1
    longest, paused = counts.longest.reshape(shape), counts.paused_in.reshape(shape)
    used = int(np.flatnonzero((longest > 0).any(axis=0) | (paused > 0).any(axis=0)).max(initial=0)) + 1
    number = counts.watched
    return Queues(number, graph.source[number], graph.target[number], counts.width, longest[:, :used],
                  paused[:, :used], names)
