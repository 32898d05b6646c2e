"""ASTRA-sim's ring and direct collectives as token machines: one per rank, chunk and phase.

A token is a packet that may be sent. Tokens are put in at the start and for every received message; a token becomes
usable when it has crossed the endpoint (and was reduced, where the operation adds). A usable token sends one message to
the next peer and posts the matching receive.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from astrarium.engine.plan import Phase
from astrarium.engine.reference.astra_bus import Door
from astrarium.engine.reference.astra_messages import Mail
from astrarium.engine.reference.clock import Event
from astrarium.vocab import CommOp

__all__ = ["Direct", "Place", "Ring", "Tokens"]


class Place:
    """Where a participant stands in its phase: own rank, own index, and the ranks of all n participants in order."""

    __slots__ = ("backwards", "index", "n", "rank", "ranks")

    def __init__(self, rank: int, index: int, ranks: list[int], backwards: bool) -> None:
        self.rank, self.index, self.ranks, self.n, self.backwards = rank, index, ranks, len(ranks), backwards

    def next(self, steps: int) -> int:
        """The rank `steps` ahead in the direction of the queue."""
        return self.ranks[(self.index - steps if self.backwards else self.index + steps) % self.n]


class Host(Protocol):
    """What a machine needs from its rank."""

    door: Door
    mail: Mail


class Tokens:
    """Which tokens of a machine are added to local data: rounds of `plain` tokens, then `counted` ones."""

    __slots__ = ("_counted", "_left_counted", "_left_plain", "_odd", "_op", "_plain")

    def __init__(self, op: int, plain: int, counted: int) -> None:
        self._op, self._plain, self._counted = op, plain, counted
        self._left_plain = self._left_counted = 0
        self._odd = False

    def take(self) -> tuple[bool, bool, bool]:
        """The next token: (goes out, is reduced, is sent back over the bus)."""
        if not self._left_plain and not self._left_counted:
            self._left_plain, self._left_counted = self._plain, self._counted
            self._odd = not self._odd
        if self._left_plain:
            self._left_plain -= 1
            return True, False, False
        reduced = self._op == CommOp.REDUCE_SCATTER or (self._op == CommOp.ALL_REDUCE and self._odd)
        send_back = self._left_counted > self._plain
        self._left_counted -= 1
        return False, reduced, send_back


def ring_messages(op: int, n: int) -> int:
    """Messages that a rank sends in a ring: all_to_all forwards, so n(n-1)/2."""
    if op == CommOp.ALL_REDUCE:
        return 2 * (n - 1)
    return n * (n - 1) // 2 if op == CommOp.ALL_TO_ALL else n - 1


def message_size(phase: Phase) -> int:
    """Bytes of one message: the shard; all_gather starts from it."""
    return phase.size if phase.op == CommOp.ALL_GATHER else phase.size // phase.n


class Ring:
    """One token walks: every step sends to the next rank and receives from the previous one."""

    __slots__ = ("_done", "_fast", "_free", "_host", "_left", "_next", "_packets", "_place", "_previous", "_size",
                 "_tag", "_tokens")

    def __init__(self, host: Host, phase: Phase, place: Place, tag: int, done: Event) -> None:
        self._host, self._place, self._tag, self._done = host, place, tag, done
        self._fast, self._size = phase.local, message_size(phase)
        self._tokens = Tokens(phase.op, 1, phase.n - 1)
        self._left = ring_messages(phase.op, phase.n)
        self._next, self._previous = place.next(1), place.next(-1)
        self._packets = self._free = 0

    def start(self) -> None:
        """Put in the first token."""
        self._put()

    def _put(self) -> None:
        out, reduced, send_back = self._tokens.take()
        self._packets += 1
        if out:
            self._host.door.out(self._size, self._fast, self._usable)
        else:
            self._host.door.into(self._size, self._fast, reduced, send_back, self._usable)

    def _usable(self) -> None:
        self._free += 1
        if self._packets and self._left:
            mail, rank = self._host.mail, self._place.rank
            mail.send(self._tag, rank, self._next, self._size, None)
            mail.receive(self._tag, self._previous, rank, self._size, self._put)
            self._packets -= 1
            self._left -= 1
            self._free -= 1
        elif not self._left and self._free == 1:
            self._done()


class Direct:
    """`window` tokens walk at once; each message goes one rank further. An all_reduce waits between its two halves."""

    __slots__ = ("_ahead", "_done", "_fast", "_free", "_half", "_host", "_left", "_packets", "_place", "_received",
                 "_reducing", "_size", "_tag", "_tokens", "_window")

    def __init__(self, host: Host, phase: Phase, place: Place, tag: int, done: Event) -> None:
        self._host, self._place, self._tag, self._done = host, place, tag, done
        self._fast, self._size = phase.local, message_size(phase)
        self._half = phase.n - 1
        self._window = self._half if phase.window == -1 else min(phase.window, self._half)
        self._tokens = Tokens(phase.op, self._window, self._half * self._window if phase.local else self._window)
        self._reducing = phase.op == CommOp.ALL_REDUCE
        self._left = 2 * self._half if self._reducing else self._half
        self._packets: deque[int] = deque()  # how far ahead the peer of each waiting packet is
        self._ahead = 1
        self._received = self._free = 0

    def start(self) -> None:
        """Put in one token per message that may be in flight."""
        for _ in range(self._window):
            self._put()

    def _put(self) -> None:
        out, reduced, send_back = self._tokens.take()
        self._packets.append(self._ahead)
        self._ahead = self._ahead % self._half + 1
        if out:
            self._host.door.out(self._size, self._fast, self._usable)
        else:
            self._host.door.into(self._size, self._fast, reduced, send_back, self._usable)

    def _arrived(self) -> None:
        self._received += 1
        self._put()

    def _usable(self) -> None:
        self._free += 1
        if self._reducing and self._left <= self._half:
            if self._received < self._half:
                return
            for _ in range(self._window):
                self._send()
        else:
            self._send()
        if not self._left and self._free == self._window:
            self._done()

    def _send(self) -> None:
        if not (self._packets and self._left and self._free):
            return
        ahead = self._packets.popleft()
        mail, rank = self._host.mail, self._place.rank
        mail.send(self._tag, rank, self._place.next(ahead), self._size, None)
        mail.receive(self._tag, self._place.next(-ahead), rank, self._size, self._arrived)
        self._left -= 1
        self._free -= 1
