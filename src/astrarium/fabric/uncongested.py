"""The dims that take as long as a graph in which nothing queues between NPUs: what `closed_form` makes of a fabric.

Nodes between one NPU and one device (cards) join their links. Links of NPUs, and of devices that join NPUs only, are
dims (`recognise`). The other devices must be a folded Clos network, to which each NPU has one link. It becomes one
switch dim of the NPUs at one place of the inner dims. Its inside may not be a bottleneck: traffic that each switch
spreads over its links upwards, in proportion to their bandwidth, loads no link above its bandwidth, whatever the NPUs
send.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.arrays import F64, I64
from astrarium.engine.connected import connected
from astrarium.engine.plan import Dim, Graph, Shape
from astrarium.fabric.recognise import inner_dims

__all__ = ["Uncongested", "uncongested"]

Name = Callable[[int], str]
ROUNDING = 1e-9     # of sums of bandwidths


class Uncongested(Struct, frozen=True):
    """Dims, and how many ns less than the last dim takes a way between some of its NPUs has (NPUs behind one leaf)."""

    dims: tuple[Dim, ...]
    nearer: float = 0.0


class _Links(Struct, frozen=True, eq=False):
    """Links of a graph, each direction one."""

    source: I64
    target: I64
    bandwidth: F64
    latency: F64

    def of(self, chosen: npt.NDArray[np.bool_]) -> _Links:
        return _Links(self.source[chosen], self.target[chosen], self.bandwidth[chosen], self.latency[chosen])


class _UnlikeError(Exception):
    """Why a graph has no such dims."""


def uncongested(graph: Graph, npus: int, name: Name) -> Uncongested | str:
    """The dims; or a sentence that says why there are none, with names of nodes by `name`."""
    try:
        return _found(graph, npus, name)
    except _UnlikeError as failure:
        return str(failure)


def _found(graph: Graph, npus: int, name: Name) -> Uncongested:
    links = _joined(_Links(graph.source.astype(np.int64), graph.target.astype(np.int64), graph.bandwidth,
                           graph.latency), graph.nodes, npus)
    between = (links.source >= npus) & (links.target >= npus)
    outside = np.zeros(graph.nodes, np.bool_)
    outside[links.source[between]] = outside[links.target[between]] = True
    inside = links.of(~(outside[links.source] | outside[links.target]))
    dims = inner_dims(inside.source, inside.target, inside.bandwidth, inside.latency, npus)
    if dims is None:
        raise _UnlikeError("its links between NPUs, or to devices that join NPUs only, are no dims")
    stride = int(np.prod([dim.npus for dim in dims], dtype=np.int64))
    if not between.any():
        if stride != npus:
            raise _UnlikeError(f"its links are dims of {stride} NPUs, of {npus}")
        return Uncongested(dims)
    if stride == npus:
        raise _UnlikeError("its links between NPUs join all of them, and switches do, too")
    outer, nearer = _clos(links.of(outside[links.source] | outside[links.target]), graph.nodes, npus, stride, name)
    return Uncongested((*dims, outer), nearer)


def _joined(links: _Links, nodes: int, npus: int) -> _Links:
    """Links without nodes between one NPU and one device: the slower bandwidth, the sum of the latencies."""
    while True:
        degree = np.bincount(links.source, minlength=nodes)
        to_npu = np.bincount(links.source[links.target < npus], minlength=nodes)
        passed = (degree == 2) & (to_npu == 1) & (np.arange(nodes) >= npus)
        if not passed.any():
            return links
        near = passed[links.source] & (links.target < npus)
        far = passed[links.source] & (links.target >= npus) & ~passed[links.target]
        npu_of, at, rate, wait = np.full(nodes, -1), np.full(nodes, -1), np.zeros(nodes), np.zeros(nodes)
        npu_of[links.source[near]] = links.target[near]
        at[links.source[far]] = links.target[far]
        rate[links.source[near]], wait[links.source[near]] = links.bandwidth[near], links.latency[near]
        rate[links.source[far]] = np.minimum(rate[links.source[far]], links.bandwidth[far])
        wait[links.source[far]] += links.latency[far]
        gone = np.flatnonzero(passed & (at >= 0))
        if not gone.size:
            return links
        kept = links.of(~(np.isin(links.source, gone) | np.isin(links.target, gone)))
        links = _Links(np.concatenate([kept.source, npu_of[gone], at[gone]]),
                       np.concatenate([kept.target, at[gone], npu_of[gone]]),
                       np.concatenate([kept.bandwidth, rate[gone], rate[gone]]),
                       np.concatenate([kept.latency, wait[gone], wait[gone]]))


def _clos(links: _Links, nodes: int, npus: int, stride: int, name: Name) -> tuple[Dim, float]:
    """The switch dim of a folded Clos network, and how much nearer some of its NPUs are."""
    entry = links.of(links.source < npus)
    if not np.array_equal(np.sort(entry.source), np.arange(npus)):
        many = np.flatnonzero(np.bincount(entry.source, minlength=npus) != 1)
        raise _UnlikeError(f"{name(int(many[0]))} has not one link to switches that join switches")
    order = np.argsort(entry.source)
    leaf, rate, wait = entry.target[order], entry.bandwidth[order], entry.latency[order]
    if (rate != rate[0]).any() or (wait != wait[0]).any():
        raise _UnlikeError("its NPUs have unequal links to switches that join switches")
    tier = _tiers(links, nodes, npus, name)
    apart, joins = _joining(links, tier, leaf.reshape(-1, stride))
    climbs = [_climb(links, tier, low, rate[0], name) for low in range(1, joins)]
    _evenly(links, tier, np.unique(leaf), joins, name)
    latency = [float(wait[0]), *climbs]
    return (Dim(Shape.SWITCH, npus // stride, float(rate[0]), sum(latency)),
            2 * (sum(latency) - sum(latency[:apart + 1])))


def _joining(links: _Links, tier: I64, leaf: I64) -> tuple[int, int]:
    """(the highest tier up to which switches join no two groups of NPUs, the lowest that joins all NPUs at one place of
    their groups). `leaf` [groups, places]: the switch of each NPU.

    Groups that a tier joins at one place, it must join at all: else a way over another NPU of a group may be shorter.
    """
    apart = 0
    for top in range(1, int(tier.max()) + 1):
        groups = np.unique(_parts(links, tier, top)[leaf], axis=0)
        if len(groups) == 1:
            return apart, top
        parts = np.concatenate([np.unique(group) for group in groups])
        if np.unique(parts).size < parts.size:
            raise _UnlikeError("its switches join some NPUs of two groups that the inner dims join, and not others")
        apart = top if len(groups) == len(leaf) else apart
    raise _UnlikeError("its switches do not join all NPUs at one place of the inner dims")


def _tiers(links: _Links, nodes: int, npus: int, name: Name) -> I64:
    """[nodes] links to the nearest NPU; 0 for an NPU and for nodes that are not of the network."""
    tier = np.full(nodes, -1)
    tier[:npus] = 0
    here = 0
    while ((tier[links.source] == here) & (tier[links.target] < 0)).any():
        tier[links.target[(tier[links.source] == here) & (tier[links.target] < 0)]] = here + 1
        here += 1
    flat = np.flatnonzero(tier[links.source] == tier[links.target])
    if flat.size:
        one, two = (int(end[flat[0]]) for end in (links.source, links.target))
        raise _UnlikeError(f"{name(one)} and {name(two)} are of one tier and joined")
    found: I64 = np.maximum(tier, 0)
    return found


def _climb(links: _Links, tier: I64, low: int, rate: float, name: Name) -> float:
    """The latency of links from a tier to the next, which carry all that comes from below, and one message as fast as
    an NPU's link does."""
    up = links.of((tier[links.source] == low) & (tier[links.target] == low + 1))
    if (up.latency != up.latency[0]).any():
        raise _UnlikeError(f"links above {name(int(up.source[0]))} and its equals have unequal latencies")
    if (up.bandwidth < rate).any():
        slow = int(up.source[np.argmin(up.bandwidth)])
        raise _UnlikeError(f"a link above {name(slow)} is slower than that of an NPU")
    down = links.of((tier[links.source] == low) & (tier[links.target] == low - 1))
    ups, downs = (np.bincount(each.source, weights=each.bandwidth, minlength=tier.size) for each in (up, down))
    less = np.flatnonzero((tier == low) & (ups < downs * (1 - ROUNDING)))
    if less.size:
        node = int(less[0])
        raise _UnlikeError(f"{name(node)} has {ups[node]:g} GB/s upwards for {downs[node]:g} GB/s below it")
    return float(up.latency[0])


