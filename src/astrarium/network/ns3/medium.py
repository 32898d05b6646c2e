"""ns-3 as a network plug-in: sends are collected for an instant, and the program runs when something may be due."""

from __future__ import annotations

import struct

import numpy as np

from astrarium.engine.limit import show_progress
from astrarium.engine.plan import Graph, NetworkPlan
from astrarium.engine.plugins.clockwork import EventQueue, Mailbox
from astrarium.engine.plugins.network import NEVER, Callback
from astrarium.engine.routes import Routes
from astrarium.fabric.graph import graph_of
from astrarium.network.ns3.program import Frame, Program, path_of
from astrarium.network.ns3.settings import Ns3

__all__ = ["MAGIC", "PROTOCOL", "Ns3Network"]

MAGIC, PROTOCOL = b"astrarium-ns3", 2
ANY_QUEUE = 2**32 - 1       # packets
AT_ONCE = 1 << 14           # sends of a frame
SEND = struct.Struct("<QIIqq")      # id, source, destination, bytes, at
DELIVERY = struct.Struct("<Qq")     # id, at

Key = tuple[int, int, int, int]
Open = tuple[Callback, Key]


class Ns3Network:
    """One run of ns-3 over `fabric`. The program says before which time nothing will be delivered, and is asked again
    only then, or when there are new messages (design/0018)."""

    def __init__(self, fabric: NetworkPlan, settings: Ns3, graph: Graph | None = None,
                 routes: Routes | None = None) -> None:
        graph = fabric.graph if graph is None else graph
        graph = graph_of(fabric.dims) if graph is None else graph
        npus = int(np.prod([dim.npus for dim in fabric.dims]))
        self._events, self._mail = EventQueue(), Mailbox()
        self._open: dict[int, Open] = {}
        self._sends, self._ways = bytearray(), bytearray()
        self._routes = routes
        self._told: set[tuple[int, int]] = set()
        self._number, self._due, self._new = 0, NEVER, 0
        self._program = Program(path_of(settings.program), float(settings.patience) / 1e9)
        self.version = self._hello()
        """The version of ns-3."""
        self._program.write(b"T", _topology(npus, graph, settings))
        self._answer(0)

    @property
    def pid(self) -> int:
        """Process id of the program."""
        return self._program.pid

    def close(self) -> None:
        """End the program; it also ends with this object."""
        self._program.end()

    def sim_send(self, msg_size: int, src: int, dst: int, callback: Callback, tag: int = 0) -> None:
        """As `Network` says. A message from an NPU to itself takes no time."""
        key = (src, dst, tag, msg_size)
        if src == dst:
            self._events.schedule(0, lambda: self._arrive((callback, key)))
            return
        if self._routes is not None:
            self._way(self._routes, src, dst)
            self._way(self._routes, dst, src)       # of acknowledgements
        self._open[self._number] = callback, key
        self._sends += SEND.pack(self._number, src, dst, msg_size, self._events.now)
        self._number += 1
        if len(self._sends) >= AT_ONCE * SEND.size:
            self._step(self._events.now)

    def _way(self, routes: Routes, source: int, destination: int) -> None:
        """Tell the program the route between two NPUs, once."""
        if (source, destination) not in self._told:
            self._told.add((source, destination))
            links = routes.between(source, destination)
            self._ways += struct.pack(f"<III{len(links)}I", source, destination, len(links), *links)
            self._new += 1

    def sim_recv(self, msg_size: int, src: int, dst: int, callback: Callback, tag: int = 0) -> None:
        """As `Network` says."""
        self._mail.wanted((src, dst, tag, msg_size), callback)

    def sim_schedule(self, delta: int, callback: Callback) -> None:
        """As `Network` says. Raises InputError for a negative delta."""
        self._events.schedule(delta, callback)

    def sim_get_time(self) -> int:
        """Now, ps."""
        return self._events.now

    def next_event_time(self) -> int:
        """A time before which nothing happens, ps, or NEVER. It may be sooner than what happens."""
        if self._sends:
            self._step(self._events.now)
        return min(self._events.next_time(), self._due)

    def advance(self, to: int) -> None:
        """Run everything up to `to`."""
        while (following := self.next_event_time()) <= to:
            due = self._due <= following
            self._events.advance(following)
            if due:
                self._step(following)
        self._events.advance(to)

    def _step(self, until: int) -> None:
        """Hand over new routes and the sends, and run the program up to `until`."""
        if self._new:
            self._program.write(b"W", struct.pack("<I", self._new) + self._ways)
            self._ways.clear()
            self._new = 0
        body = struct.pack("<qI", until, len(self._sends) // SEND.size) + self._sends
        self._sends.clear()
        self._program.write(b"S", body)
        for found in self._answer(until):
            self._arrive(found)
        show_progress(until)
        if self._due == NEVER and self._open and not self._sends:
            size, (source, target) = next((key[3], key[:2]) for _, key in self._open.values())
            raise self._program.fault(f"at {until} ps ns-3 has nothing left to do, and {len(self._open)} messages have "
                                      f"not arrived; the first: {size} bytes from NPU {source} to {target}")

    def _answer(self, until: int) -> list[Open]:
        """What was delivered; then the program has said what is due next."""
        found: list[Open] = []
        while True:
            kind, body = self._read()
            if kind == b"D" and len(body) % DELIVERY.size == 0:
                found += [self._delivered(number, at, until) for number, at in DELIVERY.iter_unpack(body)]
            elif kind == b"N" and len(body) == 8:
                self._due = struct.unpack("<q", body)[0]
                if self._due <= until:
                    raise self._program.fault(f"the program says that {self._due} ps are next, at {until} ps")
                return found
            elif kind == b"B" and len(body) == 8:
                show_progress(struct.unpack("<q", body)[0])
            else:
                raise self._program.fault(f"the program sends a frame {kind!r} of {len(body)} bytes here")

    def _delivered(self, number: int, at: int, until: int) -> Open:
        if at != until:
            raise self._program.fault(f"the program delivers at {at} ps, and was asked about {until} ps")
        found = self._open.pop(number, None)
        if found is None:
            raise self._program.fault(f"the program delivers a message {number}, which is not under way")
        return found

    def _arrive(self, found: Open) -> None:
        callback, key = found
        callback()
        self._mail.delivered(key)

    def _read(self) -> Frame:
        kind, body = self._program.read()
        if kind == b"E":
            raise self._program.fault(bytes(body).decode("utf-8", "replace"))
        return kind, body

    def _hello(self) -> str:
        kind, body = self._read()
        said = bytes(body)
        if kind != b"H" or not said.startswith(MAGIC) or len(said) < len(MAGIC) + 4:
            raise self._program.fault("the program does not speak this protocol")
        spoken = struct.unpack_from("<I", said, len(MAGIC))[0]
        if spoken != PROTOCOL:
            raise self._program.fault(f"the program speaks version {spoken} of the protocol, this is version "
                                      f"{PROTOCOL}: build it again (make ns3)")
        return said[len(MAGIC) + 4:].decode("utf-8", "replace")


def _topology(npus: int, graph: Graph, settings: Ns3) -> bytes:
    queue = ANY_QUEUE if settings.queue is None else settings.queue
    head = struct.pack("<IIIQQIII", settings.transport == "tcp", int(settings.packet), queue, int(settings.window),
                       settings.most_packets, npus, graph.nodes, graph.source.size)
    return head + b"".join(np.ascontiguousarray(column, kind).tobytes() for column, kind in (
        (graph.source, "<i4"), (graph.target, "<i4"), (graph.bandwidth, "<f8"), (graph.latency, "<f8")))
