"""What packets pass on one GPU: the network of routers, channels of memory, ports. Stations are FIFO servers (ports, if
the machine says so, take turns between control and data), and each is asked when the packet is there."""

from __future__ import annotations

from collections import deque
from typing import Protocol

from astrarium.gpu.engine.recorded import MOST_BINS
from astrarium.gpu.engine.values import Launch, layout, skewed
from astrarium.gpu.oracle.arbiter import Arbiter
from astrarium.gpu.oracle.units import EventKind, Packet, Wavefront

__all__ = ["Chip"]

CARRY_DATA = ("store", "data")


class Ways(Protocol):
    """What a chip needs of the run."""

    @property
    def now(self) -> int:
        """The time, ps."""

    def at(self, when: int, stage: int, origin: int, packet: Packet, way: tuple[int, int, int] | None = None) -> None:
        """A packet of the GPU at distance `origin` comes to a stage; `way`: (router, goal, stage there) of a hop."""

    def crosses(self, when: int, distance: int, origin: int, packet: Packet) -> None:
        """A packet arrives at the GPU at `distance`; there its origin is at distance `origin`."""

    def picks(self, when: int, stage: int, port: int) -> None:
        """A port takes its next packet, once all of that instant have come."""

    def back(self, packet: Packet, when: int) -> None:
        """A request of this GPU is back."""


