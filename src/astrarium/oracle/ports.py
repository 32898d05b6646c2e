"""closed_form: an NPU's ports of each dim, in and out, carry one message at a time."""

from __future__ import annotations

from bisect import bisect
from math import prod

from astrarium.engine.outcome import PacketCounts
from astrarium.engine.plan import Changes, Dim, NetworkPlan, Shape
from astrarium.oracle.clock import ARRIVE, DEPART, DONE, Clock, Event, Key, Order, ticks
from astrarium.oracle.fabric import coordinate, differing_dims, end_at, first_switches, hops, port_numbers, strides
from astrarium.oracle.medium import Keys
from astrarium.oracle.record import Port, Traffic

__all__ = ["Ports"]


class Way:
    """One dim of a message between two NPUs: port numbers at both ends, hops, and links that it loads there."""

    __slots__ = ("bandwidth", "charged", "entry", "exit", "head", "hops", "line", "slower", "step")

    def __init__(self, d: int, dim: Dim, stride: int, source: int, destination: int) -> None:
        start, end = coordinate(source, stride, dim.npus), coordinate(destination, stride, dim.npus)
        count = hops(dim.shape, dim.npus, start, end)
        out, into = port_numbers(dim, start, end)
        self.exit: Port | None = (d, source, -1, out)
        self.entry: Port | None = (d, -1, destination, into)
        first, last = end_at(dim, start), end_at(dim, end)
        self.head = ticks(dim.latency * (1 if dim.shape == Shape.MESH else count) if first is last
                          else first.latency + last.latency)
        self.bandwidth, self.slower = first.bandwidth, min(first.bandwidth, last.bandwidth)     # out of its port; into
        self.charged = count if dim.shape in (Shape.RING, Shape.RING_ONE_WAY) else 1
        self.line = dim.shape == Shape.MESH     # then from NPU to NPU
        self.hops, self.step = count, -stride if end < start else stride

    def links(self, at: int) -> list[Port]:
        """The out ports of a line that a message takes from NPU `at` on."""
        assert self.exit is not None
        d, _, _, number = self.exit
        return [(d, at + k * self.step, -1, number) for k in range(self.hops)]


def _half(d: int, dim: Dim, source: int, destination: int, npus: int) -> Way:
    """Between an NPU and its switch: only the NPU has a port."""
    up = destination >= npus
    way = Way(d, dim, 1, 0, 0)
    way.exit, way.entry = (d, source, -1, 0) if up else None, None if up else (d, -1, destination, 0)
    way.head = ticks(dim.latency)
    return way


class Ports:
    """closed_form: out ports at the source, then the head travels, then in ports at the destination; cut through."""

    def __init__(self, clock: Clock, network: NetworkPlan, traffic: Traffic | None,
                 changes: Changes | None = None) -> None:
        del changes
        self._clock, self._dims, self._strides, self._traffic = clock, network.dims, strides(network.dims), traffic
        self._switches, self._npus = first_switches(network.dims), prod(dim.npus for dim in network.dims)
        self._free: dict[Port, int] = {}
        self._ways: dict[tuple[int, int], list[Way]] = {}

    def waits(self) -> list[str]:
        """Ports never stand still."""
        return []

    def counts(self) -> PacketCounts | None:
        """No packets."""
        return None

    def send(self, key: Key, order: Order, source: int, destination: int, size: int, delivered: Event,
             tag: int = 0) -> None:
        del tag
        ways = self._ways.get((source, destination))
        if ways is None:
            ways = self._ways[source, destination] = self._found(source, destination)
        keys = key, (*order, key[0], key[1])
        self._clock.at(self._clock.now, DEPART, key, lambda: self._depart(keys, ways, size, delivered))

    def _found(self, source: int, destination: int) -> list[Way]:
        if max(source, destination) >= self._npus:
            d = bisect(self._switches, max(source, destination)) - 1
            return [_half(d, self._dims[d], source, destination, self._npus)]
        return [Way(d, self._dims[d], self._strides[d], source, destination)
                for d in differing_dims(self._dims, self._strides, source, destination)]

    def _depart(self, keys: Keys, ways: list[Way], size: int, delivered: Event) -> None:
        free, start = self._free, self._clock.now
        links: list[tuple[Way, Port]] = []
        at = ways[0].exit[1] if ways[0].exit else 0
        for way in ways:
            if way.line:
                links += [(way, port) for port in way.links(at)]
                at += way.hops * way.step
        # Further lines come when the first is crossed.
        taken = [way for way in ways if not way.line or way is links[0][0]]
        for way in taken:
            start = max(start, free.get(way.exit, 0) if way.exit else 0)
        head = start
        for way in taken:
            wire = ticks(size / way.bandwidth)
            held = wire * way.charged
            head += way.head + held - wire
            if way.exit is None:
                continue
            free[way.exit] = start + held
            if self._traffic is not None:
                self._traffic.add(way.exit, size * way.charged, start, held)
        if len(links) > 1:
            head += ticks(size / links[0][0].bandwidth)
        self._clock.at(head, ARRIVE, keys[1], lambda: self._pass(keys, links[1:], ways, size, delivered))

    def _pass(self, keys: Keys, links: list[tuple[Way, Port]], ways: list[Way], size: int, delivered: Event) -> None:
        """The next of the links that a message passes along a line; at its end, the destination's port."""
        if not links:
            return self._deliver(keys[0], ways, size, delivered)
        (way, port), *rest = links
        wire = ticks(size / way.bandwidth)
        start = max(self._clock.now, self._free.get(port, 0))
        self._free[port] = start + wire
        if self._traffic is not None:
            self._traffic.add(port, size, start, wire)
        there = start + way.head + (wire if rest else 0)
        return self._clock.at(there, ARRIVE, keys[1], lambda: self._pass(keys, rest, ways, size, delivered))

    def _deliver(self, key: Key, ways: list[Way], size: int, delivered: Event) -> None:
        free, start, wire = self._free, self._clock.now, 0
        for way in ways:
            start = max(start, free.get(way.entry, 0) if way.entry else 0)
            wire = max(wire, ticks(size / way.slower))
        for way in ways:
            if way.entry is None:
                continue
            free[way.entry] = start + wire
            if self._traffic is not None:
                self._traffic.add(way.entry, size, start, wire)
        self._clock.at(start + wire, DONE, key, delivered)
