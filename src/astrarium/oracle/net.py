"""What both transports of packets share: links and routes, messages under way, and what was measured."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Protocol

import numpy as np
from msgspec import Struct

from astrarium.engine.outcome import PacketCounts
from astrarium.engine.plan import FIRST_LINK, NetworkPlan, RoceRules
from astrarium.engine.routes import Routes, mix64
from astrarium.oracle.clock import NEVER, Rates, ticks
from astrarium.oracle.fabric import Fabric, switch_of
from astrarium.oracle.record import Port, Timeline, Traffic

__all__ = ["NONE", "Cargo", "Events", "Net", "Packet", "Transport", "Ways", "circle_of"]

NONE = 2**32 - 1        # no link: a packet at its source


class Cargo(Struct):
    """A message under way: a cursor at its source, a count at its destination."""

    source: int
    destination: int
    size: int
    to_send: int                        # bytes
    left: int                           # packets that have not arrived
    asked: int                          # ps
    number: int                         # in the order in which messages asked
    delivered: Callable[[int], None]    # at a time
    done: int = 0                       # when the last packet so far arrives
    lost: int = 0                       # bytes that links lost as they failed, and that were sent again


class Packet(Struct):
    """A packet that is or will be at a port."""

    tail: int           # when its last byte is there
    came: int           # by this link
    cargo: Cargo
    bytes: int          # payload
    marked: bool = False
    number: int = 0     # of its flow (roce)


class Events:
    """What happens when: events of one instant by kind, then by a number, then in the order in which they were made."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, int, int, Any]] = []
        self._made = 0

    def at(self, time: int, kind: int, number: int, what: Any) -> None:
        """Something of a kind happens at a time."""
        self._made += 1
        heapq.heappush(self._heap, (time, kind, number, self._made, what))

    def first(self) -> int | None:
        """When the next one is."""
        return self._heap[0][0] if self._heap else None

    def change(self, kind: int, changed: Callable[[Any], Any]) -> None:
        """Make something else of all that is to happen of a kind."""
        self._heap = [(*event[:4], changed(event[4])) if event[1] == kind else event for event in self._heap]

    def instant(self) -> list[tuple[int, int, Any]]:
        """All of the next instant, taken out: kind, number and what."""
        time, found = self._heap[0][0], []
        while self._heap and self._heap[0][0] == time:
            _, kind, number, _, what = heapq.heappop(self._heap)
            found.append((kind, number, what))
        return found


class Ways:
    """The links of a fabric by number, and which one a packet takes."""

    def __init__(self, network: NetworkPlan, fabric: Fabric) -> None:
        self._fabric = fabric
        self.epochs = fabric.epochs
        self.ports: list[Port] = self._fabric.ports()
        self._spray = network.packets.spray
        self._routes = None if network.graph is None else Routes(network.graph, network.ecmp, network.routes)
        self._number = {port: number for number, port in enumerate(self.ports)}
        self._way: dict[tuple[int, int], dict[int, int]] = {}
        if network.graph is None:
            dims = network.dims
            self.bandwidth = [dims[port[0]].bandwidth for port in self.ports]
            self.latency = [ticks(dims[port[0]].latency) for port in self.ports]
            self.ends = [_ends_of(network, port) for port in self.ports]
            buffers = [0] * len(self.ports)
        else:
            graph, seed = network.graph, 0 if network.ecmp == FIRST_LINK else mix64(network.ecmp)
            self.bandwidth, self.latency = graph.bandwidth.tolist(), [ticks(each) for each in graph.latency.tolist()]
            self.ends = list(zip(graph.source.tolist(), graph.target.tolist(), strict=True))
            self._turn = [mix64(seed ^ link) & 0xFFFFFFFF for link in range(len(self.ends))]
            buffers = graph.buffer.tolist()
        self.buffer = [buffer or network.packets.buffer for buffer in buffers]
        inside = network.packets.inside or bytes(max(len(self.ports), len(network.dims)))
        self.inside = [bool(inside[port[0] if network.graph is None else number])
                       for number, port in enumerate(self.ports)]
        self.nodes = max((node for ends in self.ends for node in ends), default=0) + 1

    def first(self, source: int, destination: int) -> int:
        """The link by which a message leaves its source."""
        if self.epochs is not None:
            return self.epochs.next(source, source, destination)
        return self._along(source, destination)[NONE]

    def next(self, link: int, source: int, destination: int) -> int:
        """The link after `link`, which does not end at the destination."""
        at, routes = self.ends[link][1], self._routes
        if self.epochs is not None:
            routes = self.epochs.routes(at, destination)
        if routes is None or not self._spray or routes.is_given(source, destination):
            return self._along(source, destination)[link] if self.epochs is None else self.epochs.next(
                at, source, destination)
        able = routes.onward(at, destination)
        if len(able) == 1:
            return able[0]
        turn = self._turn[link]
        self._turn[link] = (turn + 1) & 0xFFFFFFFF
        return able[turn % len(able)]

    def usual(self, source: int, destination: int) -> list[int]:
        """The links of a way where nothing is sprayed."""
        if self.epochs is not None:
            return [self._number[hop.port] for hop in self._fabric.between(source, destination)]
        return list(self._along(source, destination).values())

    def _along(self, source: int, destination: int) -> dict[int, int]:
        known = self._way.get((source, destination))
        if known is None:
            links = [self._number[hop.port] for hop in self._fabric.between(source, destination)]
            known = self._way[source, destination] = dict(zip([NONE, *links], links, strict=False))
        return known


