"""A rival of every back end for traffic that meets no other: each message takes what it takes alone, and it is noted
when it uses which link. Messages from one NPU to another leave one after the other.

If no two messages use one link at one time, none waits for another, and the makespan of a back end is the rival's. The
rules are those of the pages of the back ends (docs/background).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from itertools import pairwise
from math import prod

from astrarium.engine.outcome import PacketCounts
from astrarium.engine.plan import NetworkPlan, Plan, Shape
from astrarium.network.granularity import GRANULARITY
from astrarium.oracle.clock import DEPART, DONE, Clock, Event, Key, Order, ticks
from astrarium.oracle.engine import Engine
from astrarium.oracle.fabric import Hop, coordinate, fabric_of, port_numbers, strides

Use = tuple[Hashable, int, int]     # a link or port, and from when until when after its start a message has it
Trip = tuple[int, list[Use]]        # ps until the message is there, and what it used
Rule = Callable[[NetworkPlan, Sequence[Hop], int, int, int], Trip]      # network, way, bytes, source, destination
Pair = tuple[int, int]                # nodes: where messages begin and end
RINGS = (Shape.RING, Shape.RING_ONE_WAY)


def heads(network: NetworkPlan, way: Sequence[Hop], size: int, source: int, destination: int) -> Trip:
    """Heads go on at once, and each link is held for a message's time (contention, and packets without headers)."""
    del network, source, destination
    head, tail, uses = 0, 0, list[Use]()
    for hop in way:
        wire = ticks(size / hop.bandwidth)
        uses.append((hop.port, head, head + wire))
        tail = max(head + wire, tail) + hop.latency
        head += hop.latency
    return tail, uses


def whole(network: NetworkPlan, way: Sequence[Hop], size: int, source: int, destination: int) -> Trip:
    """Every link stores the message before it goes on (contention, store_and_forward)."""
    del network, source, destination
    now, uses = 0, list[Use]()
    for hop in way:
        wire = ticks(size / hop.bandwidth)
        uses.append((hop.port, now, now + wire))
        now += wire + hop.latency
    return now, uses


def at_once(network: NetworkPlan, way: Sequence[Hop], size: int, source: int, destination: int) -> Trip:
    """All links carry the message at once, at the rate of the slowest (fluid)."""
    del network, source, destination
    wire = max((ticks(size / hop.bandwidth) for hop in way), default=0)
    return wire + sum(hop.latency for hop in way), [(hop.port, 0, wire) for hop in way]


def packets(network: NetworkPlan, way: Sequence[Hop], size: int, source: int, destination: int) -> Trip:
    """Every link stores a packet before it goes on; a link carries one after the other (packets)."""
    del source, destination
    rules, first, free = network.packets, [-1] * len(way), [0] * len(way)
    there, left = 0, size
    while True:
        payload, there = min(left, rules.size), 0
        for number, hop in enumerate(way):
            start = max(there, free[number])
            first[number] = start if first[number] < 0 else first[number]
            free[number] = start + ticks((payload + rules.header) / hop.bandwidth)
            there = free[number] + hop.latency
        left -= payload
        if left <= 0:
            return there, [(hop.port, *ends) for hop, *ends in zip(way, first, free, strict=True)]


def ports(network: NetworkPlan, way: Sequence[Hop], size: int, source: int, destination: int) -> Trip:
    """Ports at both ends of each dim; along a ring each further hop costs a message's time, and a line is passed NPU by
    NPU (closed_form)."""
    dims, stride = network.dims, strides(network.dims)
    if max(source, destination) >= prod(dim.npus for dim in dims):      # a switch has no ports
        wire, latency = ticks(size / way[0].bandwidth), way[0].latency
        start = 0 if source < destination else latency
        return latency + wire, [(way[0].port, start, start + wire)]
    by_dim: dict[int, list[Hop]] = {}
    for hop in way:
        by_dim.setdefault(hop.port[0], []).append(hop)
    wires = {d: ticks(size / dims[d].bandwidth) for d in by_dim}
    numbers = {d: port_numbers(dims[d], *(coordinate(end, stride[d], dims[d].npus) for end in (source, destination)))
               for d in by_dim}
    line = [(hop, wires[d]) for d, hops in by_dim.items() if dims[d].shape == Shape.MESH for hop in hops]
    head, uses = 0, list[Use]()
    for d, hops in by_dim.items():
        if dims[d].shape != Shape.MESH:
            charged = wires[d] * (len(hops) if dims[d].shape in RINGS else 1)
            uses.append((("out", d, source, numbers[d][0]), 0, charged))
            head += ticks(dims[d].latency * len(hops)) + charged - wires[d]
    for number, (hop, wire) in enumerate(line):
        start = head if number else 0
        uses.append((hop.port, start, start + wire))
        head += hop.latency + (wire if number < len(line) - 1 else 0)
    slowest = max(wires.values(), default=0)
    return head + slowest, uses + [(("in", d, destination, numbers[d][1]), head, head + slowest) for d in by_dim]


