"""RoCE where links fail: as an epoch begins, what waits for a link that has failed goes another way (design/0017)."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from astrarium.oracle.clock import NEVER
from astrarium.oracle.epochs import Epochs
from astrarium.oracle.net import Events, Net, Packet
from astrarium.oracle.roce_parts import Control, Flow, Port

__all__ = ["LEFT", "REROUTE", "Reroute"]

REROUTE, LEFT = -1, 0   # the first kinds of events of an instant


class Reroute:
    """The ports and flows of a run."""

    def __init__(self, net: Net, ports: Sequence[Port], flows: Sequence[Flow], events: Events) -> None:
        self._net, self._ports, self._flows, self._events = net, ports, flows, events
        for begin in net.epochs.begins if net.epochs is not None else ():
            events.at(begin, REROUTE, 0, None)

    @property
    def _epochs(self) -> Epochs:
        assert self._net.epochs is not None
        return self._net.epochs

    def go_to(self, now: int) -> None:
        """Routes are those of this time from now on."""
        if self._net.epochs is not None:
            self._net.epochs.go_to(now)

    def loses(self, link: int, packet: Packet | Control, now: int, serial: int) -> bool:
        """Whether a packet that starts now is lost, as its link fails before its last byte has left. Then it waits
        there again."""
        if self._net.epochs is None:
            return False
        net, port = self._net, self._ports[link]
        destination = packet.cargo.destination if isinstance(packet, Packet) else packet.flow.source
        away = net.gives_up(link, destination, now, net.finish(link, now, serial))
        if away == NEVER:
            return False
        port.free = away
        net.charge(link, 0, now, away - now)
        net.hops += 1
        self._events.at(away, LEFT, link, None)
        if isinstance(packet, Packet):
            packet.cargo.lost += packet.bytes
            port.queue.appendleft(packet)
            port.waiting += packet.bytes + net.rules.header
            net.queue_is(link, now, port.waiting)
        else:
            port.control.appendleft(packet)
        return True

    def at(self, now: int) -> set[int]:
        """Move all; returns the ports that got something."""
        touched: set[int] = set()
        for flow in self._flows:
            if self._epochs.dead(flow.link) and self._epochs.reaches(flow.source, flow.destination):
                flow.link = self._net.ways.first(flow.source, flow.destination)
        for link, port in enumerate(self._ports):
            if self._epochs.dead(link):
                touched |= self._move(link, port, now)
        return touched

    def _move(self, link: int, port: Port, now: int) -> set[int]:
        queue, control, own = list(port.queue), list(port.control), list(port.own)
        port.queue.clear()
        port.control.clear()
        port.own.clear()
        touched = set()
        for packet in queue:
            to = self._other(link, packet.cargo.source, packet.cargo.destination)
            self._ports[to].queue.append(packet)
            if to != link:
                size = packet.bytes + self._net.rules.header
                for number, change in ((link, -size), (to, size)):
                    changed = self._ports[number]
                    changed.waiting += change
                    changed.peak = max(changed.peak, changed.waiting)
                    self._net.queue_is(number, now, changed.waiting)
            touched.add(to)
        for notice in control:
            to = self._other(link, notice.flow.destination, notice.flow.source)
            self._ports[to].control.append(notice)
            touched.add(to)
        for entry in own:
            to = self._flows[entry[2]].link
            heapq.heappush(self._ports[to].own, entry)
            touched.add(to)
        return touched - {link}

    def _other(self, link: int, source: int, destination: int) -> int:
        at = self._net.ways.ends[link][0]
        return self._epochs.next(at, source, destination) if self._epochs.reaches(at, destination) else link
