"""A custom collective: every position runs a small program of sends, receives and delays, without lanes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from astrarium.engine.hash_order import hash_order
from astrarium.engine.plan import CustomProgram, Kind
from astrarium.engine.reference.astra_messages import Mail
from astrarium.engine.reference.clock import Event, NpuEvents
from astrarium.engine.reference.program import Table

__all__ = ["Custom"]


class Custom:
    """Issues every free node, in the order of ASTRA-sim's set of them; ends when nothing is free and nothing runs."""

    def __init__(self, npu: NpuEvents, mail: Mail, custom: CustomProgram, program: Table, position: int,
                 ranks: Callable[[int], int], tag: Callable[[int], int], done: Event) -> None:
        self._npu, self._mail, self._program, self._done, self._tag = npu, mail, program, done, tag
        number = int(custom.program_of[position])
        peers, tags = custom.slot_peer[number].tolist(), custom.slot_tag[number].tolist()
        self._rank = ranks(position)
        self._peers, self._tags = [ranks(peer) for peer in peers], tags
        self._parents = list(program.parents)
        self._free: list[int] = custom.roots[number].tolist()
        self._grown = 0     # how often the set of free nodes has grown
        self._running = 0

    def start(self) -> None:
        """Issue the roots."""
        self._issue()

    def _issue(self) -> None:
        free, self._grown = hash_order(self._free, self._program.node_id, self._grown)
        self._free = []
        for node in free:
            self._running += 1
            self._issue_node(node)

    def _issue_node(self, node: int) -> None:
        program, ended = self._program, partial(self._ended, node)
        kind, slot, size = program.kind[node], program.slot[node], program.size[node]
        if kind == Kind.SEND:
            self._mail.send(self._tag(self._tags[slot]), self._rank, self._peers[slot], size, ended)
        elif kind == Kind.RECV:
            self._mail.receive(self._tag(self._tags[slot]), self._peers[slot], self._rank, size, ended)
        else:
            self._npu.after(program.duration[node], ended)

    def _ended(self, node: int) -> None:
        self._running -= 1
        for child in self._program.children[node]:
            self._parents[child] -= 1
            if not self._parents[child]:
                self._free.append(child)
        self._issue()
        if not self._running:
            self._done()
