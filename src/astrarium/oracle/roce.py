"""Packets under RoCE: PFC over buffers that the links of a node share, ECN marks, DCQCN."""

from __future__ import annotations

import heapq

from msgspec.structs import replace

from astrarium.engine.outcome import PacketCounts
from astrarium.engine.plan import RoceRules
from astrarium.engine.routes import mix64
from astrarium.oracle.clock import NEVER, ticks
from astrarium.oracle.dcqcn import Rate
from astrarium.oracle.net import NONE, Cargo, Events, Net, Packet, circle_of
from astrarium.oracle.roce_parts import Control, End, Flow, Port, shared_bytes
from astrarium.oracle.roce_reroute import LEFT, REROUTE, Reroute

__all__ = ["Roce"]

PAUSE, ARRIVE, NOTICE, PUT_OFF, ASK, OPENED, TIMER = range(LEFT + 1, LEFT + 8)
DATA, CNP = range(2)
CONTROL = 64        # bytes of a CNP; an ACK takes their time, and no bandwidth
MILLION = 1_000_000
COLUMNS = ("kmin", "kmax", "pmax", "alpha", "additive", "hyper")    # of `RoceRules.by_rate`, behind the rate


class Roce:
    """Every node does at once what it can, in the order of design/0017."""

    def __init__(self, net: Net, rules: RoceRules) -> None:
        self._net, self._rules, self.events = net, rules, Events()
        links = len(net.ways.ends)
        rows = [rules.by_rate[at:at + 1 + len(COLUMNS)] for at in range(0, len(rules.by_rate), 1 + len(COLUMNS))]
        self._rules_of = {row[0]: replace(rules, **dict(zip(COLUMNS, row[1:], strict=True))) for row in rows}
        self._ports = [Port(rules=None if inside else self._rules_of.get(bandwidth, rules))
                       for inside, bandwidth in zip(net.ways.inside, net.ways.bandwidth, strict=True)]
        self._ends = [End() for _ in range(links)]
        self._shared, self._used = shared_bytes(net, rules), [0] * net.ways.nodes
        self._flows: list[Flow] = []
        self._flow_of: dict[tuple[int, int], Flow] = {}
        self._seed = mix64(net.rules.seed)
        self._reroute = Reroute(net, self._ports, self._flows, self.events)

    def _flow(self, cargo: Cargo, link: int) -> Flow:
        pair = cargo.source, cargo.destination
        if pair not in self._flow_of:
            self._flow_of[pair] = self._measured(*pair, link)
            self._flows.append(self._flow_of[pair])
        return self._flow_of[pair]

    def _measured(self, source: int, destination: int, link: int) -> Flow:
        """A new flow. Its rate is that of its first link outside hosts; its window what its slowest link carries in a
        round trip of a packet that waits for nothing. Within hosts it has neither. A window is sent evenly over its
        round trip."""
        net, ways = self._net, self._net.ways
        there, back = ways.usual(source, destination), ways.usual(destination, source)
        line = next((ways.bandwidth[link] for link in there if not ways.inside[link]), 0.0)
        head = tail = 0
        for each in there:
            start, tail = head, max(head + net.serial(each, net.rules.size), tail) + ways.latency[each]
            head = min(tail, start + net.head(each) + ways.latency[each]) if net.cut_through else tail
        again = sum(ticks(CONTROL / ways.bandwidth[each]) + ways.latency[each] for each in back)
        rules = self._rules_of.get(line, self._rules)
        pace = rules.window * min(ways.bandwidth[each] for each in there) if line else 0.0
        line = line or ways.bandwidth[link]
        return Flow(len(self._flows), source, destination, link, Rate(line, line, line), rules,
                     pace * ((tail + again) / 1000), pace, again)

    def ask(self, cargo: Cargo, link: int, now: int) -> None:
        self.events.at(now, ASK, 0, (self._flow(cargo, link), cargo))

    def run(self, until: int) -> None:
        while (now := self.events.first()) is not None and now < until:
            touched: set[int] = set()
            self._reroute.go_to(now)
            for kind, number, what in self.events.instant():
                self._happen(now, kind, number, what, touched)
            for link in sorted(touched):
                self._start(link, self._ports[link], now)

    def _happen(self, now: int, kind: int, number: int, what: object, touched: set[int]) -> None:
        if kind == LEFT:
            touched.add(number)
            if isinstance(what, tuple):
                self._release(now, *what)
        elif kind == PAUSE:
            self._pause(number, bool(what), now)
            touched.add(number)
        elif kind == ARRIVE:
            touched.add(self._came(now, number, what))
        elif kind in (NOTICE, PUT_OFF):
            self._notice(now, kind, what, touched)
        elif kind == ASK:
            assert isinstance(what, tuple)
            touched.add(self._ask(now, *what))
        elif kind == REROUTE:
            touched |= self._reroute.at(now)
        elif kind == OPENED:
            flow = self._flows[number]
            heapq.heappush(self._ports[flow.link].own, (now, flow.destination, number))
            touched.add(flow.link)
        else:
            touched.add(number)

    def _pause(self, link: int, on: bool, now: int) -> None:
        port = self._ports[link]
        port.paused = on
        if on:
            port.pauses, port.paused_at = port.pauses + 1, now
        else:
            port.paused_for += now - port.paused_at
            if self._net.timeline is not None:
                self._net.timeline.paused(link, port.paused_at, now)

    def _ask(self, now: int, flow: Flow, cargo: Cargo) -> int:
        flow.own.append(cargo)
        if len(flow.own) == 1:
            self._line_up(flow, max(flow.allowed, now))
        return flow.link

    def _line_up(self, flow: Flow, when: int) -> None:
        """A flow with something to send takes its place at its first link, from a time on."""
        scales = flow.rate.limited and flow.rules.window_scales
        flow.limit = flow.window * (flow.rate.current / flow.rate.line) if scales else flow.window
        opened = flow.opens(when)
        if opened is None:
            flow.held, flow.allowed = True, when
        else:
            heapq.heappush(self._ports[flow.link].own, (opened, flow.destination, flow.number))

    def _acknowledge(self, flow: Flow, when: int) -> None:
        heapq.heappush(flow.acks, when)
        if flow.held and (opened := flow.opens(flow.allowed)) is not None:
            flow.held = False
            self.events.at(opened, OPENED, flow.number, None)

    def _came(self, now: int, came: int, what: object) -> int:
        """A packet joins the queue of its next link."""
        net = self._net
        if isinstance(what, Control):
            link = net.ways.next(came, what.flow.destination, what.flow.source)
            self._ports[link].control.append(what)
            return link
        assert isinstance(what, Packet)
        link = net.ways.next(came, what.cargo.source, what.cargo.destination)
        port, end, node = self._ports[link], self._ends[came], net.ways.ends[came][1]
        size = what.bytes + net.rules.header
        port.waiting += size
        port.peak = max(port.peak, port.waiting)
        net.queue_is(link, now, port.waiting)
        port.queue.append(what)
        rules = self._counts(came, link)
        if rules is None:
            return link
        if not rules.departing and self._marks(link, port.waiting, what):
            what.marked = True
            port.marks += 1
        end.bytes += size
        end.peak = max(end.peak, end.bytes)
        self._used[node] += size
        if not end.paused and end.bytes > self._alpha(came) * (self._shared[node] - self._used[node]):
            end.paused = True
            self.events.at(now + net.ways.latency[came], PAUSE, came, True)
        return link

    def _counts(self, came: int, link: int) -> RoceRules | None:
        """The rules of a link for what came by another one; None where one of them is inside a host."""
        return None if came == NONE or self._ports[came].rules is None else self._ports[link].rules

    def _alpha(self, came: int) -> float:
        rules = self._ports[came].rules
        assert rules is not None
        return rules.alpha

    def _marks(self, link: int, waiting: int, packet: Packet) -> bool:
        rules = self._ports[link].rules
        assert rules is not None
        low, high = rules.kmin, rules.kmax
        if waiting <= low or waiting > high:
            return waiting > high
        pair = packet.cargo.source << 32 | packet.cargo.destination
        chance = mix64(mix64(mix64(self._seed ^ link) ^ pair) ^ packet.number) >> 32
        return chance * (high - low) * MILLION < (waiting - low) * rules.pmax * 2**32

    def _release(self, now: int, came: int, size: int) -> None:
        """A packet has left the node."""
        end, node = self._ends[came], self._net.ways.ends[came][1]
        end.bytes -= size
        self._used[node] -= size
        packet = self._net.rules.size + self._net.rules.header
        free = self._alpha(came) * (self._shared[node] - self._used[node])
        if end.paused and (not end.bytes or end.bytes + 2 * packet <= free):
            end.paused = False
            self.events.at(now + self._net.ways.latency[came], PAUSE, came, False)

    def _notice(self, now: int, how: int, what: object, touched: set[int]) -> None:
        """The destination's NIC sees a marked packet, or the source's a CNP."""
        assert isinstance(what, tuple)
        kind, flow = what
        if kind == CNP:
            flow.rate.cut(flow.rules, now)
            return
        if how == PUT_OFF:
            flow.put_off = False
        elif flow.put_off:
            return
        elif flow.notified >= 0 and now < (end := flow.notified + flow.rules.cnp_interval):
            flow.put_off = True
            self.events.at(end, PUT_OFF, flow.number, what)
            return
        flow.notified = now
        link = self._net.ways.first(flow.destination, flow.source)
        self._ports[link].control.append(Control(flow, tail=now))
        touched.add(link)

    def _start(self, link: int, port: Port, now: int) -> None:
        """Start what goes next, if the port can."""
        if port.free > now:
            return
        if port.control:
            self._send_control(link, port, port.control.popleft(), now)
            return
        if port.paused:
            return
        own = bool(port.own) and port.own[0][0] <= now
        if own and (not port.queue or not port.own_before):
            port.own_before = True
            self._transmit(link, port, self._cut(port, now), now)
        elif port.queue:
            port.own_before = False
            packet = port.queue.popleft()
            rules = self._counts(packet.came, link)
            if rules is not None and rules.departing and self._marks(link, port.waiting, packet):
                packet.marked = True
                port.marks += 1
            port.waiting -= packet.bytes + self._net.rules.header
            self._net.queue_is(link, now, port.waiting)
            self._transmit(link, port, packet, now)
        elif port.own:
            self.events.at(port.own[0][0], TIMER, link, None)

    def _cut(self, port: Port, now: int) -> Packet:
        """The next packet of the flow that is allowed first."""
        flow = self._flows[heapq.heappop(port.own)[2]]
        cargo, rules = flow.own[0], flow.rules
        if rules.per_message and cargo.to_send == cargo.size:
            flow.rate = Rate(flow.rate.line, flow.rate.line, flow.rate.line)
        packet = Packet(now, NONE, cargo, min(cargo.to_send, self._net.rules.size), number=flow.packets)
        flow.packets += 1
        cargo.to_send -= packet.bytes
        if not cargo.to_send:
            flow.own.popleft()
        flow.rate.catch_up(rules, now)
        size = packet.bytes + self._net.rules.header
        flow.allowed = now + ticks(size / (min(flow.rate.now, flow.pace) if flow.window else flow.rate.now))
        flow.rate.sent(rules, size)
        flow.flying += size
        if flow.window:
            flow.sizes.append(size)
        if flow.own:
            self._line_up(flow, flow.allowed)
        return packet

    def _over(self, link: int, port: Port, now: int, serial: int, tail: int) -> int:
        """When the packet that starts now is at the link's end; NEVER: the link stands still for ever before."""
        end = self._net.finish(link, now, serial)
        port.free = NEVER if end == NEVER else max(end, tail)
        return NEVER if end == NEVER else end

    def _transmit(self, link: int, port: Port, packet: Packet, now: int) -> None:
        net, cargo = self._net, packet.cargo
        if self._reroute.loses(link, packet, now, net.serial(link, packet.bytes)):
            return
        end = self._over(link, port, now, net.serial(link, packet.bytes), packet.tail)
        if end == NEVER:
            return
        net.charge(link, packet.bytes, now, end - now)
        net.hops += 1
        size, latency = packet.bytes + net.rules.header, net.ways.latency[link]
        self.events.at(port.free, LEFT, link, None if self._counts(packet.came, link) is None else (packet.came, size))
        tail = port.free + latency
        if net.ways.ends[link][1] != cargo.destination:
            head = min(tail, now + net.head(link) + latency) if net.cut_through else tail
            packet.tail, packet.came = tail, link
            self.events.at(head, ARRIVE, link, packet)
            return
        flow = self._flow_of[cargo.source, cargo.destination]
        net.arrived(cargo, tail)
        if flow.window:
            self._acknowledge(flow, tail + flow.back)
        if packet.marked:
            self.events.at(tail, NOTICE, flow.number, (DATA, flow))

    def _send_control(self, link: int, port: Port, packet: Control, now: int) -> None:
        net, flow = self._net, packet.flow
        serial, latency = ticks(CONTROL / net.ways.bandwidth[link]), net.ways.latency[link]
        if self._reroute.loses(link, packet, now, serial):
            return
        end = self._over(link, port, now, serial, packet.tail)
        if end == NEVER:
            return
        net.charge(link, 0, now, end - now)
        net.hops += 1
        self.events.at(port.free, LEFT, link, None)
        tail = port.free + latency
        if net.ways.ends[link][1] != flow.source:
            head = min(tail, now + serial + latency) if net.cut_through else tail
            self.events.at(head, ARRIVE, link, Control(flow, link, tail))
        else:
            self.events.at(tail, NOTICE, flow.number, (CNP, flow))

    def keeps(self, link: int) -> bool:
        port = self._ports[link]
        return bool(port.queue or port.own or port.control)

    def explain(self) -> list[str]:
        waiting = {link for link, port in enumerate(self._ports) if self.keeps(link) and port.free < NEVER}
        came = {link: [packet.came for packet in self._ports[link].queue] for link in waiting}
        return [f"{self._net.name(link)}: {self._ports[link].waiting} bytes wait"
                + (", and its end has paused it" * self._ports[link].paused) for link in circle_of(waiting, came)]

    def counts(self) -> PacketCounts | None:
        ports = self._ports
        return self._net.counts(queue=[port.peak for port in ports], buffer=[end.peak for end in self._ends],
                                marks=[port.marks for port in ports], pauses=[port.pauses for port in ports],
                                paused=[port.paused_for for port in ports])
