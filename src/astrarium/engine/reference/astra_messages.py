"""Sends and receives of ASTRA-sim's rule book: the i-th send of a key meets the i-th receive of that key."""

from __future__ import annotations

from collections import deque
from typing import Protocol

from astrarium.engine.reference.clock import Clock, Event

__all__ = ["COLLECTIVE", "P2P", "DirectMail", "Mail", "Message", "Network", "RendezvousMail"]

P2P, COLLECTIVE = 0, 1  # tag spaces: a tag passed to Mail is `number * 4 + space`; requests add 2
REQUEST = 2
REQUEST_BYTES = 8192

Key = tuple[int, int, int, int]  # tag, source, destination, bytes


class Message:
    """One message: who wants to know that it was sent, and who that it was received."""

    __slots__ = ("_clock", "arrived", "on_received", "on_sent")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.on_sent: Event | None = None
        self.on_received: Event | None = None
        self.arrived = False

    def arrive(self) -> None:
        """The network delivers: first the sender hears of it, then a receiver that was already waiting."""
        received = self.on_received
        self.arrived = True
        if self.on_sent is not None:
            self.on_sent()
        if received is not None:
            received()

    def receive(self, on_received: Event) -> None:
        """The receive of a message that was sent before it; one that has arrived is an event of its own, now."""
        if self.arrived:
            self._clock.at(self._clock.now, on_received)
        else:
            self.on_received = on_received


class Network(Protocol):
    """Carries a message of `size` bytes between two NPUs and calls `message.arrive`."""

    def carry(self, source: int, destination: int, size: int, message: Message) -> None: ...


class Mail(Protocol):
    """Sends and receives by (tag, source, destination, bytes)."""

    def send(self, tag: int, source: int, destination: int, size: int, on_sent: Event | None) -> None: ...

    def receive(self, tag: int, source: int, destination: int, size: int, on_received: Event) -> None: ...


class DirectMail:
    """A send starts its message at once."""

    def __init__(self, clock: Clock, network: Network, npu_of: list[int]) -> None:
        self._clock, self._network, self._npu_of = clock, network, npu_of
        self._sent: dict[Key, deque[Message]] = {}
        self._wanted: dict[Key, deque[Message]] = {}

    def send(self, tag: int, source: int, destination: int, size: int, on_sent: Event | None) -> None:
        key = (tag, source, destination, size)
        wanted = self._wanted.get(key)
        if wanted is None:
            message = Message(self._clock)
            self._sent.setdefault(key, deque()).append(message)
        else:
            message = wanted.popleft()
            if not wanted:
                del self._wanted[key]
        message.on_sent = on_sent
        self._network.carry(self._npu_of[source], self._npu_of[destination], size, message)

    def receive(self, tag: int, source: int, destination: int, size: int, on_received: Event) -> None:
        key = (tag, source, destination, size)
        sent = self._sent.get(key)
        if sent is None:
            message = Message(self._clock)
            message.on_received = on_received
            self._wanted.setdefault(key, deque()).append(message)
        else:
            message = sent.popleft()
            if not sent:
                del self._sent[key]
            message.receive(on_received)


class RendezvousMail:
    """A message starts when an 8,192-byte request from its receiver has come; requests are matched without the size."""

    def __init__(self, mail: DirectMail) -> None:
        self._mail = mail

    def send(self, tag: int, source: int, destination: int, size: int, on_sent: Event | None) -> None:
        def start() -> None:
            self._mail.send(tag, source, destination, size, on_sent)

        self._mail.receive(tag + REQUEST, destination, source, REQUEST_BYTES, start)

    def receive(self, tag: int, source: int, destination: int, size: int, on_received: Event) -> None:
        def start() -> None:
            self._mail.receive(tag, source, destination, size, on_received)

        self._mail.send(tag + REQUEST, destination, source, REQUEST_BYTES, start)