class Chip:
    """One GPU's stations: when each is free next."""

    def __init__(self, launch: Launch, ways: Ways, record: int):
        m = launch.machine
        self.machine, self.ways, self.gpus, self.record = m, ways, launch.gpus, record
        _, self.flagged, self.in_hbm, self.semaphores = layout(launch.buffers)
        self.l2, self.hbm = [0] * len(m.channel_router), [0] * len(m.channel_router)
        self.outward, self.inward = [0] * len(m.port_router), [0] * len(m.port_router)
        self.credits: list[deque[int]] = [deque([0] * m.credits) for _ in m.port_router]
        self.arbiters = {(stage, port): Arbiter[tuple[int, Packet]]() for stage in (EventKind.OUT, EventKind.IN)
                         for port in range(len(m.port_router))}
        self.links: dict[tuple[int, int], int] = {}
        self.unit_port = [port[0] for port in launch.ports()]       # the first unit of a unit's port
        self.unit_in = [0] * len(m.unit_router)                     # by port
        self.landed: set[int] = set()                               # flagged lines that were stored
        self.readers: dict[int, list[tuple[int, Packet]]] = {}      # of flagged lines that were not
        self.joins: dict[tuple[Wavefront, int], int] = {}           # answers to requests to all GPUs
        self.counts = [0] * len(launch.semaphores)
        self.polls: dict[int, list[tuple[int, Packet]]] = {}        # by semaphore
        self.channel_requests, self.hbm_requests = [0] * len(m.channel_router), [0] * len(m.channel_router)
        self.port_packets = [[0, 0] for _ in m.port_router]
        self.port_busy: list[list[int]] = [[] for _ in m.port_router]       # recorded, by port and bin

    # -- network on the chip

    def travel(self, when: int, origin: int, packet: Packet, here: int, goal: int, stage: int) -> None:
        """Carry a packet, which is at router `here` at `when`, to the unit at router `goal`."""
        m = self.machine
        if m.mesh_data and here != goal:
            return self.ways.at(when + m.enter, EventKind.HOP, origin, packet, (here, goal, stage))
        hops = abs(here // m.columns - goal // m.columns) + abs(here % m.columns - goal % m.columns)
        return self._reached(when + m.enter + hops * m.hop, origin, packet, stage)

    def hop(self, origin: int, packet: Packet, way: tuple[int, int, int]) -> None:
        """Take the next link of an XY way."""
        m, (here, goal, stage) = self.machine, way
        if here % m.columns != goal % m.columns:
            there = here + (1 if goal % m.columns > here % m.columns else -1)
        else:
            there = here + (m.columns if goal > here else -m.columns)
        start = max(self.links.get((here, there), 0), self.ways.now)
        service = m.mesh_data if packet.kind in CARRY_DATA else m.mesh_control
        self.links[here, there] = start + service
        if there == goal:
            self._reached(start + service + m.hop, origin, packet, stage)
        else:
            self.ways.at(start + m.hop, EventKind.HOP, origin, packet, (there, goal, stage))

    def _reached(self, when: int, origin: int, packet: Packet, stage: int) -> None:
        if packet.kind == "ack" and stage == EventKind.UNIT:
            self.ways.back(packet, when)
        else:
            self.ways.at(when, stage, origin, packet)

    # -- ports

    def _port(self, line: int, distance: int) -> int:
        m = self.machine
        count = len(m.port_router) if m.switched else len(m.port_router) // (self.gpus - 1)
        return (0 if m.switched else (distance - 1) * count) + skewed(line // m.port_interleave, count)

    def leaves(self, unit: int, packet: Packet, when: int) -> None:
        """A request of this GPU leaves a unit for a channel here, or for a port."""
        m, here, peer = self.machine, self.machine.unit_router[unit], packet.instruction.peer
        if peer:
            self.travel(when, 0, packet, here, m.port_router[self._port(packet.line, peer)], EventKind.OUT)
        else:
            self.travel(when, 0, packet, here, m.channel_router[self._channel(packet.line)], EventKind.CHANNEL)

    def out(self, origin: int, packet: Packet) -> None:
        """A packet is at a port out: a request of this GPU, or the answer to another one."""
        port = self._port(packet.line, origin or packet.instruction.peer)
        if self.machine.round_robin:
            return self._waits(EventKind.OUT, port, origin, packet)
        return self._sent(port, origin, packet)

    def _waits(self, stage: int, port: int, origin: int, packet: Packet) -> None:
        """A packet waits for its turn."""
        arbiter = self.arbiters[stage, port]
        if not arbiter:
            self.ways.picks(max(self._free(stage, port), self.ways.now), stage, port)
        arbiter.put(packet.kind in CARRY_DATA, (origin, packet))

    def _free(self, stage: int, port: int) -> int:
        """When a port can take a packet."""
        if stage == EventKind.IN:
            return self.inward[port]
        return max(self.outward[port], self.credits[port][0]) if self.machine.credits else self.outward[port]

    def pick(self, stage: int, port: int) -> None:
        """A port takes the packet whose turn it is."""
        arbiter = self.arbiters[stage, port]
        (self._sent if stage == EventKind.OUT else self._entered)(port, *arbiter.take())
        if arbiter:
            self.ways.picks(self._free(stage, port), stage, port)

    def _sent(self, port: int, origin: int, packet: Packet) -> None:
        m, distance, data = self.machine, origin or packet.instruction.peer, packet.kind in CARRY_DATA
        start, service = max(self.outward[port], self.ways.now), m.port_data if data else m.port_control
        if m.credits:
            start = max(start, self.credits[port].popleft())
            self.credits[port].append(start + service + 2 * m.link_latency)
        self.outward[port] = start + service
        if self.record:
            bins, at = self.port_busy[port], start // self.record
            if at < MOST_BINS:
                bins.extend([0] * (at + 1 - len(bins)))
                bins[at] += service
        self.port_packets[port][not data] += 1
        arrives = start + m.link_latency + (0 if m.switched else service)
        if not origin and distance == self.gpus:
            for each in range(self.gpus):
                self.ways.crosses(arrives, each, self.gpus - each, packet)      # the own GPU is at distance `gpus`
            return
        self.ways.crosses(arrives, distance, 0 if origin else self.gpus - distance, packet)

    def into(self, origin: int, packet: Packet) -> None:
        """A packet from another GPU: of a switch, it queues for this GPU's port."""
        if not origin and packet.instruction.peer == self.gpus and not self._joined(packet):
            return None
        port = self._port(packet.line, origin or packet.instruction.peer)
        if self.machine.switched and self.machine.round_robin:
            return self._waits(EventKind.IN, port, origin, packet)
        return self._entered(port, origin, packet)

    def _entered(self, port: int, origin: int, packet: Packet) -> None:
        m, when = self.machine, self.ways.now
        if m.switched:
            service = m.port_data if packet.kind in CARRY_DATA else m.port_control
            when = self.inward[port] = max(self.inward[port], when) + service
        if origin:
            goal, stage = m.channel_router[self._channel(packet.line)], EventKind.CHANNEL
        else:
            goal, stage = m.unit_router[packet.instruction.wavefront.work.unit.number], EventKind.UNIT
        self.travel(when, origin, packet, m.port_router[port], goal, stage)

    def _joined(self, packet: Packet) -> bool:
        """Whether the switch has the answers of all GPUs to a request, of which it hands on one."""
        key = packet.instruction.wavefront, packet.serial
        self.joins[key] = self.joins.get(key, 0) + 1
        return self.joins[key] == self.gpus and self.joins.pop(key) > 0

    # -- memory

    def _channel(self, line: int) -> int:
        return skewed(line // self.machine.interleave, len(self.machine.channel_router))

    def channel(self, origin: int, packet: Packet) -> None:
        """A request is at its channel. A load of a flagged line, and a poll, may have to wait there."""
        line = packet.line
        if packet.kind == "load" and line < self.flagged and line not in self.landed:
            self.readers.setdefault(line, []).append((origin, packet))
            return
        if packet.kind == "poll" and self.counts[line - self.semaphores] < packet.instruction.wavefront.operation.value:
            self.polls.setdefault(line - self.semaphores, []).append((origin, packet))
            return
        self._access(origin, packet)
        if packet.kind == "store" and line < self.flagged:
            self.landed.add(line)
            for reader in self.readers.pop(line, []):
                self._access(*reader)
        if packet.kind == "signal":
            self._signalled(line - self.semaphores)

    def _signalled(self, semaphore: int) -> None:
        self.counts[semaphore] += 1
        waiting = self.polls.pop(semaphore, [])
        for origin, poll in waiting:
            if self.counts[semaphore] >= poll.instruction.wavefront.operation.value:
                self._access(origin, poll)
            else:
                self.polls.setdefault(semaphore, []).append((origin, poll))

    def _access(self, origin: int, packet: Packet) -> None:
        """Serve a request and send the answer."""
        m, channel = self.machine, self._channel(packet.line)
        self.channel_requests[channel] += 1
        end = self.l2[channel] = max(self.l2[channel], self.ways.now) + m.channel
        loads = packet.kind in ("load", "poll")
        if self.flagged <= packet.line < self.in_hbm:
            self.hbm_requests[channel] += 1
            stored = m.hbm_store or m.hbm
            over = self.hbm[channel] = max(self.hbm[channel], end) + (m.hbm if loads else stored)
            end = over + m.hbm_latency if loads else max(end, over - m.write_back * stored)
        answer = Packet(packet.instruction, "data" if loads else "ack", packet.line, packet.serial)
        if origin:
            goal, stage = m.port_router[self._port(packet.line, origin)], EventKind.OUT
        else:
            goal, stage = m.unit_router[packet.instruction.wavefront.work.unit.number], EventKind.UNIT
        self.travel(end + m.channel_latency, origin, answer, m.channel_router[channel], goal, stage)

    def unit(self, packet: Packet) -> None:
        """An answer with data is at the way in of its unit's port."""
        m, number = self.machine, packet.instruction.wavefront.work.unit.number
        if packet.kind == "data":
            port, service = self.unit_port[number], m.unit_data if number < m.computes else m.engine_data
            self.unit_in[port] = max(self.unit_in[port], self.ways.now) + service
            self.ways.back(packet, self.unit_in[port])
        else:
            self.ways.back(packet, self.ways.now)
