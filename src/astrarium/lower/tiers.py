"""Memory nodes that name a tier: how long they take, and in which order.

A transfer is a DELAY that has a size. It takes latency + size / rate of its tier, which is the NPU's own part of a tier
that NPUs share. The transfers of an NPU to or from one tier run one at a time in the order of the program, as copies of
one stream do: each waits for the one before. A tier with `duplex` has an order of loads and one of stores.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from astrarium.arrays import F64, I16, I32, I64, Bool
from astrarium.compute.checked import LIMIT_PS, to_ps
from astrarium.engine.plan import Lane
from astrarium.errors import InputError, nearest
from astrarium.lower.attached import numbers_of
from astrarium.memory.access import access_ns
from astrarium.memory.config import Memory
from astrarium.memory.tiers import HERE, tier_of
from astrarium.trace.work import TraceClass
from astrarium.vocab import NodeKind

__all__ = ["Reached", "checked_ps", "reached"]

NOWHERE = -2        # a node that reaches no tier


class Reached(NamedTuple):
    """The nodes of a class that reach tiers: `nodes` (indexes) with `duration` (ps), `lane` and `code` of each
    (`engine.plan.code_of` of those that reach a memory at a switch, else -1); and what all nodes of the class wait for:
    `parent_ptr` and `parent` as in TraceClass."""

    nodes: I64
    duration: I64
    lane: I16
    code: I32
    parent_ptr: I64
    parent: I32


def reached(trace: TraceClass, memory: Memory) -> Reached | None:
    """What the nodes of a class that name tiers take on an NPU with `memory`; None where none names one. Where nodes
    without a name can only mean the one tier that there is, they are among them.

    Raises TraceError for a name that no tier has, and for work beside a tier without a processor.
    """
    if trace.tier is None or not (trace.tier >= 0).any():
        return None
    tier, source = _numbers(trace, trace.tier, memory), None
    if memory.remote.kind == "none" and len(memory.tiers) == 1:
        tier[_moves(trace) & (tier == NOWHERE)] = 0
    if trace.source_tier is not None:
        source = _numbers(trace, trace.source_tier, memory)
    nodes = np.flatnonzero(tier != NOWHERE)
    times = np.zeros(nodes.size, np.float64)
    lane, code = np.full(nodes.size, -1, np.int16), np.full(nodes.size, -1, np.int64)
    at_switches = numbers_of(memory)
    transfers = _moves(trace)[nodes]
    size = trace.tensor_size.astype(np.float64)
    for number in np.unique(tier[nodes]).tolist():
        mine = tier[nodes] == number
        times[mine & transfers] = _transfer_ns(memory, number, size[nodes[mine & transfers]])
        times[mine & ~transfers] = _step_ns(trace, memory, number, nodes[mine & ~transfers], size)
        if number in at_switches:
            code[mine] = at_switches[number]
        elif number >= 0 and memory.tiers[number].over == "network":
            lane[mine] = Lane.COMM
    if source is not None:
        for number in np.unique(source[source != NOWHERE]).tolist():
            both = source[nodes] == number
            times[both] = np.maximum(times[both], _transfer_ns(memory, number, size[nodes[both]]))
            for node in nodes[both & ((code >= 0) | (number in at_switches))][:1].tolist():
                raise trace.fault(node, "copies between a memory at the network's switches and another tier",
                                  expected="a load and a store, or tiers without a dim")
    lane[~transfers] = Lane.CPU
    messages = code >= 0
    times[messages], code = 0.0, np.where(messages, -2 - 2 * code - (trace.type[nodes] == NodeKind.MEM_STORE), -1)
    pointer, parent = _behind_each_other(trace, list(_queues(trace, memory, tier, source)))
    return Reached(nodes, checked_ps(trace, nodes, times), lane, code.astype(np.int32), pointer, parent)


def checked_ps(trace: TraceClass, nodes: I64, ns: F64) -> I64:
    """Times of `nodes` (indexes) in ps. Raises TraceError, which names the node, for one that is longer than a run can
    be."""
    try:
        return to_ps(ns)
    except InputError as error:
        first = int(nodes[~(np.rint(ns * 1000.0) <= LIMIT_PS)][0])
        raise trace.fault(first, error.message, expected=error.expected) from error


def _moves(trace: TraceClass) -> Bool:
    found: Bool = (trace.type == NodeKind.MEM_LOAD) | (trace.type == NodeKind.MEM_STORE)
    return found


def _numbers(trace: TraceClass, named: I32, memory: Memory) -> I32:
    """[nodes] number of the tier that each node names, HERE, or NOWHERE."""
    number = np.full(len(trace.tiers) + 1, NOWHERE, np.int32)
    for place, label in enumerate(trace.tiers):
        found = tier_of(memory.tiers, label)
        if found is None:
            names = [tier.name for tier in memory.tiers]
            for node in np.flatnonzero(named == place)[:1].tolist():
                hint = nearest(label, names)
                raise trace.fault(node, f"reaches memory {label!r}, and memory.tiers has none of that name or label"
                                  + (f" (did you mean {hint!r}?)" if hint else ""),
                                  expected="one of " + ", ".join(["local", *names]))
        else:
            number[place] = found
    return number[named]


def _transfer_ns(memory: Memory, number: int, size: F64) -> F64:
    return access_ns(size, memory if number == HERE else memory.tiers[number])


def _step_ns(trace: TraceClass, memory: Memory, number: int, nodes: I64, size: F64) -> F64:
    """What a processor beside a tier does with the tier's bytes."""
    rate = None if number == HERE else memory.tiers[number].step_rate
    for node in nodes[:1].tolist() if rate is None else ():
        raise trace.fault(node, "computes at a tier that has no processor",
                          expected=f"memory.tiers[{max(number, 0)}].step_bandwidth")
    return size[nodes] / (rate or 1.0)