def _ends_of(network: NetworkPlan, port: Port) -> tuple[int, int]:
    """Nodes of a link of dims, as `fabric.graph.graph_of` numbers them."""
    d, source, target, _ = port
    if source >= 0 and target >= 0:
        return source, target
    switch = switch_of(network.dims, d, max(source, target))
    return (switch, target) if source < 0 else (source, switch)


class Net:
    """The links, and what went over them."""

    def __init__(self, network: NetworkPlan, traffic: Traffic | None, fabric: Fabric, rates: Rates[Port]) -> None:
        self.rules, self.cut_through = network.packets, network.cut_through
        self.ways, self.traffic, self.rates = Ways(network, fabric), traffic, rates
        reroutes = network.packets.transport is None or isinstance(network.packets.transport, RoceRules)
        self.epochs = self.ways.epochs if reroutes else None
        self.hops = 0
        self._sent: list[tuple[int, int, int, int, int, int]] = []
        self.timeline = Timeline(len(self.ways.ends)) if self.rules.queues and traffic is not None else None

    def serial(self, link: int, payload: int) -> int:
        """How long a packet takes a link, ps."""
        return ticks((payload + self.rules.header) / self.ways.bandwidth[link])

    def head(self, link: int) -> int:
        """How long a header takes a link, ps."""
        return ticks(self.rules.header / self.ways.bandwidth[link])

    def finish(self, link: int, start: int, serial: int) -> int:
        """When the last byte of a packet that starts now has left; NEVER: the link stands still for ever before."""
        return self.rates.finish(self.ways.ports[link], start, serial) if self.rates else start + serial

    def gives_up(self, link: int, destination: int, start: int, end: int) -> int:
        """When a packet that starts to cross a link goes another way instead, as the link fails before its last byte
        has left; else NEVER."""
        epochs = self.epochs
        return NEVER if epochs is None else epochs.gives_up(link, self.ways.ends[link][0], destination, start, end)

    def charge(self, link: int, payload: int, start: int, busy: int) -> None:
        """A packet took a link."""
        if self.traffic is not None:
            self.traffic.add(self.ways.ports[link], payload, start, busy)

    def queue_is(self, link: int, now: int, size: int) -> None:
        """`size` bytes wait for a link from now on."""
        if self.timeline is not None:
            self.timeline.queue(link, now, size)

    def arrived(self, cargo: Cargo, when: int) -> bool:
        """A packet of a message is there; whether it was the last one."""
        cargo.done = max(cargo.done, when)
        cargo.left -= 1
        if cargo.left:
            return False
        self._sent.append((cargo.asked, cargo.done, cargo.source, cargo.destination, cargo.size, cargo.lost))
        cargo.delivered(cargo.done)
        return True

    def name(self, link: int) -> str:
        """For stalls."""
        return f"link {link} from node {self.ways.ends[link][0]} to node {self.ways.ends[link][1]}"

    def counts(self, **per_link: list[int]) -> PacketCounts | None:
        """What was measured."""
        if not self.hops or self.traffic is None:
            return PacketCounts(hops=self.hops) if self.hops else None
        rows = np.array(sorted(self._sent), np.int64).reshape(-1, 6)
        ends = rows[:, 2:4].astype(np.int32)
        found: dict[str, Any] = {name: np.array(values, np.int64) for name, values in per_link.items()}
        if self.timeline is not None:
            found.update(self.timeline.columns())
        return PacketCounts(hops=self.hops, asked=rows[:, 0], arrived=rows[:, 1], source=ends[:, 0],
                            destination=ends[:, 1], size=rows[:, 4], lost=rows[:, 5], **found)


def circle_of(waiting: Collection[int], came: Mapping[int, Iterable[int]]) -> list[int]:
    """For stalls: of the links `waiting` those that wait for each other in a circle, in order, or all where there is
    none. `came`: by which links the packets came that wait for a link."""
    following: dict[int, int] = {}
    for link in sorted(waiting):
        for each in came[link]:
            if each in waiting:
                following.setdefault(each, link)
    seen: dict[int, int] = {}       # from which link
    for start in sorted(waiting):
        at: int | None = start
        while at is not None and at not in seen:
            seen[at] = start
            at = following.get(at)
        if at is not None and seen[at] == start:
            circle = [at]
            while (after := following[circle[-1]]) != at:
                circle.append(after)
            lowest = circle.index(min(circle))
            return circle[lowest:] + circle[:lowest]
    return sorted(waiting)


class Transport(Protocol):
    """How packets wait."""

    events: Events

    def ask(self, cargo: Cargo, link: int, now: int) -> None:
        """A message is at its first link."""

    def run(self, until: int) -> None:
        """Do all that happens before `until`."""

    def keeps(self, link: int) -> bool:
        """Whether packets wait for a link."""

    def explain(self) -> list[str]:
        """What keeps packets for ever."""

    def counts(self) -> PacketCounts | None:
        """What was measured."""
