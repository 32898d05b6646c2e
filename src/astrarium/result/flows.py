"""What packets did: each message's time (a flow), and each link's queue, marks and pauses."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from astrarium.arrays import I32, I64
from astrarium.engine.outcome import Outcome
from astrarium.engine.plan import Plan
from astrarium.fabric.graph import graph_of
from astrarium.result.links import LinkNames

__all__ = ["Flows", "PacketLinks", "flows_of", "packet_links_of"]


class Flows(Struct, frozen=True, eq=False):
    """Messages [flows] by the time at which they asked for their first link, the first 2^20 that arrived: NPUs, bytes,
    and times in ps. `lost`: bytes that were on links as these failed, and that the links' first nodes sent again."""

    source: I32
    destination: I32
    size: I64
    asked: I64
    arrived: I64
    lost: I64

    @property
    def time(self) -> I64:
        """Completion times (ps): from the moment a message asked for its first link until its last byte arrived."""
        return self.arrived - self.asked


class PacketLinks(Struct, frozen=True, eq=False):
    """Links [links] where packets waited, were marked or were paused. `number`: in the graph (of dims, in that of
    `fabric.graph`); `source` and `target`: its nodes; bytes at the most; `paused` ps."""

    number: I64
    source: I32
    target: I32
    queue: I64
    buffer: I64
    marks: I64
    pauses: I64
    paused: I64
    npus: int
    names: LinkNames | None = None

    def name(self, row: int) -> str:
        """`leaf.0.asic.0 -> spine.1.asic.0`; of dims `NPU 0 -> switch 2`."""
        return " -> ".join(self._end(int(node)) for node in (self.source[row], self.target[row]))

    def _end(self, node: int) -> str:
        if self.names is not None:
            return self.names.name(node)
        return f"NPU {node}" if node < self.npus else f"switch {node - self.npus}"


def flows_of(outcome: Outcome) -> Flows | None:
    """The messages of a run of packets; None for any other, and where none was recorded."""
    found = outcome.packets
    if found is None or not found.size.size:
        return None
    return Flows(found.source, found.destination, found.size, found.asked, found.arrived, found.lost)


def packet_links_of(plan: Plan, outcome: Outcome, names: LinkNames | None) -> PacketLinks | None:
    """The links of a run of packets on which something waited, was marked or was paused; None for any other run."""
    found = outcome.packets
    if found is None or not found.queue.size:
        return None
    graph = graph_of(plan.network.dims) if plan.network.graph is None else plan.network.graph
    columns = [each if each.size else np.zeros_like(found.queue)      # credits have no marks and no pauses
               for each in (found.queue, found.buffer, found.marks, found.pauses, found.paused)]
    rows = np.flatnonzero(np.logical_or.reduce([each > 0 for each in columns]))
    queue, buffer, marks, pauses, paused = (each[rows] for each in columns)
    return PacketLinks(rows, graph.source[rows], graph.target[rows], queue, buffer, marks, pauses, paused, plan.npus,
                       names)
