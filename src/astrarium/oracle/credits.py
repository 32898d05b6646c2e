"""Packets, lossless by credits: one starts where the buffer at the link's end has room for it."""

from __future__ import annotations

from collections import deque

from msgspec import Struct, field

from astrarium.engine.outcome import PacketCounts
from astrarium.oracle.clock import NEVER
from astrarium.oracle.net import NONE, Cargo, Events, Net, Packet, circle_of

__all__ = ["Credits"]

CREDIT, ARRIVE, ASK, FREE = range(4)


class _Port(Struct):
    room: int               # free bytes at the link's end
    limited: bool
    free: int = 0
    own_before: bool = False    # the last packet was of a message that begins here
    queue: deque[Packet] = field(default_factory=deque)
    own: deque[Cargo] = field(default_factory=deque)
    waiting: int = 0
    peak: int = 0
    least: int = 0


class Credits:
    """Every port does at once what it can, in the order of design/0017."""

    def __init__(self, net: Net) -> None:
        self._net, self.events = net, Events()
        self._ports = [_Port(buffer, buffer > 0, least=buffer) for buffer in net.ways.buffer]

    def ask(self, cargo: Cargo, link: int, now: int) -> None:
        self.events.at(now, ASK, 0, (link, cargo))

    def run(self, until: int) -> None:
        while (now := self.events.first()) is not None and now < until:
            self._instant(now)

    def _instant(self, now: int) -> None:
        touched = set()
        for kind, number, what in self.events.instant():
            link = what[0] if kind in (ARRIVE, ASK) else number
            port = self._ports[link]
            touched.add(link)
            if kind == CREDIT:
                port.room += what
            elif kind == ARRIVE:
                port.queue.append(what[1])
                port.waiting += what[1].bytes + self._net.rules.header
                port.peak = max(port.peak, port.waiting)
                self._net.queue_is(link, now, port.waiting)
            elif kind == ASK:
                port.own.append(what[1])
        for link in sorted(touched):
            self._start(link, self._ports[link], now)

    def _start(self, link: int, port: _Port, now: int) -> None:
        """Start the packet whose turn it is, if it can."""
        if port.free > now or not (port.queue or port.own):
            return
        mine = bool(port.own) and (not port.queue or not port.own_before)
        packet = self._cut(port.own[0], now) if mine else port.queue[0]
        size = packet.bytes + self._net.rules.header
        if port.limited and port.room < size:
            return
        end = self._net.finish(link, now, self._net.serial(link, packet.bytes))
        if end == NEVER:
            port.free = NEVER
            return
        port.free, port.own_before = max(end, packet.tail), mine
        if port.limited:
            port.room -= size
            port.least = min(port.least, port.room)
        self._net.charge(link, packet.bytes, now, end - now)
        if mine:
            packet.cargo.to_send -= packet.bytes
            if not packet.cargo.to_send:
                port.own.popleft()
        else:
            port.queue.popleft()
            port.waiting -= size
            self._net.queue_is(link, now, port.waiting)
        self.events.at(port.free, FREE, link, None)
        self._send_on(link, port, packet, now)

    def _cut(self, cargo: Cargo, now: int) -> Packet:
        return Packet(now, NONE, cargo, min(cargo.to_send, self._net.rules.size))

    def _send_on(self, link: int, port: _Port, packet: Packet, start: int) -> None:
        net, cargo = self._net, packet.cargo
        latency, size = net.ways.latency, packet.bytes + net.rules.header
        tail = port.free + latency[link]
        net.hops += 1
        if packet.came != NONE:
            self._give_back(packet.came, port.free + latency[packet.came], size)
        if net.ways.ends[link][1] == cargo.destination:
            self._give_back(link, tail + latency[link], size)
            net.arrived(cargo, tail)
            return
        following = net.ways.next(link, cargo.source, cargo.destination)
        head = min(tail, start + net.head(link) + latency[link]) if net.cut_through else tail
        packet.tail, packet.came = tail, link
        self.events.at(head, ARRIVE, link, (following, packet))

    def _give_back(self, link: int, when: int, size: int) -> None:
        if self._ports[link].limited:
            self.events.at(when, CREDIT, link, size)

    def keeps(self, link: int) -> bool:
        return bool(self._ports[link].queue or self._ports[link].own)

    def explain(self) -> list[str]:
        waiting = {link for link, port in enumerate(self._ports) if self.keeps(link) and port.free < NEVER}
        came = {link: [packet.came for packet in self._ports[link].queue] for link in waiting}
        found = []
        for link in circle_of(waiting, came):
            port = self._ports[link]
            size = sum(packet.bytes + self._net.rules.header for packet in port.queue)
            found.append(f"{self._net.name(link)}: {size} bytes wait, {port.room} of "
                         f"{self._net.ways.buffer[link]} bytes are free at its end")
        return found

    def counts(self) -> PacketCounts | None:
        used = [buffer - port.least for buffer, port in zip(self._net.ways.buffer, self._ports, strict=True)]
        return self._net.counts(queue=[port.peak for port in self._ports], buffer=used)
