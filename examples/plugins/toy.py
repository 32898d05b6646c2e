"""The twin of network_c/toy.c as a network plug-in in Python: every NPU sends one message at a time.

    start     = max(now, when the source is free)
    delivered = start + size / bandwidth + latency      (those of the design's innermost dim)
"""

from __future__ import annotations

import math
from functools import partial

from astrarium.plugins import Callback, EventQueue, Mailbox, NetworkPlan


class Toy:
    """A network for one run. `EventQueue` is its clock, `Mailbox` matches messages with receives."""

    def __init__(self, fabric: NetworkPlan) -> None:
        self._events, self._mail = EventQueue(), Mailbox()
        self._latency = round(fabric.dims[0].latency * 1000)
        self._bandwidth = fabric.dims[0].bandwidth
        self._free: dict[int, int] = {}

    def sim_send(self, msg_size: int, src: int, dst: int, callback: Callback, tag: int = 0) -> None:
        now = self._events.now
        free = max(now, self._free.get(src, 0)) + math.floor(msg_size * 1000.0 / self._bandwidth)
        self._free[src] = free
        self.sim_schedule(free + self._latency - now, partial(self._deliver, (src, dst, tag, msg_size), callback))

    def sim_recv(self, msg_size: int, src: int, dst: int, callback: Callback, tag: int = 0) -> None:
        self._mail.wanted((src, dst, tag, msg_size), callback)

    def sim_schedule(self, delta: int, callback: Callback) -> None:
        self._events.schedule(delta, callback)

    def sim_get_time(self) -> int:
        return self._events.now

    def next_event_time(self) -> int:
        return self._events.next_time()

    def advance(self, to: int) -> None:
        self._events.advance(to)

    def _deliver(self, key: tuple[int, int, int, int], callback: Callback) -> None:
        callback()                      # the send's
        self._mail.delivered(key)       # and that of the receive that waits for it, if one does


def make(fabric: NetworkPlan, options: str = "") -> Toy:
    """What the entry point `astrarium.plugins: backend.toy` would name."""
    return Toy(fabric)