def _evenly(links: _Links, tier: I64, leaves: I64, joins: int, name: Name) -> None:
    """Traffic that is spread over links upwards comes down over the same switches: each leaf reaches each top switch
    with the same share."""
    place = np.zeros(tier.size, np.int64)       # in its tier
    for low in range(1, joins + 1):
        place[tier == low] = np.arange(np.count_nonzero(tier == low))
    share = np.zeros((leaves.size, np.count_nonzero(tier == 1)))
    share[np.arange(leaves.size), place[leaves]] = 1
    for low in range(1, joins):
        up = links.of((tier[links.source] == low) & (tier[links.target] == low + 1))
        step = np.zeros((share.shape[1], np.count_nonzero(tier == low + 1)))
        np.add.at(step, (place[up.source], place[up.target]), up.bandwidth)
        share = share @ (step / step.sum(axis=1, keepdims=True))
    part = _parts(links, tier, joins)[leaves]
    for one in np.unique(part):
        rows = share[part == one]
        unlike = np.flatnonzero(np.abs(rows - rows[0]).max(axis=1) > ROUNDING)
        if unlike.size:
            first, other = (name(int(leaves[part == one][row])) for row in (0, unlike[0]))
            raise _UnlikeError(f"{first} and {other} reach the switches above them unequally")


def _parts(links: _Links, tier: I64, top: int) -> I64:
    """[nodes] the lowest node with which each is connected over switches of tiers up to `top`."""
    low = np.minimum(tier[links.source], tier[links.target])
    below = (low > 0) & (np.maximum(tier[links.source], tier[links.target]) <= top)
    return connected(tier.size, links.source[below], links.target[below])
