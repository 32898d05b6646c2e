"""The *network* protocol: ASTRA-sim's four functions, and the two of a clock that takes part in a co-simulation.

The engine owns the loop. It calls `advance(t)` to bring the network's clock to an instant, and `sim_send` and
`sim_recv` at that instant; the network answers by calling the callback of each, once: that of a send when the message
is delivered, that of a receive when a matching message is there (at once, where it was there before). Messages match
when source, destination, tag and size are equal; of equal ones the k-th sent meets the k-th received.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from astrarium.engine.plan import NetworkPlan

__all__ = ["NEVER", "Callback", "Network", "NetworkFactory"]

NEVER = 2**63 - 1
"""`next_event_time()` of a network for which nothing is to come."""

Callback = Callable[[], None]


class Network(Protocol):
    """A network for one run, at time 0. Times are integer ps, sizes bytes, `src` and `dst` NPU numbers."""

    def sim_send(self, msg_size: int, src: int, dst: int, callback: Callback, tag: int = 0) -> None:
        """`src` has a message for `dst`, now; `callback()` when it is delivered."""

    def sim_recv(self, msg_size: int, src: int, dst: int, callback: Callback, tag: int = 0) -> None:
        """`dst` waits from now on for a message of `src`; `callback()` when both are there."""

    def sim_schedule(self, delta: int, callback: Callback) -> None:
        """Run `callback()` on this clock `delta` >= 0 ps from now."""

    def sim_get_time(self) -> int:
        """This clock's now, ps."""
        ...

    def next_event_time(self) -> int:
        """When something happens next, ps, or NEVER. Not before now."""
        ...

    def advance(self, to: int) -> None:
        """Run everything up to and including `to` (at most the next event's time is skipped to), then set the clock to
        `to`."""


NetworkFactory = Callable[[NetworkPlan, str], Network]
"""What is registered as `backend.<name>`: (dims of the design's network, its `network.options`) -> a network for one
run. Handed to a run in Python (`Plugins(network=...)`) it takes the dims only."""
