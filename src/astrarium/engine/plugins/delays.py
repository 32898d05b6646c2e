"""The smallest network plug-in: a function says how long each message takes, and nothing else matters."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from astrarium.engine.plugins.clockwork import EventQueue, Key, Mailbox
from astrarium.engine.plugins.network import Callback

__all__ = ["Delay", "DelayNetwork"]

Delay = Callable[[int, int, int, int], int]
"""(msg_size, src, dst, now ps) -> ps until the message is delivered; it may remember what it was asked, and queue."""


class DelayNetwork:
    """A network made of `delay`; every message is delivered that long after it was sent."""

    def __init__(self, delay: Delay) -> None:
        self._delay = delay
        self._events = EventQueue()
        self._mail = Mailbox()
        self.sim_schedule = self._events.schedule
        self.next_event_time = self._events.next_time
        self.advance = self._events.advance

    def sim_send(self, msg_size: int, src: int, dst: int, callback: Callback, tag: int = 0) -> None:
        """Deliver after the delay."""
        delta = self._delay(msg_size, src, dst, self._events.now)
        self._events.schedule(delta, partial(self._arrive, (src, dst, tag, msg_size), callback))

    def sim_recv(self, msg_size: int, src: int, dst: int, callback: Callback, tag: int = 0) -> None:
        """Wait for a message."""
        self._mail.wanted((src, dst, tag, msg_size), callback)

    def sim_get_time(self) -> int:
        """Now, ps."""
        return self._events.now

    def _arrive(self, key: Key, callback: Callback) -> None:
        callback()
        self._mail.delivered(key)
