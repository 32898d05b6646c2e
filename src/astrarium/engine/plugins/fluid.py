"""A network of flows: messages share the ports of both ends at max-min fair rates, re-timed as others come and go."""

from __future__ import annotations

from functools import partial

from astrarium.engine.activities import Activities
from astrarium.engine.plan import NetworkPlan, Shape
from astrarium.engine.plugins.clockwork import EventQueue, Mailbox
from astrarium.engine.plugins.network import Callback
from astrarium.engine.reference.geometry import coordinate, differing_dims, hops, strides

__all__ = ["FluidNetwork"]

Key = tuple[int, int, int, int]


class FluidNetwork:
    """Per dim an NPU has one port out and one in (`bandwidth` of a link). A message draws on both ends' ports of every
    dim in which they differ, and is delivered the hops' latency after its last byte has left. The closed-form back end
    serves messages one after the other instead: same bytes per port, other order."""

    def __init__(self, network: NetworkPlan) -> None:
        self._dims, self._strides = network.dims, strides(network.dims)
        self._flows, self._events, self._mail = Activities(), EventQueue(), Mailbox()
        self._known: set[tuple[str, int, int, int]] = set()
        self.sim_schedule = self._events.schedule

    def sim_get_time(self) -> int:
        """Now, ps."""
        return self._events.now

    def sim_send(self, msg_size: int, src: int, dst: int, callback: Callback, tag: int = 0) -> None:
        """Start a flow of `msg_size` bytes."""
        ports, latency = [], 0.0
        for d in differing_dims(self._dims, self._strides, src, dst):
            dim, stride = self._dims[d], self._strides[d]
            latency += dim.latency * hops(dim.shape, dim.npus, coordinate(src, stride, dim.npus),
                                          coordinate(dst, stride, dim.npus))
            peer = (dst, src) if dim.shape == Shape.FULLY_CONNECTED else (-1, -1)
            for port in (("out", d, src, peer[0]), ("in", d, dst, peer[1])):
                if port not in self._known:
                    self._known.add(port)
                    self._flows.set_capacity(port, dim.bandwidth / 1000)
                ports.append(port)
        arrive = partial(self._arrive, (src, dst, tag, msg_size), callback)
        self._flows.start(msg_size, ports, partial(self._events.schedule, round(latency * 1000), arrive))

    def sim_recv(self, msg_size: int, src: int, dst: int, callback: Callback, tag: int = 0) -> None:
        """Wait for a message."""
        self._mail.wanted((src, dst, tag, msg_size), callback)

    def next_event_time(self) -> int:
        """The earlier of the next end of a flow and the next event."""
        return min(self._flows.next_time(), self._events.next_time())

    def advance(self, to: int) -> None:
        """Run to `to`: flows first, then events, instant by instant."""
        while (instant := self.next_event_time()) <= to:
            self._step(instant)
        self._step(to)

    def _step(self, instant: int) -> None:
        self._events.now = max(self._events.now, min(instant, self._events.next_time()))
        self._flows.advance(instant)
        self._events.advance(instant)

    def _arrive(self, key: Key, callback: Callback) -> None:
        callback()
        self._mail.delivered(key)
