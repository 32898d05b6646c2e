"""One link of a message's way."""

from __future__ import annotations

from astrarium.engine.reference.native_clock import ticks
from astrarium.engine.reference.traffic import Port

__all__ = ["Hop"]


class Hop:
    """A link: its name in the traffic, bytes per ns, and latency in ps."""

    __slots__ = ("bandwidth", "latency", "port")

    def __init__(self, port: Port, bandwidth: float, latency: float) -> None:
        self.port, self.bandwidth, self.latency = port, bandwidth, ticks(latency)
