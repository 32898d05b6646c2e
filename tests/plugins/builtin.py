"""The engine's own networks behind the *network* protocol: they sit its exam first, and it lets them be compared."""

from __future__ import annotations

from msgspec.structs import replace

from astrarium.engine.plan import Backend, NetworkPlan
from astrarium.engine.plugins.clockwork import Mailbox
from astrarium.engine.plugins.network import Callback
from astrarium.errors import InputError
from astrarium.oracle.clock import DONE, Clock
from astrarium.oracle.medium import open_medium

__all__ = ["BuiltinNetwork"]


STEP = 2**40 - 1     # of a collective's tag: which of its messages


class BuiltinNetwork:
    """A medium of the engine over the dims of `fabric`.

    Within one instant messages depart in the order of source NPU, then of their sends; they arrive by chunk, phase and
    receive of their collective (the tag's), others by bytes, then as they depart.
    """

    def __init__(self, fabric: NetworkPlan, backend: str = Backend.PORTS) -> None:
        self._clock = Clock()
        self._wires = open_medium(self._clock, replace(fabric, backend=backend))
        self._mail = Mailbox()
        self._number = 0

    def sim_send(self, msg_size: int, src: int, dst: int, callback: Callback, tag: int = 0) -> None:
        """As `Network` says."""
        def delivered() -> None:
            callback()
            self._mail.delivered((src, dst, tag, msg_size))

        self._number += 1
        step = (0, tag & STEP) if tag > STEP else (1, msg_size)
        self._wires.send((src, self._number, 0, 0), step, src, dst, msg_size, delivered)

    def sim_recv(self, msg_size: int, src: int, dst: int, callback: Callback, tag: int = 0) -> None:
        """As `Network` says."""
        self._mail.wanted((src, dst, tag, msg_size), callback)

    def sim_schedule(self, delta: int, callback: Callback) -> None:
        """As `Network` says. Raises InputError for a negative delta."""
        if delta < 0:
            raise InputError("sim_schedule", f"delta is {delta} ps", expected="0 or more: time cannot go back")
        self._number += 1
        self._clock.at(self._clock.now + delta, DONE, (0, self._number, 0, 0), callback)

    def sim_get_time(self) -> int:
        """Now, ps."""
        return self._clock.now

    def next_event_time(self) -> int:
        """The next event, ps, or NEVER."""
        return self._clock.next_time()

    def advance(self, to: int) -> None:
        """Run everything up to `to`."""
        while self._clock.next_time() <= to:
            self._clock.instant()
        self._clock.now = to
