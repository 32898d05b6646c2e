"""Packets under RoCE: PFC over buffers that the links of a node share, ECN marks, DCQCN."""

from __future__ import annotations

import heapq
from collections import deque

from msgspec import Struct, field

from astrarium.engine.outcome import PacketCounts
from astrarium.engine.plan import RoceRules
from astrarium.engine.routes import mix64
from astrarium.errors import UnsupportedError
from astrarium.oracle.clock import NEVER, ticks
from astrarium.oracle.net import NONE, Cargo, Events, Net, Packet, circle_of

__all__ = ["Rate", "Roce"]

LEFT, PAUSE, ARRIVE, NOTICE, PUT_OFF, ASK, TIMER = range(7)
DATA, ACK, CNP = range(3)
CONTROL = 64        # bytes of an ACK or a CNP
MILLION = 1_000_000


class Rate(Struct):
    """The rate of a flow, bytes per ns: the reaction point of DCQCN (Zhu et al., SIGCOMM 2015), without hyper increase.
    Timers are caught up when the flow sends."""

    line: float
    current: float
    target: float
    alpha: float = 1.0
    alpha_at: int = NEVER       # when their timers are over, ps
    rate_at: int = NEVER
    timers: int = 0             # increases since the last cut
    counts: int = 0
    bytes: int = 0              # since the last increase by bytes
    limited: bool = False       # below the line's

    def cut(self, rules: RoceRules, now: int) -> None:
        """A CNP has come."""
        self.catch_up(rules, now)
        if not self.limited:
            self.current = self.line
        self.target = self.current
        self.current = max(self.current * (1 - self.alpha / 2), rules.additive)
        self.alpha = (1 - rules.gain) * self.alpha + rules.gain
        self.alpha_at, self.rate_at = now + rules.alpha_timer, now + rules.rate_timer
        self.timers = self.counts = self.bytes = 0
        self.limited = True

    def catch_up(self, rules: RoceRules, now: int) -> None:
        """What the timers did until now."""
        while self.alpha_at <= now:
            self.alpha = (1 - rules.gain) * self.alpha
            self.alpha_at += rules.alpha_timer
        while self.limited and self.rate_at <= now:
            self.timers += 1
            self._increase(rules)
            self.rate_at += rules.rate_timer

    def sent(self, rules: RoceRules, size: int) -> None:
        """A packet has begun to leave."""
        if not self.limited:
            return
        self.bytes += size
        if self.bytes >= rules.byte_counter:
            self.bytes -= rules.byte_counter
            self.counts += 1
            self._increase(rules)

    def _increase(self, rules: RoceRules) -> None:
        if max(self.timers, self.counts) > rules.recovery:
            self.target = min(self.target + rules.additive, self.line)
        self.current = (self.current + self.target) / 2
        if self.target >= self.line and self.current >= 0.999999 * self.line:
            self.limited = False


class _Flow(Struct):
    number: int
    source: int
    destination: int
    link: int
    rate: Rate
    own: deque[Cargo] = field(default_factory=deque)
    packets: int = 0        # sent
    allowed: int = 0        # when the next one may leave
    notified: int = -1      # the last CNP for it
    put_off: bool = False   # a CNP is due an interval after the last one


class _Control(Struct):
    kind: int               # ACK or CNP
    flow: _Flow
    came: int = NONE
    tail: int = 0


class _Port(Struct):
    queue: deque[Packet] = field(default_factory=deque)
    control: deque[_Control] = field(default_factory=deque)
    own: list[tuple[int, int, int]] = field(default_factory=list)   # heap: allowed, destination, flow
    free: int = 0
    paused: bool = False
    own_before: bool = False
    waiting: int = 0
    peak: int = 0
    marks: int = 0
    pauses: int = 0
    paused_at: int = 0
    paused_for: int = 0


class _End(Struct):
    """A link's bytes in the buffer at its end."""

    bytes: int = 0
    peak: int = 0
    paused: bool = False


