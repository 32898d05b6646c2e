"""fluid: a message is a flow, which draws on all links of its route at once; rates are max-min fair, and change."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod

from astrarium.engine.activities import UNIT, Activities
from astrarium.engine.outcome import PacketCounts
from astrarium.engine.plan import FULL_SPEED, Changes, NetworkPlan
from astrarium.errors import UnsupportedError
from astrarium.oracle.clock import ARRIVE, DEPART, DONE, NEVER, Clock, Event, Key, Order
from astrarium.oracle.fabric import Hop, bandwidths, fabric_of, link_rates, links_that_stand
from astrarium.oracle.record import Port, Traffic

__all__ = ["Flows"]

Pair = tuple[int, int]
NOBODY = (0, 0, 0, 0)
WHOLE = 2**30       # parts of a busy link of a graph, whatever its bandwidth


def parts(bandwidth: float) -> int:
    """Parts of a byte per ps of a link with `bandwidth` bytes per ns: what activities count in."""
    return round(bandwidth / 1000 * UNIT)


class Flows:
    """fluid: a message's bytes leave at the rate that its links share out, and arrive the latency of all links on."""

    def __init__(self, clock: Clock, network: NetworkPlan, traffic: Traffic | None,
                 changes: Changes | None = None) -> None:
        if not all(1e-6 <= bandwidth <= 1e9 for bandwidth in bandwidths(network)):      # parts have 63 bits
            raise UnsupportedError("workload", "flows over links of less than 1e-6 or more than 1e9 bytes per ns")
        self._clock, self._traffic, self._fabric = clock, traffic, fabric_of(network, changes)
        self._whole = _whole(network)
        if traffic is not None:
            traffic.set_whole(self._whole)
        self._npus = prod(dim.npus for dim in network.dims)
        self._waiting: dict[Pair, list[tuple[Key, Event]]] = {}     # behind the flow between an NPU and a switch
        self._flows: Activities[Port] = Activities(None if traffic is None else self._spent)
        self._parts: dict[Port, int] = {}       # per ps at full speed, of the links that were drawn on
        self._rates = link_rates(self._fabric, changes)
        self._changes = self._rates.changes()   # those to come
        self._due = NEVER               # the earliest look at ends that is scheduled
        self._looked_at = False

    def send(self, key: Key, order: Order, source: int, destination: int, size: int, delivered: Event,
             tag: int = 0) -> None:
        """As `Medium` says."""
        del tag
        if self._fabric.epochs is not None:
            self._fabric.epochs.go_to(self._clock.now)
        pair = (source, destination) if max(source, destination) >= self._npus else None
        begin = partial(self._begin, key, self._fabric.between(source, destination), size, delivered, pair)
        if pair is not None:
            begin = partial(self._take_turn, pair, (*order, key[0], key[1]), begin)
        self._clock.at(self._clock.now, DEPART, key, begin)

    def _take_turn(self, pair: Pair, key: Key, begin: Event) -> None:
        """What goes to a switch that computes, or comes from there, goes one after the other."""
        if pair in self._waiting:
            self._waiting[pair].append((key, begin))
        else:
            self._waiting[pair] = []
            begin()

    def _begin(self, key: Key, route: Sequence[Hop], size: int, delivered: Event, pair: Pair | None) -> None:
        if self._flows.now != self._clock.now:
            self._advance()
        for hop in route:
            if hop.port not in self._parts:
                self._parts[hop.port] = parts(hop.bandwidth)
                self._set_capacity(hop.port)
        self._flows.start(size, [hop.port for hop in route], partial(self._end, key, route, size, delivered, pair))
        self._look()

    def _end(self, key: Key, route: Sequence[Hop], size: int, delivered: Event, pair: Pair | None) -> None:
        """The last byte has left."""
        if pair is not None and self._waiting[pair]:
            following, begin = self._waiting[pair].pop(0)
            self._clock.at(self._clock.now, ARRIVE, following, begin)
        elif pair is not None:
            del self._waiting[pair]
        if self._traffic is not None:
            for hop in route:
                self._traffic.carried(hop.port, size, size * UNIT // parts(hop.bandwidth))
        self._clock.at(self._clock.now + sum(hop.latency for hop in route), DONE, key, delivered)

    def _look(self) -> None:
        """Once an instant, after all that begins and ends in it: when is the next end?"""
        if not self._looked_at:
            self._looked_at = True
            self._clock.at(self._clock.now, ARRIVE, NOBODY, self._share)

    def _share(self) -> None:
        self._looked_at = False
        following = self._flows.next_time()
        if self._changes and self._flows.drawn():
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
        self._flows.advance(self._clock.now)
        while self._changes and self._changes[0][0] <= self._clock.now:
            port = self._changes.pop(0)[1]
            if port in self._parts:
                self._set_capacity(port)

    def _set_capacity(self, port: Port) -> None:
        speed = self._rates.speed(port, self._clock.now)
        self._flows.set_parts(port, max(self._parts[port] * speed // FULL_SPEED, 1 if speed else 0))

    def waits(self) -> list[str]:
        """Links that stand still, and that a flow draws on."""
        return links_that_stand(self._fabric, self._rates, self._flows.drawn())

    def counts(self) -> PacketCounts | None:
        """No packets."""
        return None

    def _spent(self, ports: tuple[Port, ...], begin: int, end: int, rate: int) -> None:
        assert self._traffic is not None
        for port in ports:
            own, whole = self._parts[port], self._whole[port[0]]
            self._traffic.shared(port, begin, end - begin, rate if own == whole else rate * whole // own)


def _whole(network: NetworkPlan) -> Sequence[int]:
    """A link is busy by the part of its bandwidth that is drawn."""
    return [parts(dim.bandwidth) for dim in network.dims] if network.graph is None else [WHOLE]
