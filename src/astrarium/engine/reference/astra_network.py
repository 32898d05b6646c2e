"""The two networks of ASTRA-sim's analytical back ends: links that are never shared, and FIFO links in one dim.

Durations are truncated to whole ns as doubles: trunc(latency * hops + bytes / bandwidth).
"""

from __future__ import annotations

from collections import deque
from itertools import pairwise

from astrarium.engine.plan import Backend, Dim, NetworkPlan, Shape
from astrarium.engine.reference.astra_messages import Message, Network
from astrarium.engine.reference.clock import Clock
from astrarium.engine.reference.geometry import coordinate, differing_dims, hops, strides
from astrarium.engine.reference.traffic import Port, Traffic
from astrarium.errors import UnsupportedError

__all__ = ["Links", "Unshared", "astra_network"]


class Unshared:
    """A message never meets another; it pays for the lowest dim in which its ends differ, and for no other."""

    def __init__(self, clock: Clock, dims: tuple[Dim, ...], traffic: Traffic | None) -> None:
        self._clock, self._dims, self._strides, self._traffic = clock, dims, strides(dims), traffic
        self._ways: dict[tuple[int, int], tuple[float, float, int]] = {}

    def carry(self, source: int, destination: int, size: int, message: Message) -> None:
        way = self._ways.get((source, destination))
        if way is None:
            way = self._ways[source, destination] = self._way(source, destination)
        latency, bandwidth, dim = way
        self._clock.at(self._clock.now + int(latency + size / bandwidth) * 1000, message.arrive)
        if self._traffic is not None:
            self._traffic.add((dim, source, -1, 0), size, self._clock.now, int(size / bandwidth) * 1000)

    def _way(self, source: int, destination: int) -> tuple[float, float, int]:
        """(latency in ns, bytes per ns, dim) between two different NPUs."""
        d = differing_dims(self._dims, self._strides, source, destination)[0]
        dim, stride = self._dims[d], self._strides[d]
        start, end = coordinate(source, stride, dim.npus), coordinate(destination, stride, dim.npus)
        count = hops(dim.shape, dim.npus, start, end)
        return count * dim.latency, dim.bandwidth, d


class Link:
    """One direction of a wire: a whole message at a time, the others wait in order of arrival."""

    __slots__ = ("_bandwidth", "_busy", "_clock", "_latency", "_name", "_traffic", "_waiting")

    def __init__(self, clock: Clock, dim: Dim, name: Port, traffic: Traffic | None) -> None:
        self._clock, self._bandwidth, self._latency = clock, dim.bandwidth, dim.latency
        self._name, self._traffic = name, traffic
        self._busy = False
        self._waiting: deque[Parcel] = deque()

    def take(self, parcel: Parcel) -> None:
        """Start the parcel, or queue it."""
        if self._busy:
            self._waiting.append(parcel)
        else:
            self._start(parcel)

    def _start(self, parcel: Parcel) -> None:
        self._busy = True
        wire = parcel.size / self._bandwidth
        busy = int(wire) * 1000
        self._clock.at(self._clock.now + int(self._latency + wire) * 1000, parcel.arrive)
        self._clock.at(self._clock.now + busy, self._free)
        if self._traffic is not None:
            self._traffic.add(self._name, parcel.size, self._clock.now, busy)

    def _free(self) -> None:
        self._busy = False
        if self._waiting:
            self._start(self._waiting.popleft())


class Parcel:
    """A message on its way: the links that it still has to cross."""

    __slots__ = ("_message", "_route", "_step", "size")

    def __init__(self, size: int, route: list[Link], message: Message) -> None:
        self.size, self._route, self._step, self._message = size, route, 0, message

    def arrive(self) -> None:
        """At the next device; with no link left it is delivered."""
        if self._step == len(self._route):
            self._message.arrive()
        else:
            self._step += 1
            self._route[self._step - 1].take(self)


class Links:
    """One dim of FIFO links; whole messages are stored and forwarded at every device. A switch is device `npus`."""

    def __init__(self, clock: Clock, dim: Dim, traffic: Traffic | None) -> None:
        self._clock, self._dim, self._traffic = clock, dim, traffic
        self._links: dict[tuple[int, int], Link] = {}
        self._routes: dict[tuple[int, int], list[Link]] = {}

    def carry(self, source: int, destination: int, size: int, message: Message) -> None:
        route = self._routes.get((source, destination))
        if route is None:
            devices = self._devices(source, destination)
            route = [self._link(a, b) for a, b in pairwise(devices)]
            self._routes[source, destination] = route
        Parcel(size, route, message).arrive()

    def _devices(self, source: int, destination: int) -> list[int]:
        size = self._dim.npus
        if self._dim.shape == Shape.SWITCH:
            return [source, size, destination]
        if self._dim.shape == Shape.FULLY_CONNECTED:
            return [source, destination]
        clockwise = (destination - source) % size
        step, count = (-1, size - clockwise) if size - clockwise < clockwise else (1, clockwise)
        return [(source + step * k) % size for k in range(count + 1)]

    def _link(self, source: int, destination: int) -> Link:
        link = self._links.get((source, destination))
        if link is None:
            switch = self._dim.npus
            name = (0, -1 if source == switch else source, -1 if destination == switch else destination, 0)
            link = self._links[source, destination] = Link(self._clock, self._dim, name, self._traffic)
        return link


def astra_network(clock: Clock, network: NetworkPlan, traffic: Traffic | None) -> Network:
    """The network of a plan under ASTRA-sim's rule book; UnsupportedError for what its back ends do not have."""
    for number, dim in enumerate(network.dims):
        if dim.shape not in (Shape.RING, Shape.SWITCH, Shape.FULLY_CONNECTED):
            raise UnsupportedError(f"network.dims[{number}].shape", f"ASTRA-sim has no {dim.shape.name.lower()}",
                                   expected="ring, switch or fully_connected")
    if network.backend == Backend.UNSHARED:
        return Unshared(clock, network.dims, traffic)
    if network.backend != Backend.LINKS:
        raise UnsupportedError("network.backend", f"{network.backend} does not run under ASTRA-sim's order",
                               expected="congestion_unaware or congestion_aware")
    if len(network.dims) != 1:
        raise UnsupportedError("network.dims", f"{len(network.dims)} dims in ASTRA-sim's congestion-aware back end",
                               expected="one dim")
    return Links(clock, network.dims[0], traffic)
