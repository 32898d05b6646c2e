"""contention: every link of a message's way carries one message at a time, first come first served."""

from __future__ import annotations

from collections.abc import Sequence

from astrarium.engine.plan import NetworkPlan
from astrarium.engine.reference.clock import Event
from astrarium.engine.reference.fabric import fabric_of
from astrarium.engine.reference.hop import Hop
from astrarium.engine.reference.native_clock import ARRIVE, DEPART, DONE, BatchClock, Key, Order, ticks
from astrarium.engine.reference.native_media import Keys
from astrarium.engine.reference.traffic import Port, Traffic

__all__ = ["Links"]


class Links:
    """contention: FIFO on every link of the fabric. Whole messages are stored and forwarded, or (cut through) heads are
    forwarded as they arrive; a link is held for a whole message in both."""

    has_links = True

    def __init__(self, clock: BatchClock, network: NetworkPlan, traffic: Traffic | None) -> None:
        self._cut_through = network.cut_through
        self._clock, self._fabric, self._traffic = clock, fabric_of(network), traffic
        self._free: dict[Port, int] = {}

    @staticmethod
    def check(network: NetworkPlan) -> None:
        """Any network will do."""

    @staticmethod
    def whole(network: NetworkPlan) -> Sequence[int]:
        """Links are busy or not."""
        del network
        return ()

    def send(self, key: Key, order: Order, source: int, destination: int, size: int, delivered: Event,
             tag: int = 0) -> None:
        del tag
        route = self._fabric.between(source, destination)
        keys = key, (*order, key[0], key[1])
        self._clock.at(self._clock.now, DEPART, key, lambda: self._next(keys, route, 0, 0, size, delivered))

    def _next(self, keys: Keys, route: Sequence[Hop], step: int, tail: int, size: int, delivered: Event) -> None:
        """The head is at the start of link `step`; its last byte comes there at `tail`."""
        if step == len(route):
            self._clock.at(self._clock.now, DONE, keys[0], delivered)
            return
        hop = route[step]
        wire = ticks(size / hop.bandwidth)
        left = self._free[hop.port] = max(self._clock.now, self._free.get(hop.port, 0)) + wire
        if self._traffic is not None:
            self._traffic.add(hop.port, size, left - wire, wire)
        last = max(left, tail) + hop.latency
        head = left - wire + hop.latency if self._cut_through and step + 1 < len(route) else last
        self._clock.at(head, ARRIVE, keys[1], lambda: self._next(keys, route, step + 1, last, size, delivered))
