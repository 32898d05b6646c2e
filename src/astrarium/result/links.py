"""Traffic per link or port, and per dim."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from msgspec import Struct

from astrarium.arrays import F64, I32, I64
from astrarium.engine.outcome import Outcome, link_counts
from astrarium.engine.plan import Backend, Plan

__all__ = ["Dims", "LinkNames", "Links", "bytes_out", "dims_of", "links_of"]


class LinkNames(Protocol):
    """What nodes and links of a graph are called."""

    def name(self, node: int) -> str: ...
    def tier(self, link: int) -> str: ...


class Links(Struct, frozen=True, eq=False):
    """Links or ports that carried something [links].

    Of a graph `source` and `target` are its nodes and `number` the links' rows in it (else empty), and `names` says
    what they are. `source` or `target` is -1 where a switch or a port has no peer: with closed_form a row with target
    -1 is a port out, one with source -1 a port in. `busy` ps; `utilisation` = busy / makespan, never above 1 natively.
    `count`: how many equal links a row represents in a folded run, else 1.
    Numbers from `npus` on are ports of memories at switches.
    """

    dim: I32
    source: I32
    target: I32
    size: I64
    busy: I64
    utilisation: F64
    npus: int
    number: I32
    count: I64
    names: LinkNames | None = None

    def tiers(self) -> tuple[str, ...]:
        """The tier of each link of a graph (empty if unknown); nothing without names."""
        return () if self.names is None else tuple([self.names.tier(number) for number in self.number.tolist()])

    def name(self, link: int) -> str:
        """`dim 0: NPU 3 -> NPU 4`; a switch, or the network side of a port, is left out. Of a graph `leaf.0.asic.0 ->
        spine.1.asic.0`, or its numbers."""
        if self.number.size:
            nodes = int(self.source[link]), int(self.target[link])
            return " -> ".join(f"node {node}" if self.names is None else self.names.name(node) for node in nodes)
        source, target = int(self.source[link]), int(self.target[link])
        ends = f"{self._end(source)} -> {self._end(target)}"
        if target < 0:
            ends = f"out of {self._end(source)}"
        elif source < 0:
            ends = f"into {self._end(target)}"
        return f"dim {int(self.dim[link])}: {ends}"

    def _end(self, number: int) -> str:
        return f"NPU {number}" if number < self.npus else f"memory port {number - self.npus}"


class Dims(Struct, frozen=True, eq=False):
    """Per network dim [dims]: bytes sent (counted where they leave), mean and highest utilisation of its links.

    `busy_over_time` [dims, bins]: how long its links out of NPUs were busy in each bin of `bin` ps, added up; the last
    bin ends with the last rank. `utilisation_over_time` is that over the time that they had, those that carried nothing
    in the whole run left out. No bins for a network that says nothing of its links (a plug-in's).
    """

    size: I64
    mean_utilisation: F64
    max_utilisation: F64
    bin: int
    busy_over_time: I64
    utilisation_over_time: F64


def links_of(plan: Plan, outcome: Outcome, names: LinkNames | None = None) -> Links:
    """The traffic that the run recorded, by dim, ports out before ports in, NPU, then bytes or number. `names`: of a
    graph."""
    ties = [outcome.link_number] if outcome.link_number.size else [outcome.link_busy, outcome.link_bytes]
    order = np.lexsort((*ties, outcome.link_to, outcome.link_from, outcome.link_from < 0, outcome.link_dim))
    busy = outcome.link_busy[order]
    return Links(outcome.link_dim[order], outcome.link_from[order], outcome.link_to[order], outcome.link_bytes[order],
                 busy, busy / max(outcome.makespan, 1), plan.npus,
                 outcome.link_number[order] if outcome.link_number.size else outcome.link_number,
                 link_counts(outcome, plan.npu_of)[order], names)


def dims_of(plan: Plan, outcome: Outcome, links: Links) -> Dims:
    """The traffic of each dim, of all ranks; a graph is one dim. Means are over the links that carried something."""
    count, many = _count(plan), links.count
    leaves = links.source >= 0 if plan.network.backend == Backend.PORTS else np.ones(links.dim.size, np.bool_)
    size = np.zeros(count, np.int64)
    np.add.at(size, links.dim[leaves], (links.size * many)[leaves])
    total, used, most = np.zeros(count), np.zeros(count), np.zeros(count)
    np.add.at(total, links.dim, links.utilisation * many)
    np.add.at(used, links.dim, many)
    np.maximum.at(most, links.dim, links.utilisation)
    out = np.zeros(count)
    np.add.at(out, links.dim[links.source >= 0], many[links.source >= 0])
    return Dims(size, total / np.maximum(used, 1), most, outcome.use_width, *_over_time(outcome, out))


def bytes_out(plan: Plan, links: Links) -> I64:
    """Bytes that left NPUs [dims], of all ranks: what an NPU forwards counts again (`contention`), what a switch sends
    does not. A graph is one dim."""
    size = np.zeros(_count(plan), np.int64)
    leaves = links.source >= 0
    np.add.at(size, links.dim[leaves], (links.size * links.count)[leaves])
    return size


def _count(plan: Plan) -> int:
    """Dims of the traffic."""
    return len(plan.network.dims) if plan.network.graph is None else 1


def _over_time(outcome: Outcome, links: F64) -> tuple[I64, F64]:
    """(busy ps, utilisation) [dims, bins] of that many links per dim, up to the end of the run."""
    width, makespan = outcome.use_width, outcome.makespan
    busy = outcome.use_busy.reshape(len(links), -1)[:, :-(-makespan // width) if width else 0]
    span = np.minimum(makespan - width * np.arange(busy.shape[1]), width)
    return busy, busy / (np.maximum(links, 1)[:, None] * span)