def _shared_bytes(net: Net, rules: RoceRules) -> list[int]:
    """Per node its buffer without the headroom of its links. UnsupportedError where nothing is left."""
    ways, packet = net.ways, net.rules.size + net.rules.header
    shared, links = [rules.buffer] * ways.nodes, [0] * ways.nodes
    for (_, node), latency, bandwidth in zip(ways.ends, ways.latency, ways.bandwidth, strict=True):
        shared[node] -= int(2 * (latency / 1000 * bandwidth)) + 3 * packet
        links[node] += 1
    for node, left in enumerate(shared):
        if links[node] > 1 and left < 1:
            raise UnsupportedError("workload", f"a RoCE buffer of {rules.buffer} bytes at node {node}: the headroom of "
                                   f"its links takes {rules.buffer - left}")
    return shared


class Roce:
    """Every node does at once what it can, in the order of design/0017."""

    def __init__(self, net: Net, rules: RoceRules) -> None:
        self._net, self._rules, self.events = net, rules, Events()
        links = len(net.ways.ends)
        self._ports, self._ends = [_Port() for _ in range(links)], [_End() for _ in range(links)]
        self._shared, self._used = _shared_bytes(net, rules), [0] * net.ways.nodes
        self._flows: list[_Flow] = []
        self._flow_of: dict[tuple[int, int], _Flow] = {}
        self._seed = mix64(net.rules.seed)

    def _flow(self, cargo: Cargo, link: int) -> _Flow:
        pair = cargo.source, cargo.destination
        if pair not in self._flow_of:
            line = self._net.ways.bandwidth[link]
            self._flow_of[pair] = _Flow(len(self._flows), *pair, link, Rate(line, line, line))
            self._flows.append(self._flow_of[pair])
        return self._flow_of[pair]

    def ask(self, cargo: Cargo, link: int, now: int) -> None:
        self.events.at(now, ASK, 0, (self._flow(cargo, link), cargo))

    def run(self, until: int) -> None:
        while (now := self.events.first()) is not None and now < until:
            touched: set[int] = set()
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

    def _ask(self, now: int, flow: _Flow, cargo: Cargo) -> int:
        flow.own.append(cargo)
        if len(flow.own) == 1:
            heapq.heappush(self._ports[flow.link].own, (max(flow.allowed, now), flow.destination, flow.number))
        return flow.link

    def _came(self, now: int, came: int, what: object) -> int:
        """A packet joins the queue of its next link."""
        net = self._net
        if isinstance(what, _Control):
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
        if not self._rules.departing and self._marks(link, port.waiting, what):
            what.marked = True
            port.marks += 1
        port.queue.append(what)
        end.bytes += size
        end.peak = max(end.peak, end.bytes)
        self._used[node] += size
        if not end.paused and end.bytes > self._rules.alpha * (self._shared[node] - self._used[node]):
            end.paused = True
            self.events.at(now + net.ways.latency[came], PAUSE, came, True)
        return link

    def _marks(self, link: int, waiting: int, packet: Packet) -> bool:
        low, high = self._rules.kmin, self._rules.kmax
        if waiting <= low or waiting > high:
            return waiting > high
        pair = packet.cargo.source << 32 | packet.cargo.destination
        chance = mix64(mix64(mix64(self._seed ^ link) ^ pair) ^ packet.number) >> 32
        return chance * (high - low) * MILLION < (waiting - low) * self._rules.pmax * 2**32

    def _release(self, now: int, came: int, size: int) -> None:
        """A packet has left the node."""
        end, node = self._ends[came], self._net.ways.ends[came][1]
        end.bytes -= size
        self._used[node] -= size
        packet = self._net.rules.size + self._net.rules.header
        free = self._rules.alpha * (self._shared[node] - self._used[node])
        if end.paused and (not end.bytes or end.bytes + 2 * packet <= free):
            end.paused = False
            self.events.at(now + self._net.ways.latency[came], PAUSE, came, False)

    def _notice(self, now: int, how: int, what: object, touched: set[int]) -> None:
        """The destination's NIC sees a marked packet, or the end of a message; or the source's a CNP."""
        assert isinstance(what, tuple)
        kind, flow = what
        if kind == CNP:
            flow.rate.cut(self._rules, now)
            return
        if kind == DATA:
            if how == PUT_OFF:
                flow.put_off = False
            elif flow.put_off:
                return
            elif flow.notified >= 0 and now < (end := flow.notified + self._rules.cnp_interval):
                flow.put_off = True
                self.events.at(end, PUT_OFF, flow.number, what)
                return
            flow.notified = now
        link = self._net.ways.first(flow.destination, flow.source)
        self._ports[link].control.append(_Control(CNP if kind == DATA else ACK, flow, tail=now))
        touched.add(link)

    def _start(self, link: int, port: _Port, now: int) -> None:
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
            if self._rules.departing and self._marks(link, port.waiting, packet):
                packet.marked = True
                port.marks += 1
            port.waiting -= packet.bytes + self._net.rules.header
            self._net.queue_is(link, now, port.waiting)
            self._transmit(link, port, packet, now)
        elif port.own:
            self.events.at(port.own[0][0], TIMER, link, None)

    def _cut(self, port: _Port, now: int) -> Packet:
        """The next packet of the flow that is allowed first."""
        flow = self._flows[heapq.heappop(port.own)[2]]
        cargo, rules = flow.own[0], self._rules
        packet = Packet(now, NONE, cargo, min(cargo.to_send, self._net.rules.size), number=flow.packets)
        flow.packets += 1
        cargo.to_send -= packet.bytes
        if not cargo.to_send:
            flow.own.popleft()
        flow.rate.catch_up(rules, now)
        size = packet.bytes + self._net.rules.header
        flow.allowed = now + ticks(size / (flow.rate.current if flow.rate.limited else flow.rate.line))
        flow.rate.sent(rules, size)
        if flow.own:
            heapq.heappush(port.own, (flow.allowed, flow.destination, flow.number))
        return packet

    def _over(self, link: int, port: _Port, now: int, serial: int, tail: int) -> int:
        """When the packet that starts now is at the link's end; NEVER: the link stands still for ever before."""
        end = self._net.finish(link, now, serial)
        port.free = NEVER if end == NEVER else max(end, tail)
        return NEVER if end == NEVER else end

    def _transmit(self, link: int, port: _Port, packet: Packet, now: int) -> None:
        net, cargo = self._net, packet.cargo
        end = self._over(link, port, now, net.serial(link, packet.bytes), packet.tail)
        if end == NEVER:
            return
        net.charge(link, packet.bytes, now, end - now)
        net.hops += 1
        size, latency = packet.bytes + net.rules.header, net.ways.latency[link]
        self.events.at(port.free, LEFT, link, None if packet.came == NONE else (packet.came, size))
        tail = port.free + latency
        if net.ways.ends[link][1] != cargo.destination:
            head = min(tail, now + net.head(link) + latency) if net.cut_through else tail
            packet.tail, packet.came = tail, link
            self.events.at(head, ARRIVE, link, packet)
            return
        flow = self._flow_of[cargo.source, cargo.destination]
        last = net.arrived(cargo, tail)
        if packet.marked:
            self.events.at(tail, NOTICE, flow.number, (DATA, flow))
        if last:
            self.events.at(cargo.done, NOTICE, flow.number, (ACK, flow))

    def _send_control(self, link: int, port: _Port, packet: _Control, now: int) -> None:
        net, flow = self._net, packet.flow
        serial, latency = ticks(CONTROL / net.ways.bandwidth[link]), net.ways.latency[link]
        end = self._over(link, port, now, serial, packet.tail)
        if end == NEVER:
            return
        net.charge(link, 0, now, end - now)
        net.hops += 1
        self.events.at(port.free, LEFT, link, None)
        tail = port.free + latency
        if net.ways.ends[link][1] != flow.source:
            head = min(tail, now + serial + latency) if net.cut_through else tail
            self.events.at(head, ARRIVE, link, _Control(packet.kind, flow, link, tail))
        elif packet.kind == CNP:
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
