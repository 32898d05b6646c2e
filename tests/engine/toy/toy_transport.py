"""A transport of packets for the tests: whatever is sent arrives after a delay. Config class, rules, plain Python."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from astrarium.config import Knob, default
from astrarium.engine.plan import TransportRules
from astrarium.network.transport import Transport
from astrarium.oracle.net import Cargo, Events, Net
from astrarium.units import Time


class Delayed(Transport, frozen=True):
    """Whatever is sent arrives after a delay."""

    tag: ClassVar[str] = "delayed"
    delay: Annotated[Time, Knob("From send to arrival.", gt=0)] = default("1 us")

    def plan(self) -> DelayedRules:
        """The delay in ps."""
        return DelayedRules(round(float(self.delay) * 1000))


class DelayedRules(TransportRules, frozen=True):
    """What toy_transport.cpp is told, too."""

    name: ClassVar[str] = "delayed"
    delay: int = 1_000_000

    def open(self, net: Net) -> Any:
        """The transport in plain Python."""
        del net
        return _Delayed(self.delay)


class _Delayed:
    def __init__(self, delay: int) -> None:
        self.events, self._delay = Events(), delay

    def ask(self, cargo: Cargo, link: int, now: int) -> None:
        """A message is at its first link."""
        del link
        cargo.delivered(now + self._delay)

    def run(self, until: int) -> None:
        """Nothing waits for the end of a window."""

    def keeps(self, link: int) -> bool:
        """No packet waits for a link."""
        del link
        return False

    def explain(self) -> list[str]:
        """Nothing is kept."""
        return []

    def counts(self) -> None:
        """Nothing is measured."""