def _queues(trace: TraceClass, memory: Memory, tier: I32, source: I32 | None) -> Iterator[I64]:
    """Nodes that wait for each other, of every tier (and way, where it has one for each)."""
    moves = _moves(trace)
    for number in range(HERE, len(memory.tiers)):
        to = moves & (tier == number)
        away = np.zeros(tier.size, np.bool_) if source is None else source == number
        both = number == HERE or not memory.tiers[number].duplex
        stores = to & ((trace.type == NodeKind.MEM_STORE) | (source != NOWHERE if source is not None else False))
        ways = [to | away] if both else [(to & ~stores) | away, stores]
        yield from (np.flatnonzero(way) for way in ways if np.count_nonzero(way) > 1)


def _behind_each_other(trace: TraceClass, queues: Sequence[I64]) -> tuple[I64, I32]:
    """`parent_ptr` and `parent` of a class whose nodes of each queue run in the order of the program, too."""
    nodes = trace.node_id.size
    child = np.repeat(np.arange(nodes, dtype=np.int64), np.diff(trace.parent_ptr))
    place = _program_order(trace, child)
    pairs = [child * nodes + trace.parent]
    for queue in queues:
        ordered = queue if place is None else queue[np.argsort(place[queue])]
        pairs.append(ordered[1:] * nodes + ordered[:-1])
    waits, parent = np.divmod(np.unique(np.concatenate(pairs)), max(nodes, 1))
    pointer = np.zeros(nodes + 1, np.int64)
    np.cumsum(np.bincount(waits, minlength=nodes), out=pointer[1:])
    return pointer, parent.astype(np.int32)


def _program_order(trace: TraceClass, child: I64) -> I64 | None:
    """[nodes] place of every node in an order in which it may run, the lowest index first; None: their own order."""
    if bool((trace.parent < child).all()):
        return None
    left = np.diff(trace.parent_ptr).tolist()
    children: list[list[int]] = [[] for _ in left]
    for one, other in zip(child.tolist(), trace.parent.tolist(), strict=True):
        children[other].append(one)
    ready, place, count = [node for node, many in enumerate(left) if not many], np.zeros(len(left), np.int64), 0
    while ready:
        node = heapq.heappop(ready)
        place[node], count = count, count + 1
        for each in children[node]:
            left[each] -= 1
            if not left[each]:
                heapq.heappush(ready, each)
    return place
