"""ASTRA-sim's halving-doubling as a token machine: partners 1, 2, 4 ... away, halving the message, then back again."""

from __future__ import annotations

from collections import deque

from astrarium.engine.plan import Phase
from astrarium.engine.reference.astra_ring import Host, Place, Tokens
from astrarium.engine.reference.clock import Event
from astrarium.errors import UnsupportedError
from astrarium.vocab import CommOp

__all__ = ["HalvingDoubling"]


class HalvingDoubling:
    """One token walks; each step exchanges with the partner at `distance` and then doubles or halves the distance."""

    __slots__ = ("_distance", "_done", "_doubling", "_fast", "_free", "_host", "_left", "_op", "_packets", "_place",
                 "_size", "_tag", "_tokens")

    def __init__(self, host: Host, phase: Phase, place: Place, tag: int, done: Event) -> None:
        steps = phase.n.bit_length() - 1
        if phase.n != 1 << steps:
            raise UnsupportedError("collective", f"ASTRA-sim's halving_doubling never ends on {phase.n} participants",
                                   expected="a power of two")
        if phase.op == CommOp.ALL_TO_ALL:
            raise UnsupportedError("collective", "ASTRA-sim has no all_to_all by halving_doubling",
                                   expected="ring or direct")
        self._host, self._place, self._tag, self._done, self._op = host, place, tag, done, phase.op
        self._fast = phase.local
        gathers = phase.op == CommOp.ALL_GATHER
        self._doubling = not gathers  # the distance doubles while the message halves
        self._distance = phase.n // 2 if gathers else 1
        self._size = phase.size if gathers else phase.size // 2
        self._left = 2 * steps if phase.op == CommOp.ALL_REDUCE else steps
        self._tokens = Tokens(phase.op, 1, steps - 1)
        self._packets: deque[tuple[int, int]] = deque()  # (bytes, partner)
        self._free = 0

    def start(self) -> None:
        """Put in the first token."""
        self._put()

    def _put(self) -> None:
        out, reduced, send_back = self._tokens.take()
        self._packets.append((self._size, self._partner()))
        if out:
            self._host.door.out(self._size, self._fast, self._usable)
        else:
            self._host.door.into(self._size, self._fast, reduced, send_back, self._usable)
        self._step()

    def _partner(self) -> int:
        if not self._distance:
            return self._place.rank
        away = self._distance if (self._place.index // self._distance) % 2 == 0 else -self._distance
        return self._place.ranks[(self._place.index + away) % self._place.n]

    def _step(self) -> None:
        if self._doubling:
            self._distance, self._size = self._distance * 2, self._size // 2
            if self._distance == self._place.n and self._op == CommOp.ALL_REDUCE:
                self._doubling = False
        if not self._doubling:
            self._distance, self._size = self._distance // 2, self._size * 2

    def _usable(self) -> None:
        self._free += 1
        if self._packets and self._left:
            size, partner = self._packets.popleft()
            mail, rank = self._host.mail, self._place.rank
            mail.send(self._tag, rank, partner, size, None)
            mail.receive(self._tag, partner, rank, size, self._put)
            self._left -= 1
            self._free -= 1
        elif not self._left and self._free == 1:
            self._done()