RULES: dict[str, Rule] = {
    "closed_form": ports, "contention": heads, "contention, store_and_forward": whole, "fluid": at_once,
    "packets": packets, "packets, roce": packets, "ns3": packets}


class Alone:
    """A medium whose messages never meet. `late`: they take all that a back end's granularity allows."""

    def __init__(self, clock: Clock, network: NetworkPlan, rung: str, late: bool) -> None:
        self._clock, self._network, self._fabric = clock, network, fabric_of(network)
        self._rule, self._granularity, self._late = RULES[rung], GRANULARITY[rung], late
        self._trips: dict[Pair, dict[int, tuple[int, int, list[Use]]]] = defaultdict(dict)
        self._uses: dict[Hashable, list[tuple[int, int, Pair]]] = defaultdict(list)
        self._free: dict[Pair, int] = {}        # when the last message between two nodes has left the first

    def waits(self) -> list[str]:
        """Nothing waits."""
        return []

    def counts(self) -> PacketCounts | None:
        """No packets."""
        return None

    def send(self, key: Key, order: Order, source: int, destination: int, size: int, delivered: Event,
             tag: int = 0) -> None:
        """Departs in its turn, and takes what it takes alone."""
        del order, tag
        self._clock.at(self._clock.now, DEPART, key, lambda: self._depart(key, (source, destination), size, delivered))

    def _depart(self, key: Key, pair: Pair, size: int, delivered: Event) -> None:
        trip = self._trips[pair].get(size) or self._trip(pair, size)
        lasts, late, uses = self._trips[pair][size] = trip
        begin = self._clock.now
        if self._rule is not at_once:
            begin = max(begin, self._free.get(pair, 0))
            self._free[pair] = begin + late + (uses[0][2] - uses[0][1] if uses else 0)
        for link, start, end in uses:
            if end > start:
                self._uses[link].append((begin + start, begin + end, pair))
        self._clock.at(begin + lasts + late, DONE, key, delivered)

    def _trip(self, pair: Pair, size: int) -> tuple[int, int, list[Use]]:
        """How long a message takes (within the stated granularity of its links'), how late it is, and its links."""
        way = self._fabric.between(*pair)
        lasts, uses = self._rule(self._network, way, size, *pair)
        least = heads(self._network, way, size, *pair)[0]
        most = least + math.ceil(self._beyond(way, size)) + len(way)
        assert least - (most - least) <= lasts <= most
        return lasts, most - lasts if self._late else 0, uses

    def _beyond(self, way: Sequence[Hop], size: int) -> float:
        dims, rules = self._network.dims, self._network.packets
        on_lines = sum(self._network.graph is None and dims[hop.port[0]].shape in (*RINGS, Shape.MESH) for hop in way)
        slowest = min((hop.bandwidth for hop in way), default=1.0)
        return self._granularity.beyond(size, slowest, rules.size, len(way), on_lines)

    def crowded(self, margin: int) -> bool:
        """Whether two messages use one link at one time, or one less than `margin` ps behind another's."""
        return any(following - end < (margin if pair != other else 0) for uses in self._uses.values()
                   for (_, end, pair), (following, _, other) in pairwise(sorted(uses)))


def alone(plan: Plan, rung: str) -> tuple[int, int, bool]:
    """Of a plan over a rung's network: the makespan in ps if no message meets another; how far the back end's
    granularity lets it be from that; and whether messages meet, or may if they are so late."""
    ran = []
    for late in (False, True) if GRANULARITY[rung].inexact else (False,):
        engine = Engine(plan, None)
        engine.network = medium = Alone(engine.clock, plan.network, rung, late)
        engine.run()
        ran.append((max(rank.nodes.finish for rank in engine.ranks), medium))
    slack = ran[-1][0] - ran[0][0]
    return ran[0][0], slack, ran[0][1].crowded(slack)
