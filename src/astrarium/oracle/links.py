"""contention: every link of a message's route carries one message at a time, first come first served."""

from __future__ import annotations

from astrarium.engine.outcome import PacketCounts
from astrarium.engine.plan import Changes, NetworkPlan
from astrarium.oracle.clock import ARRIVE, DEPART, DONE, NEVER, Clock, Event, Key, Order, ticks
from astrarium.oracle.fabric import Hop, fabric_of, link_rates, links_that_stand
from astrarium.oracle.medium import Keys
from astrarium.oracle.record import Port, Traffic

__all__ = ["Links"]


class Links:
    """contention: FIFO on every link of the fabric. Whole messages are stored and forwarded, or (cut through) heads are
    forwarded as they arrive; a link is held for a whole message in both."""

    def __init__(self, clock: Clock, network: NetworkPlan, traffic: Traffic | None,
                 changes: Changes | None = None) -> None:
        self._cut_through = network.cut_through
        self._clock, self._fabric, self._traffic = clock, fabric_of(network, changes), traffic
        self._free: dict[Port, int] = {}
        self._rates, self._epochs = link_rates(self._fabric, changes), self._fabric.epochs

    def send(self, key: Key, order: Order, source: int, destination: int, size: int, delivered: Event,
             tag: int = 0) -> None:
        del tag
        route = list(self._fabric.between(source, destination)) if self._epochs is None else []
        keys, ends = (key, (*order, key[0], key[1])), (source, destination)
        self._clock.at(self._clock.now, DEPART, key, lambda: self._next(keys, ends, route, 0, 0, size, delivered))

    def _next(self, keys: Keys, ends: tuple[int, int], route: list[Hop], step: int, tail: int, size: int,
              delivered: Event) -> None:
        """The head is at the start of link `step`; its last byte comes there at `tail`."""
        if self._epochs is not None:
            self._epochs.go_to(self._clock.now)
            route[step:] = self._fabric.onward(route[step - 1].port[2] if step else ends[0], *ends)
        if step == len(route):
            self._clock.at(self._clock.now, DONE, keys[0], delivered)
            return
        hop = route[step]
        start = max(self._clock.now, self._free.get(hop.port, 0))
        left = self._left(hop, start, size)
        away = self._gives_up(hop, ends[1], left)
        if away < NEVER:    # the link fails before all of the message has left: it goes another way then, as a whole
            self._free[hop.port] = max(start, away)
            if self._traffic is not None and start < away:
                self._traffic.add(hop.port, 0, start, away - start)
            self._clock.at(away, ARRIVE, keys[1], lambda: self._next(keys, ends, route, step, tail, size, delivered))
            return
        self._free[hop.port] = left
        if self._traffic is not None and left < NEVER:
            self._traffic.add(hop.port, size, start, left - start)
        last = _later(max(left, tail), hop.latency)
        head = _later(start, hop.latency) if self._cut_through and step + 1 < len(route) else last
        if head < NEVER:
            self._clock.at(head, ARRIVE, keys[1], lambda: self._next(keys, ends, route, step + 1, last, size,
                                                                            delivered))

    def _gives_up(self, hop: Hop, destination: int, left: int) -> int:
        if self._epochs is None:
            return NEVER
        _, at, _, link = hop.port
        return self._epochs.gives_up(link, at, destination, self._clock.now, left)

    def _left(self, hop: Hop, start: int, size: int) -> int:
        """When the last byte of a message has left, whose turn begins at `start`."""
        wire = ticks(size / hop.bandwidth)
        if start == NEVER:
            return NEVER
        return self._rates.finish(hop.port, start, wire) if self._rates else start + wire

    def waits(self) -> list[str]:
        """Links that stand still, and keep a message."""
        return links_that_stand(self._fabric, self._rates, {port for port, time in self._free.items() if time == NEVER})

    def counts(self) -> PacketCounts | None:
        """No packets."""
        return None


def _later(time: int, latency: int) -> int:
    return time if time == NEVER else time + latency
