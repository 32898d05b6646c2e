"""Packets, lossless by credits: one starts where the buffer at the link's end has room for it."""

from __future__ import annotations

from collections import deque

from msgspec import Struct, field

from astrarium.engine.outcome import PacketCounts
from astrarium.oracle.clock import NEVER
from astrarium.oracle.net import NONE, Cargo, Events, Net, Packet, circle_of

__all__ = ["Credits"]

REROUTE, CREDIT, ARRIVE, ASK, FREE = range(5)


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
        for begin in net.epochs.begins if net.epochs is not None else ():
            self.events.at(begin, REROUTE, 0, None)

    def ask(self, cargo: Cargo, link: int, now: int) -> None:
        self.events.at(now, ASK, 0, (link, cargo))

    def run(self, until: int) -> None:
        while (now := self.events.first()) is not None and now < until:
            self._instant(now)

    def _instant(self, now: int) -> None:
        touched: set[int] = set()
        if self._net.epochs is not None:
            self._net.epochs.go_to(now)
        for kind, number, what in self.events.instant():
            if kind == REROUTE:
                touched |= self._reroute(now)
                continue
            link = what[0] if kind in (ARRIVE, ASK) else number
            port = self._ports[link]
            touched.add(link)
            if kind == CREDIT:
                port.room += what
            elif kind == ARRIVE:
                port.queue.append(what[1])
                self._waits(link, now, what[1].bytes + self._net.rules.header)
            elif kind == ASK:
                port.own.append(what[1])
        for link in sorted(touched):
            self._start(link, self._ports[link], now)

    def _reroute(self, now: int) -> set[int]:
        """What waits for a link that has failed, or is on its way there, goes another way, if there is one. The ports
        that got something."""
        epochs, ways = self._net.epochs, self._net.ways
        assert epochs is not None
        touched = set()
        for link, port in enumerate(self._ports):
            if not epochs.dead(link):
                continue
            at = ways.ends[link][0]
            for packet in [each for each in port.queue if epochs.reaches(at, each.cargo.destination)]:
                following = epochs.next(at, packet.cargo.source, packet.cargo.destination)
                port.queue.remove(packet)
                self._ports[following].queue.append(packet)
                self._waits(link, now, -packet.bytes - self._net.rules.header)
                self._waits(following, now, packet.bytes + self._net.rules.header)
                touched.add(following)
            for cargo in [each for each in port.own if each.asked < now and epochs.reaches(at, each.destination)]:
                following = ways.first(cargo.source, cargo.destination)
                port.own.remove(cargo)
                self._ports[following].own.append(cargo)
                touched.add(following)
        self.events.change(ARRIVE, self._on_its_way)
        return touched

    def _on_its_way(self, what: tuple[int, Packet]) -> tuple[int, Packet]:
        """A packet that is to arrive, with the link that it is to take then."""
        epochs, (following, packet) = self._net.epochs, what
        assert epochs is not None
        at = self._net.ways.ends[following][0]
        if not epochs.dead(following) or not epochs.reaches(at, packet.cargo.destination):
            return what
        return epochs.next(at, packet.cargo.source, packet.cargo.destination), packet

    def _waits(self, link: int, now: int, size: int) -> None:
        port = self._ports[link]
        port.waiting += size
        port.peak = max(port.peak, port.waiting)
        self._net.queue_is(link, now, port.waiting)

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
        away = self._net.gives_up(link, packet.cargo.destination, now, end)
        if away < NEVER:
            self._net.charge(link, 0, now, away - now)
            self._net.hops += 1
            packet.cargo.lost += packet.bytes
            port.free = away
            self.events.at(away, FREE, link, None)
            return
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
