"""contention: every link of a dimension-ordered route carries one message at a time, first come first served."""

from __future__ import annotations

from astrarium.engine.plan import NetworkPlan
from astrarium.engine.reference.clock import Event
from astrarium.engine.reference.native_clock import ARRIVE, DEPART, DONE, BatchClock, Key, Order, ticks
from astrarium.engine.reference.native_media import Keys, MediumKind
from astrarium.engine.reference.routes import Hop, Routes
from astrarium.engine.reference.traffic import Port, Traffic

__all__ = ["LINKS"]


class Links:
    """contention: dimension-ordered, innermost first, FIFO on every link. Whole messages are stored and forwarded, or
    (cut through) heads are forwarded as they arrive; a link is held for a whole message in both."""

    def __init__(self, clock: BatchClock, network: NetworkPlan, traffic: Traffic | None) -> None:
        self._cut_through = network.cut_through
        self._clock, self._routes, self._traffic = clock, Routes(network.dims), traffic
        self._free: dict[Port, int] = {}

    def send(self, key: Key, order: Order, source: int, destination: int, size: int, delivered: Event,
             tag: int = 0) -> None:
        del tag
        route = self._routes.between(source, destination)
        keys = key, (*order, key[0], key[1])
        self._clock.at(self._clock.now, DEPART, key, lambda: self._next(keys, route, 0, 0, size, delivered))

    def _next(self, keys: Keys, route: list[Hop], step: int, tail: int, size: int, delivered: Event) -> None:
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


LINKS = MediumKind(Links)
