"""Memories at switches of the network: those of a design as the engine takes them, and the nodes that reach them."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from astrarium.arrays import I32
from astrarium.engine.plan import Attached, code_of
from astrarium.memory.config import Memory
from astrarium.network.config import Network
from astrarium.trace.work import TraceClass
from astrarium.vocab import NodeKind

__all__ = ["REMOTE", "attached_of", "codes_of", "numbers_of"]

REMOTE = -2     # remote memory, among numbers of tiers


def numbers_of(memory: Memory) -> Mapping[int, int]:
    """Number in the plan of each memory at switches, by number of its tier, or REMOTE: in order of their dims."""
    dims = {REMOTE: memory.remote.dim, **{number: tier.dim for number, tier in enumerate(memory.tiers)}}
    found = sorted((dim, which) for which, dim in dims.items() if dim is not None)
    return {which: number for number, (_, which) in enumerate(found)}


def attached_of(memory: Memory, network: Network) -> tuple[Attached, ...]:
    """The memories at switches. One serves the NPUs that dims 0 to its own join, at each switch of its dim among them:
    as many as dims before its own have NPUs, each with an equal part of its rate. As many links lead to a switch as
    NPUs' links go into that: a wider one would serve one NPU after the other, as messages leave one at a time.
    """
    found = []
    for which in numbers_of(memory):
        dim = memory.remote.dim if which == REMOTE else memory.tiers[which].dim
        assert dim is not None
        ports, latency, rate = prod([each.npus for each in network.flat[:dim]]), memory.remote.latency, 0.0
        if which == REMOTE:
            rate = float(memory.remote.bandwidth or 0.0)
        else:
            tier = memory.tiers[which]
            rate, latency = float(tier.total or float(tier.bandwidth) * tier.npus), tier.latency
        at, mine = rate / ports, network.flat[dim]
        links = max(1, min(int(at / float(mine.message_bandwidth)), mine.npus))
        found.append(Attached(dim, at / links, float(latency), links))
    return tuple(found)


def codes_of(trace: TraceClass, memory: Memory) -> I32:
    """[nodes] `Program.slot` of remote accesses: -1 but where remote memory, or the only tier in its place, is at
    switches."""
    number = numbers_of(memory).get(REMOTE if memory.remote.kind != "none" or len(memory.tiers) != 1 else 0)
    if number is None:
        return np.full(trace.type.size, -1, np.int32)
    found = np.full(trace.type.size, code_of(number, False), np.int32)
    found[trace.type == NodeKind.MEM_STORE] = code_of(number, True)
    return found
