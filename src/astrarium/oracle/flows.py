"""fluid: a message leaves its source and crosses the links behind at rates that are max-min fair, and change.

Messages leave over a link one after the other, as they asked; those of the same two ends cross one after the other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import partial

from msgspec import Struct

from astrarium.engine.activities import UNIT
from astrarium.engine.outcome import PacketCounts
from astrarium.engine.plan import FULL_SPEED, Changes, NetworkPlan
from astrarium.errors import UnsupportedError
from astrarium.oracle.clock import ARRIVE, DEPART, DONE, NEVER, Clock, Event, Key, Order
from astrarium.oracle.fabric import Hop, bandwidths, fabric_of, link_rates, links_that_stand
from astrarium.oracle.record import Port, Traffic
from astrarium.oracle.shares import Crossing, Shares

__all__ = ["Flows"]

NOBODY = (0, 0, 0, 0)
WHOLE = 2**30       # parts of a busy link of a graph, whatever its bandwidth


def parts(bandwidth: float) -> int:
    """Parts of a byte per ps of a link with `bandwidth` bytes per ns: what activities count in."""
    return round(bandwidth / 1000 * UNIT)


class _Message(Struct, eq=False):
    key: Key
    ends: tuple[int, int]
    size: int
    delivered: Event
    route: Sequence[Hop] = ()


class Flows:
    """fluid: a message's last byte arrives the latency of all links after it left the last of them."""

    def __init__(self, clock: Clock, network: NetworkPlan, traffic: Traffic | None,
                 changes: Changes | None = None) -> None:
        if not all(1e-6 <= bandwidth <= 1e9 for bandwidth in bandwidths(network)):      # parts have 63 bits
            raise UnsupportedError("workload", "flows over links of less than 1e-6 or more than 1e9 bytes per ns")
        self._clock, self._traffic, self._fabric = clock, traffic, fabric_of(network, changes)
        self._whole = _whole(network)
        if traffic is not None:
            traffic.set_whole(self._whole)
        self._busy: set[Port] = set()                       # links over which a message leaves
        self._waiting: dict[Port, deque[_Message]] = {}     # by first link
        self._crossing: dict[tuple[int, int], deque[Crossing[Port]]] = {}   # by source and destination, in order
        self._shares: Shares[Port] = Shares(None if traffic is None else self._spent)
        self._parts: dict[Port, int] = {}       # per ps at full speed, of the links that were used
        self._rates = link_rates(self._fabric, changes)
        self._changes = self._rates.changes()   # those to come
        self._due = NEVER               # the earliest look at ends that is scheduled
        self._looked_at = False

    def send(self, key: Key, order: Order, source: int, destination: int, size: int, delivered: Event,
             tag: int = 0) -> None:
        """As `Medium` says."""
        del order, tag
        message = _Message(key, (source, destination), size, delivered)
        self._clock.at(self._clock.now, DEPART, key, partial(self._ask, message))

    def _ask(self, message: _Message) -> None:
        if message.ends[0] == message.ends[1]:
            self._arrive(message)
            return
        if self._shares.now != self._clock.now:
            self._advance()
        self._begin(message)
        self._look()

    def _begin(self, message: _Message) -> None:
        """Leave, or wait for the first link of the route, which is that of now."""
        if self._fabric.epochs is not None:
            self._fabric.epochs.go_to(self._clock.now)
        message.route = self._fabric.between(*message.ends)
        first = message.route[0].port
        if first in self._busy:
            self._waiting.setdefault(first, deque()).append(message)
        else:
            self._busy.add(first)
            self._leave(message)

    def _leave(self, message: _Message) -> None:
        for hop in message.route:
            if hop.port not in self._parts:
                self._parts[hop.port] = parts(hop.bandwidth)
                self._set_capacity(hop.port)
        made = self._shares.leave(message.size, [hop.port for hop in message.route], partial(self._left, message),
                                  partial(self._crossed, message))
        if len(message.route) > 1:
            queue = self._crossing.setdefault(message.ends, deque())
            queue.append(made)
            if len(queue) == 1:
                self._shares.cross(made)

    def _left(self, message: _Message) -> None:
        """The next one leaves. What waited may have another route by now."""
        if len(message.route) == 1:
            self._arrive(message)
        first = message.route[0].port
        self._busy.remove(first)
        while first not in self._busy and self._waiting.get(first):
            self._begin(self._waiting[first].popleft())

    def _crossed(self, message: _Message) -> None:
        queue = self._crossing[message.ends]
        queue.popleft()
        if queue:
            self._shares.cross(queue[0])
        self._arrive(message)

    def _arrive(self, message: _Message) -> None:
        """The last byte has left the last link."""
        if self._traffic is not None:
            for hop in message.route:
                self._traffic.carried(hop.port, message.size, message.size * UNIT // parts(hop.bandwidth))
        latency = sum(hop.latency for hop in message.route)
        self._clock.at(self._clock.now + latency, DONE, message.key, message.delivered)

    def _look(self) -> None:
        """Once an instant, after all that begins and ends in it: when is the next end?"""
        if not self._looked_at:
            self._looked_at = True
            self._clock.at(self._clock.now, ARRIVE, NOBODY, self._share)

    def _share(self) -> None:
        self._looked_at = False
        following = self._shares.next_time()
        if self._changes and not self._shares.idle():
            following = min(following, self._changes[0][0])
        if following < self._due:
            self._due = following
            self._clock.at(following, DONE, NOBODY, self._run)

    def _run(self) -> None:
        if self._due == self._clock.now:
            self._due = NEVER
        self._advance()
        self._look()

    def _advance(self) -> None:
        """Go on to now, with the links as they are from now on."""
        self._shares.advance(self._clock.now)
        while self._changes and self._changes[0][0] <= self._clock.now:
            port = self._changes.pop(0)[1]
            if port in self._parts:
                self._set_capacity(port)

    def _set_capacity(self, port: Port) -> None:
        speed = self._rates.speed(port, self._clock.now)
        self._shares.set_parts(port, max(self._parts[port] * speed // FULL_SPEED, 1 if speed else 0))

    def waits(self) -> list[str]:
        """Links that stand still, and that a flow draws on."""
        return links_that_stand(self._fabric, self._rates, self._shares.drawn())

    def counts(self) -> PacketCounts | None:
        """No packets."""
        return None

    def _spent(self, port: Port, begin: int, end: int, rate: int) -> None:
        assert self._traffic is not None
        own, whole = self._parts[port], self._whole[port[0]]
        self._traffic.shared(port, begin, end - begin, rate if own == whole else rate * whole // own)


def _whole(network: NetworkPlan) -> Sequence[int]:
    """A link is busy by the part of its bandwidth that is drawn."""
    return [parts(dim.bandwidth) for dim in network.dims] if network.graph is None else [WHOLE]
